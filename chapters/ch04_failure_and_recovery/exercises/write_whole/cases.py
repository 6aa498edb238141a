"""The cases, and the code that runs next to the answer."""

import hashlib
import os
import tempfile
from pathlib import Path

from coursekit.kit import Rejection
from pedagogy_lib.basics.units import format_count

from .file_watch import run_writer

OLD, NEW = b"old " * 40_000, b"brand-new " * 30_000

WANTED, ELSE, ALIKE = "state.pt", "other.pt", "state.json"

HALF = len(NEW) // 2

DIRECTLY = (
    "the file itself is opened for writing: from that moment on the old one is gone, and the new "
    "one is not there yet. Write to another name in the same folder, and rename that when all of "
    "it is there"
)

IN_BETWEEN = (
    "between removing the old file and renaming the new one there is none. os.replace does both at "
    "once: it needs no room made for it"
)

NO_ERROR = "what could not be written has to be told: let the error go on to the caller"

LEFT = (
    "the file that could not be finished is still there, and takes room on a full disk: remove it "
    "(in `except`, or in `finally`), and let the error go on"
)

NEVER_SYNCED = (
    "write() hands the data to the operating system, which brings it to the disk when it likes. If "
    "the power fails after the renaming and before that, the new name has an empty file. os.fsync "
    "waits until it is there; then rename"
)

SYNCED_EARLY = (
    "os.fsync was called before all of it was with the operating system: Python keeps the last "
    "bytes in a buffer of its own until file.flush(), or the end of the `with`"
)

FOLDER = (
    "the renaming itself may be lost if the power fails: a folder is a kind of file, too, and has "
    "to be brought to the disk after it, as sync_folder does"
)

OTHER_FOLDER = (
    "another folder may be on another disk: there is no renaming from one disk to another, only a "
    "copy, which can be cut off. Write to a name in the folder of the file itself"
)

SAME_NAME = (
    "all ranks write into one folder, at the same time. Two of them would write into one and the "
    "same unfinished file: derive its name from that of the file, with its ending"
)

AGAIN = (
    "what a killed process has left behind must not stand in the way of the next one: open the "
    'unfinished file with "wb", which empties it, not with "xb"'
)

PILED_UP = (
    "whoever is killed cannot clean up. If each call writes to another name, with the number of "
    "the process or by chance, these files pile up, one for each crash, until the disk is full. "
    "Take the same name each time: the next call for this file writes over what was left"
)


def checksum(data) -> str:
    return hashlib.sha256(data).hexdigest()


class Place:
    """A folder with an old file in it."""

    def __init__(self, folder, with_old=True):
        self.folder, self.path = Path(folder), Path(folder, WANTED)
        if with_old:
            self.path.write_bytes(OLD)
        self.held = []

    def note(self, path=None):
        """Record the checksum of a file as it is now, or None if it does not exist."""
        path = path or self.path
        self.held.append(checksum(path.read_bytes()) if path.exists() else None)

    def describe_file(self) -> str:
        """Describe the file of the wanted name; return "" if it is the old or the new one."""
        try:
            data = self.path.read_bytes()
        except OSError:
            return "there is no file"
        if data in (OLD, NEW):
            return ""
        kind = "new" if NEW.startswith(data) else "old" if OLD.startswith(data) else "other"
        return f"the file has {len(data):,} bytes of {kind} data: neither the old one nor the new"

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


def run_in_folder(work):
    """Wrap `work` in a case with its own folder, which has an old file in it."""

    def case(answer):
        with tempfile.TemporaryDirectory() as folder:
            place = Place(folder)
            return {"told": work(answer, place), "held": place.held}

    return case


def need_written(place, seen, path=None):
    """Refuse an answer that was left alone and has not written the file."""
    if seen.raised:
        raise Rejection(f"it raised {seen.raised[1]}", "")
    path = path or place.path
    place.note(path)
    if not path.exists():
        raise Rejection(
            f"there is no file {path.name}", "the file has to have the name that is given"
        )
    if path.read_bytes() != NEW:
        what = "it still has the old data" if path.read_bytes() == OLD else "its data is wrong"
        raise Rejection(f"{path.name} was written: {what}", "write `data`, all of it, as it is")


@run_in_folder
def check_normal_writes(answer, place):
    place.path.unlink()
    seen = run_writer(answer, place.path, NEW)
    if seen.outside:
        raise Rejection(f"it writes to {seen.outside[0]}", OTHER_FOLDER)
    need_written(place, seen)
    place.path.write_bytes(OLD)
    need_written(place, run_writer(answer, str(place.path), NEW))
    if place.names() != [WANTED]:
        others = ", ".join(name for name in place.names() if name != WANTED)
        raise Rejection(f"another file is left in the folder: {others}",
                      "when it is done, the folder has the file, and nothing else")  # fmt: skip
    before = os.getcwd()
    os.chdir(place.folder)
    try:
        need_written(place, run_writer(answer, ELSE, NEW), place.folder / ELSE)
    finally:
        os.chdir(before)
    return "a new file, one in place of an old one, one named without a folder"


@run_in_folder
def kill_mid_write(answer, place):
    for size in (1, HALF, len(NEW) - 1):
        run_writer(answer, place.path, NEW, limit_bytes=size, dies=True)
        place.note()
        if problem := place.describe_file():
            raise Rejection(f"killed after {size:,} byte{'s' * (size > 1)}: {problem}", DIRECTLY)
    return "killed after 1 byte, a half, all but one: the old file is whole"


@run_in_folder
def kill_between_calls(answer, place):
    done = run_writer(answer, place.path, NEW)
    for number in range(1, len(done.doings) + 1):
        for name in place.names():
            (place.folder / name).unlink()
        place.path.write_bytes(OLD)
        run_writer(answer, place.path, NEW, kill_at=number)
        place.note()
        if problem := place.describe_file():
            why = IN_BETWEEN if "no file" in problem else DIRECTLY
            raise Rejection(f"killed before `{done.doings[number - 1]}`: {problem}", why)
        need_goes_on(answer, place)
    calls = format_count(len(done.doings), "call")
    return f"{calls} touch the disk: killed before each, and written again after that"


def need_goes_on(answer, place):
    seen = run_writer(answer, place.path, NEW)
    if seen.raised:
        raise Rejection(f"after it was killed, the next call raised {seen.raised[1]}", AGAIN)
    need_written(place, seen)
    if place.names() != [WANTED]:
        others = ", ".join(name for name in place.names() if name != WANTED)
        raise Rejection(f"killed, and called again, it leaves this behind: {others}", PILED_UP)


@run_in_folder
def full_disk(answer, place):
    seen = run_writer(answer, place.path, NEW, limit_bytes=HALF)
    place.note()
    if problem := place.describe_file():
        raise Rejection(f"the disk is full after {HALF:,} bytes: {problem}", DIRECTLY)
    if place.path.read_bytes() == OLD and not seen.raised:
        raise Rejection("the disk is full, and no error is raised", NO_ERROR)
    if "OSError" not in seen.raised[0]:
        raise Rejection(f"the disk is full, and it raises {seen.raised[1]}", NO_ERROR)
    if place.names() != [WANTED]:
        raise Rejection(
            f"the disk is full, and this is left on it: {', '.join(place.names())}", LEFT
        )
    return "it raises, the old file is whole, and nothing else is left"


@run_in_folder
def power_cut(answer, place):
    why = {"never": NEVER_SYNCED, "too early": SYNCED_EARLY}
    for data in (NEW, NEW[:100]):  # short data stays in Python's buffer
        seen = run_writer(answer, place.path, data)
        place.note()
        for problem in filter(None, seen.unsynced):
            what = f"{len(data):,} bytes: when the file is renamed, not all is on the disk yet"
            raise Rejection(what, why[problem])
        if not seen.folder_synced:
            raise Rejection("when it returns, the new name may not be on the disk yet", FOLDER)
    return "renamed when all of it is on the disk, and the folder after that"


@run_in_folder
def many_at_once(answer, place):
    first = run_writer(answer, place.path, NEW)
    place.note()
    for name in (ELSE, ALIKE):
        both = set(first.written) & set(run_writer(answer, place.folder / name, NEW).written)
        if both:
            what = f"{WANTED} and {name} are both written to `{min(both)}` first"
            raise Rejection(what, SAME_NAME)
    return "files in one folder do not meet, also if only their endings differ"
