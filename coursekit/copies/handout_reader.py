"""The reader of a handout: a folder or a zip, which HANDOUT.json describes."""

import hashlib
import json
import zipfile
from pathlib import Path, PurePosixPath

from pedagogy_lib.basics.errors import WrongInput, need

from .working_copies import HANDOUT

MOST_BYTES = 500_000_000  # of all files in a zip


class Handout:
    """The files of a handout, {path: contents}, and its version."""

    def __init__(self, files: dict[str, bytes]):
        self.files, self.about = files, json.loads(files[HANDOUT])

    @property
    def version(self) -> str:
        return self.about["version"]


def handout_at(path: str) -> Handout:
    """Read a handout; raise WrongInput if there is none, or it is incomplete."""
    place = Path(path).expanduser()
    need(place.exists(), f"there is no {path}: give the folder or the zip of the new handout")
    files = files_in_folder(place) if place.is_dir() else files_in_zip(place)
    need(HANDOUT in files, f"{path} is no handout: there is no {HANDOUT} in it")
    handout = Handout(files)
    for name, digest in handout.about["files"].items():
        is_whole = name in files and hashlib.sha256(files[name]).hexdigest() == digest
        need(is_whole, f"{path} is incomplete, or somebody has worked in it: see {name}. Take the "
             "handout as it came")  # fmt: skip
    handout.files = {name: files[name] for name in [*handout.about["files"], HANDOUT]}
    return handout


def files_in_folder(place: Path) -> dict[str, bytes]:
    about = place / HANDOUT
    if not about.exists():
        return {}
    names = [HANDOUT, *json.loads(about.read_text(encoding="utf-8"))["files"]]
    return {name: (place / name).read_bytes() for name in names if (place / name).is_file()}


def files_in_zip(place: Path) -> dict[str, bytes]:
    """Return the files of a zip, whose one folder is left out of their names."""
    try:
        with zipfile.ZipFile(place) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            total = sum(entry.file_size for entry in entries)
            need(total < MOST_BYTES, f"{place} is too large to be a handout")
            found = {entry.filename: archive.read(entry) for entry in entries}
    except (zipfile.BadZipFile, OSError) as error:
        raise WrongInput(f"{place} is no zip that can be read ({error})") from None
    return {remove_top_folder(name): data for name, data in found.items()}


def remove_top_folder(name: str) -> str:
    parts = PurePosixPath(name).parts
    need(".." not in parts and not PurePosixPath(name).is_absolute(), f"{name} leads elsewhere")
    return "/".join(parts[1:])
