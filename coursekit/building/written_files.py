"""Files that a build has written, told apart from those in which a learner has worked."""

import hashlib
import json
import subprocess
from pathlib import Path

WRITTEN = ".built.json"  # not part of the repository
# A commit that contains a build changes files in these; one of a learner's answers does not.
BUILT_FROM_OR_WITH = (b"chapters/", b"coursekit/", b"pedagogy_lib/", b"solutions/")


def read_written(root: Path) -> dict[str, str]:
    """Return a digest of each file that the last build here wrote."""
    path = root / WRITTEN
    return json.loads(path.read_text()) if path.exists() else {}


def note_written(written: dict[str, str], root: Path):
    """Store a digest of each file that this build wrote."""
    (root / WRITTEN).write_text(json.dumps(written, indent=1))


def digest_of(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def is_ours(path, written: str | None, root: Path) -> bool:
    """Return whether a build has made a file as it is: the last one here, or one that was pulled.

    A commit that contains a build also changes the sources or what is solved; one of a learner's
    answers does not.
    """
    if written is not None and digest_of(path) == written:
        return True
    name = path.relative_to(root).as_posix()
    if git(root, "show", f"HEAD:./{name}") != path.read_bytes():
        return False
    changed = git(
        root, "log", "-1", "--full-diff", "--name-only", "--relative", "--format=", "--", name
    )
    return any(line.startswith(BUILT_FROM_OR_WITH) for line in changed.split(b"\n"))


def git(root, *words) -> bytes:
    """Return the output of git in the course's folder; it is empty where there is no repository."""
    run = subprocess.run(["git", *words], cwd=root, capture_output=True, check=False)
    return run.stdout if run.returncode == 0 else b""


def move_aside(path) -> Path:
    """Move a file out of the way: `labs/collectives.py` to `labs/collectives.mine-1.txt`."""
    number = 1
    while (kept := path.with_name(f"{path.stem}.mine-{number}.txt")).exists():
        number += 1
    return path.rename(kept)
