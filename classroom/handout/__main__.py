"""The command line: `python -m classroom.handout [CHAPTER …]`, or `make handout`."""

import argparse
import json
import sys
from pathlib import Path

from coursekit.building.build import ROOT
from coursekit.copies.working_copies import HANDOUT
from pedagogy_lib.basics.errors import LaunchError
from pedagogy_lib.basics.units import format_count

from .archive import write_handout
from .files import handout_files


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m classroom.handout",
        description="Make a folder and a zip for students: the course without any answers.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="CHAPTER",
        help="such as 02, or a part, such as 02b; without any: all",
    )
    parser.add_argument("--into", type=Path, default=ROOT / "handout", help="where to put them")
    arguments = parser.parse_args(argv)
    try:
        files = handout_files(arguments.names)
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2
    folder, archive = write_handout(files, arguments.into)
    parts = sum(name.startswith("notebooks/") for name in files)
    checks = len(json.loads(files[HANDOUT])["exercises"])
    print(f"{format_count(parts, 'part')} with {format_count(checks, 'exercise')}: {folder}")
    print(f"the same as one file, {archive.stat().st_size / 1e6:.1f} MB: {archive}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
