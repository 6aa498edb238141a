"""`python -m classroom.pages OUT`: write the pages again from OUT/results.json."""

import argparse
import json
from pathlib import Path

from . import write


def main():
    parser = argparse.ArgumentParser("python -m classroom.pages", description=__doc__)
    parser.add_argument("out", type=Path, help="the folder that holds results.json")
    parser.add_argument("--course", default="", metavar="ADDRESS",
                        help="where students find the notebooks: https://…/notebooks")  # fmt: skip
    options = parser.parse_args()
    paths = write(read(options.out / "results.json"), options.out, options.course)
    print(f"{len(paths)} files; begin with {options.out / 'index.html'}")


def read(path: Path) -> dict:
    """Read results; raise SystemExit with a sentence if the file is missing or holds none."""
    try:
        results = json.loads(path.read_text())
    except FileNotFoundError:
        raise SystemExit(f"there is no {path}: grade first, or name another folder") from None
    except ValueError as error:
        raise SystemExit(f"{path} holds no results ({error}): grade again") from None
    if not isinstance(results, dict) or not {"exercises", "students"} <= set(results):
        raise SystemExit(f"{path} holds no results: grade again")
    return results


if __name__ == "__main__":
    main()
