"""A student's git repository without a working tree: the files of its HEAD.

Its own settings and hooks are not used, because git reads only its objects, from a new repository.
"""

import io
import os
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from .files import JUNK, Pile, clean_name, is_wanted

SECONDS = 60
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def is_bare(path: Path) -> bool:
    return (path / "HEAD").is_file() and (path / "objects").is_dir() and (path / "refs").is_dir()


def read_bare(path: Path) -> Pile:
    pile = Pile()
    commit = head_of(path)
    if commit is None:
        pile.tell(f"{clean_name(path.name)}: its HEAD names no commit")
        return pile
    with tempfile.TemporaryDirectory(prefix="repository-") as folder:
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": folder,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str((path / "objects").resolve()),
        }
        try:
            git(folder, environment, "init", "--quiet", "--bare", "--template=", ".")
            when = git(folder, environment, "show", "-s", "--format=%ct", commit)
            archive = git(folder, environment, "archive", "--format=tar", commit)
            pile.newest = float(when.split()[-1])
            read_tar(archive, pile)
        except (subprocess.SubprocessError, OSError, ValueError, tarfile.TarError) as error:
            said = getattr(error, "stderr", b"") or str(error).encode()
            pile.tell(
                f"{clean_name(path.name)} cannot be read by git: "
                f"{clean_name(said.decode('latin-1'))}"
            )
    return pile


def git(folder, environment, *arguments) -> bytes:
    command = ["git", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, check=True, timeout=SECONDS
    ).stdout


def head_of(path: Path) -> str | None:
    """Return the commit that HEAD names, or None."""
    head = small(path / "HEAD")
    if not head.startswith("ref: refs/"):
        return head if COMMIT.fullmatch(head) else None
    name = head.removeprefix("ref: ")
    if ".." in name:
        return None
    packed = [line.split() for line in small(path / "packed-refs").splitlines()]
    found = small(path / name) or next((one[0] for one in packed if one[1:] == [name]), "")
    return found if COMMIT.fullmatch(found) else None


def small(path) -> str:
    try:
        return path.read_bytes()[: 2**20].decode("latin-1").strip()
    except OSError:
        return ""


def read_tar(data: bytes, pile: Pile):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for entry in archive:
            if entry.isdir() or JUNK.search(entry.name):
                continue
            if not entry.isreg():
                pile.tell(f"{clean_name(entry.name)} is a link: refused")
            elif is_wanted(entry.name) and pile.may_take(entry.name, entry.size):
                pile.put(clean_name(entry.name), archive.extractfile(entry).read())
