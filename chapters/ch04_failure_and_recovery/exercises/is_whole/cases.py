"""The cases, and the code that runs next to the answer."""

import hashlib
import json
import tempfile
from pathlib import Path

from coursekit.kit.results import outcome_of

LIST, RANKS = "files.json", ("rank-0.pt", "rank-1.pt", "rank-2.pt")


def data_of(name) -> bytes:
    return name.encode() * 500


def note_of(data) -> dict:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def make_whole(folder, names=RANKS):
    for name in names:
        (folder / name).write_bytes(data_of(name))
    files = {name: note_of(data_of(name)) for name in names}
    (folder / LIST).write_text(json.dumps({"step": 50, "files": files}))


def flip_bit(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def try_is_whole(answer, happens) -> tuple:
    """Return the outcome of the answer, and whether it has left the folder unchanged."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "step-000050")
        folder.mkdir()
        make_whole(folder)
        happens(folder)
        before = contents(folder)
        return outcome_of(answer, folder), contents(folder) == before


def contents(folder) -> dict:
    return {path.name: path.is_file() and path.read_bytes() for path in folder.glob("*")}
