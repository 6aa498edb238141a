"""The ledger as pages of the site: every statement of the documents, and the corrections."""

import shutil
from importlib.util import find_spec
from pathlib import Path

from coursekit.building.build import ROOT
from pedagogy_lib.basics.errors import LaunchError

MODULE = "coursekit.ledger.ledger_pages"
FIRST = "ledger/index"
PAGES = {FIRST: "The ledger", "ledger/corrections": "Corrections to the documents"}
FILES = ("ledger.css", "ledger.js")


def pages() -> dict[str, str]:
    """Return {name of the page: its Markdown}, empty where the ledger or a statement is missing."""
    if find_spec(MODULE) is None:
        return {}
    from coursekit.ledger.ledger import ledger
    from coursekit.ledger.ledger_pages import corrections_body, ledger_body

    try:
        rows = ledger()
    except LaunchError as error:
        print(f"The book is without the ledger: {error}")
        return {}
    bodies = ledger_body(rows, part_of), corrections_body(rows, part_of)
    return {name: page(name, title, body) for (name, title), body in zip(PAGES.items(), bodies)}


def page(name, title, body) -> str:
    """Return the Markdown of a page whose table scrolls if it is wider than the screen."""
    tree = "\n```{toctree}\n:hidden:\n\ncorrections\n```\n" if name == FIRST else ""
    return (
        f"---\nhtml_theme.sidebar_secondary.remove: true\n---\n# {title}\n\n"
        f'<div class="course-table course-ledger" tabindex="0">\n{strip_blank_lines(body)}\n'
        '</div>\n<link rel="stylesheet" href="../_static/ledger.css">\n'
        f'<script defer src="../_static/ledger.js"></script>\n{tree}'
    )


def part_of(row) -> str:
    return f"../parts/{row.stem}.html"


def strip_blank_lines(html: str) -> str:
    """Remove blank lines, because HTML in Markdown ends at a blank line."""
    return "\n".join(line.strip() for line in html.splitlines() if line.strip())


def put(site: Path):
    """Copy the style sheet and the script that the ledger's pages load."""
    folder = ROOT / "coursekit" / "ledger" / "ledger_page"
    for name in FILES:
        shutil.copy(folder / name, site / "_static")
