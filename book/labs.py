"""A page for each file of labs/, with its holes."""

import ast
from pathlib import Path

from coursekit.building.build import ROOT

from .links import page_of_lab

KINDS = {".py": "python", ".sbatch": "bash", ".yaml": "yaml"}


def programs() -> list[Path]:
    """Return the paths of the programs and of the cluster job files, relative to labs/."""
    folder = ROOT / "labs"
    found = [*folder.glob("*.py"), *(folder / "clusters").glob("*.*")]
    return sorted(path.relative_to(folder) for path in found if path.suffix in KINDS)


def pages() -> dict[str, str]:
    """Return {name of the page: its Markdown}, with the index and the published runs."""
    found = {page_of_lab(path.as_posix()): page(path) for path in programs()}
    published = (ROOT / "labs" / "published" / "README.md").read_text(encoding="utf-8")
    return found | {"published.md": published, "index.md": index()}


def page(path: Path) -> str:
    text = (ROOT / "labs" / path).read_text(encoding="utf-8")
    return (
        f"---\norphan: true\n---\n# labs/{path.as_posix()}\n\n"
        '<p class="course-bar"><a class="course-button" download '
        f'href="{find_root_path(path)}downloads/labs/'
        f'{path.as_posix()}">Download {path.name}</a> <a '
        f'href="{find_root_path(path)}labs/index.html">'
        f"All labs</a></p>\n\n"
        f"`````{KINDS[path.suffix]}\n{text}\n`````\n"
    )


def find_root_path(path: Path) -> str:
    return "../" * len(path.parts)


def summary(path: Path) -> str:
    """Return the first line of a program's docstring; job files have a fixed one."""
    if path.suffix != ".py":
        return "for a cluster"
    text = (ROOT / "labs" / path).read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]


def index() -> str:
    rows = [
        f"| [{path.as_posix()}]({page_of_lab(path.as_posix())}) | {summary(path)} |"
        for path in programs()
    ]
    return "\n".join([
        "# The labs", "",
        "The algorithms of the course, with holes where the exercises are. Each one with a `main`",
        "also runs alone, such as `torchrun --nproc-per-node 4 labs/collectives.py`. Most of the",
        "others draw the pictures of single parts.", "",
        "| program | what it is about |", "|---|---|", *rows, "",
        "Published runs, which the planner is held against: [where they come from](published.md).",
        "",
        "```{toctree}\n:hidden:\n\npublished\n```", "",
    ])  # fmt: skip
