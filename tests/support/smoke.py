"""`make smoke`: whether an installation works, in one line; of what fails, all there is to know."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = [
    "tests/project/test_smoke.py",
    "solutions/00_start_here.ipynb",
]  # a handout has no solutions
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=600",
         "--nbval-sanitize-with=tests/support/nbval.cfg"]  # fmt: skip


def main() -> int:
    print("trying this installation, for about half a minute … ", end="", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", *NBVAL, *TESTS]
    done = subprocess.run(
        command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    *_, closing = done.stdout.splitlines() or [""]
    if done.returncode:
        print("it does not work", done.stdout, done.stderr, "make doctor says more", sep="\n")
    else:
        print(f"it works: {closing}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
