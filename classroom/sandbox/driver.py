"""What runs behind the walls: python -I driver.py COURSE IN OUT [--alone], see elsewhere.py."""

import runpy
import sys

sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("pedagogy_lib.course.elsewhere", run_name="__main__", alter_sys=True)
