"""The recorded views of parts in assets/views/: their renewal, and a check of their files.

The files of a part are STEM-1.json, STEM-2.json, … for each explore(), and their pictures,
STEM-HASH.webp. `pedagogy_lib/widgets/view_files.py` writes them.
"""

import json
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from pathlib import Path

from pedagogy_lib.basics.screen import EXPLORER


@contextmanager
def fresh_views(folder: Path, stem: str):
    """Yield a folder for the views of a part that is executed; they then replace the old ones.

    If the part fails, the old ones stay.
    """
    with tempfile.TemporaryDirectory() as fresh:
        yield Path(fresh)
        for old in files_of(folder, stem):
            old.unlink()
        for new in files_of(Path(fresh), stem):
            folder.mkdir(parents=True, exist_ok=True)
            shutil.move(new, folder / new.name)


def files_of(folder: Path, stem: str) -> list[Path]:
    """Return the files of one part, whose stem has no hyphen."""
    return sorted(folder.glob(f"{stem}-*"))


def find_view_names(notebook) -> list[str]:
    """Return the records that the outputs of a part name: "02c_the_ring-1"."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    named = [output.get("metadata", {}).get(EXPLORER) for output in outputs]
    return [name for name in named if name]


def wrong_views(folder: Path, names: Iterable[str]) -> list[str]:
    """Describe the files that are missing in the folder of the views, and those that nothing names.

    names  the names of all records in the parts' outputs
    """
    wanted = set()
    for name in names:
        record = folder / f"{name}.json"
        wanted.add(record.name)
        if record.exists():
            views = json.loads(record.read_text(encoding="utf-8"))["views"]
            wanted |= {view["src"] for view in views.values()}
    there = {path.name for path in folder.iterdir()} if folder.exists() else set()
    missing = [f"{name} is missing" for name in sorted(wanted - there)]
    return missing + [f"nothing names {name}" for name in sorted(there - wanted)]
