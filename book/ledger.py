"""The ledger's pages, if `python -m pedagogy_lib ledger` has written them, and where they lie."""

import shutil
from pathlib import Path

from pedagogy_lib.course.build import ROOT

LEDGER = ROOT / "ledger"
PAGES = {"index.html": "Every claim of the documents, and what was measured",
         "corrections.html": "Corrections to the documents"}  # fmt: skip


def is_there(folder: Path = LEDGER) -> bool:
    return all((folder / name).exists() for name in PAGES)


def page() -> str:
    """A page of the site that leads to the ledger's own."""
    cards = "".join(
        f'<a class="course-card" href="ledger/{name}">'
        f'<span class="course-card-title">{words}</span></a>'
        for name, words in PAGES.items()
    )
    return (
        "# The ledger\n\nThis course grew out of slides, a book chapter, web pages and notes. Each "
        "of their claims was tested where it can be. The ledger has a row for every one: its "
        "source, the verdict, the figure that decided it, and the part where it was measured.\n\n"
        f'<div class="course-cards">{cards}</div>\n'
    )


def put(site: Path, folder: Path = LEDGER):
    shutil.copytree(folder, site / "ledger", dirs_exist_ok=True)
