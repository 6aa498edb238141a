"""python -m book: write the site into site/, or into the folder that is named."""

import sys
import time
from importlib.util import find_spec
from pathlib import Path

from coursekit.building.build import ROOT
from pedagogy_lib.basics.errors import WrongInput


def main(words) -> int:
    if find_spec("myst_nb") is None:
        print("the book needs Sphinx: python3 tools/setup.py book (Python 3.11 or newer)")
        return 2
    from .site_builder import build

    site = Path(words[0]) if words else ROOT / "site"
    began = time.perf_counter()
    try:
        failed = build(site.resolve())
    except WrongInput as error:
        print(error, file=sys.stderr)
        return 2
    if not failed:
        print(f"wrote {site}/index.html in {time.perf_counter() - began:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
