"""A handout as a folder and as a zip, the same bytes every time."""

import io
import json
import shutil
import zipfile
from pathlib import Path

from coursekit.copies.working_copies import HANDOUT

BEFORE_ALL = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can hold
MODE = 0o644


def folder_of(files) -> str:
    """Return the folder's name, such as `distributed-training-02-1.0.0-1a2b3c4d`."""
    about = json.loads(files[HANDOUT])
    return f"{about['name']}-{about['version']}"


def zip_handout(files) -> bytes:
    """Return a zip of all files, in a folder with the handout's name."""
    buffer, folder = io.BytesIO(), folder_of(files)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in sorted(files.items()):
            archive.writestr(entry(f"{folder}/{name}", MODE), data)
    return buffer.getvalue()


def entry(name, mode) -> zipfile.ZipInfo:
    """Return the entry of a file in a zip, the same on every system and every day."""
    found = zipfile.ZipInfo(name, BEFORE_ALL)
    found.external_attr = (0o100000 | mode) << 16
    found.create_system = 3
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def write_files(files, folder: Path):
    for name, data in sorted(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(MODE)


def write_handout(files, where: Path) -> tuple[Path, Path]:
    """Write and return the folder and the zip; those of the same version are replaced."""
    folder = where / folder_of(files)
    shutil.rmtree(folder, ignore_errors=True)
    write_files(files, folder)
    archive = where / f"{folder.name}.zip"
    archive.write_bytes(zip_handout(files))
    return folder, archive
