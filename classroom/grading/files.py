"""The files of an untrusted person's folder or archive, read within limits.

Nothing is unpacked to disk. Links, devices and paths that lead out are refused and reported.
"""

import io
import os
import re
import stat
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

WANTED = (".py", ".ipynb", ".zip", "timestamp.txt")
KEPT_BY_BUILD = re.compile(r"\.mine-\d+\.txt$")
JUNK = re.compile(
    r"(^|/)(__MACOSX|\.git|\.ipynb_checkpoints|__pycache__|\.originals|\.venv|venv|node_modules|"
    r"\._[^/]*|\.DS_Store|Thumbs\.db|desktop\.ini)(/|$)"
)
MOST_FILE_BYTES, MOST_BYTES, MOST_ENTRIES = 20 * 2**20, 100 * 2**20, 5000
MOST_RATIO = 200  # of a file's unpacked size to its size in the archive
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, NotImplementedError,
           RuntimeError, OverflowError, MemoryError)  # fmt: skip


@dataclass
class Pile:
    """The files of one submission, by path, and the problems to report."""

    files: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    newest: float = 0.0
    taken: int = 0
    entries: int = 0

    def may_take(self, name, size) -> bool:
        """Return whether a file of this size may be taken; report it if not."""
        self.entries += 1
        if self.entries > MOST_ENTRIES:
            self.tell(f"more than {MOST_ENTRIES} files: the rest was not read")
            return False
        if size > MOST_FILE_BYTES:
            self.tell(f"{clean_name(name)} is larger than {MOST_FILE_BYTES >> 20} MiB: not read")
            return False
        if self.taken + size > MOST_BYTES:
            self.tell(f"more than {MOST_BYTES >> 20} MiB in all: the rest was not read")
            return False
        return True

    def put(self, name, data):
        self.taken += len(data)
        self.files[free_name(name, self.files)] = data

    def tell(self, sentence):
        if sentence not in self.problems and len(self.problems) < 50:
            self.problems.append(sentence)


def clean_name(name: str) -> str:
    """Return a name without anything that a terminal, a table or a page would interpret."""
    data = name.encode(errors="surrogateescape")
    try:
        text = data.decode()
    except UnicodeDecodeError:  # from older Windows systems and archives
        text = data.decode("latin-1")
    clean = "".join(c if c.isprintable() else " " for c in text)
    return " ".join(clean.split())[:200] or "?"


def free_name(name, taken) -> str:
    if name not in taken:
        return name
    path, number = PurePosixPath(name), 2
    while (other := f"{path.with_suffix('')}-{number}{path.suffix}") in taken:
        number += 1
    return other


def is_wanted(name) -> bool:
    low = name.lower()
    return low.endswith(WANTED) or bool(KEPT_BY_BUILD.search(low))


# ---- Folders --------------------------------------------------------------------------------


def read_path(path: Path, pile: Pile | None = None) -> Pile:
    """Read the wanted files of a folder, of an archive, or a single file."""
    pile = Pile() if pile is None else pile
    if path.is_symlink():
        pile.tell(f"{clean_name(path.name)} is a link: refused")
    elif path.is_dir():
        read_folder(path, pile)
    else:
        read_file(path, path.name, pile)
    return pile


def read_folder(folder: Path, pile: Pile):
    for here, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(folders):
            if Path(here, name).is_symlink():
                pile.tell(f"{clean_name(relative(Path(here, name), folder))} is a link: refused")
        for name in sorted(names):
            path = Path(here, name)
            read_file(path, relative(path, folder), pile)


def relative(path, folder) -> str:
    return path.relative_to(folder).as_posix()


def read_file(path: Path, name: str, pile: Pile):
    if JUNK.search(name):
        return
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            kind = "a link" if stat.S_ISLNK(found.st_mode) else "a device or pipe"
            pile.tell(f"{clean_name(name)} is {kind}: refused")
            return
        if not is_wanted(name) or not pile.may_take(name, found.st_size):
            return
        pile.newest = max(pile.newest, found.st_mtime)
        take(name, path.read_bytes(), pile, depth=0)
    except OSError as error:
        pile.tell(f"{clean_name(name)} could not be read: {error.strerror or error}")


def take(name, data, pile, depth):
    """Keep a file, or the contents of an archive."""
    if not name.lower().endswith(".zip"):
        pile.put(clean_name(name), data)
    elif depth > 1:
        pile.tell(f"{clean_name(name)} is an archive in an archive in an archive: not read")
    else:
        read_zip(name, data, pile, depth)


# ---- Archives -------------------------------------------------------------------------------


def read_zip(name, data: bytes, pile: Pile, depth=0):
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for entry in archive.infolist()[: MOST_ENTRIES + 1]:
                read_entry(archive, entry, pile, depth)
    except DAMAGED as error:
        pile.tell(f"{clean_name(name)} is damaged, or no zip archive: {clean_name(str(error))}")


def read_entry(archive, entry, pile, depth):
    name = entry.filename
    why = explain_refusal(entry)
    if why:
        pile.tell(f"{clean_name(name)} {why}: refused")
    elif not (entry.is_dir() or JUNK.search(name)) and is_wanted(name):
        if not pile.may_take(name, entry.file_size):
            return
        if entry.file_size > MOST_RATIO * max(entry.compress_size, 1000):
            pile.tell(
                f"{clean_name(name)} unpacks to {MOST_RATIO} times its size and more: refused"
            )
            return
        try:
            with archive.open(entry) as file:
                content = file.read(min(entry.file_size, MOST_FILE_BYTES) + 1)
        except DAMAGED as error:
            pile.tell(f"{clean_name(name)} cannot be unpacked: {clean_name(str(error))}")
            return
        take(name, content, pile, depth + 1)


def explain_refusal(entry) -> str:
    """Return why an entry of an archive is refused, or "" if it is taken."""
    name = entry.filename.replace("\\", "/")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "is a link"
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        return "is a device or pipe"
    if name.startswith("/") or re.match(r"[A-Za-z]:", name) or ".." in name.split("/"):
        return "leads out of the archive"
    return "is encrypted" if entry.flag_bits & 1 else ""
