"""The program in a sandbox: python -I driver.py COURSE IN OUT [--alone], see answer_server.py."""

import os
import sys

# A program without a file calls all that runs there: no line of it is reported as a student's.
PROGRAM = """
import runpy, sys
sys.path.insert(0, sys.argv.pop(1))
runpy.run_module("coursekit.answers.answer_server", run_name="__main__", alter_sys=True)
"""

os.execv(sys.executable, [sys.executable, "-I", "-c", PROGRAM, *sys.argv[1:]])
