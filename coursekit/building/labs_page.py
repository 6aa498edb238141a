"""The page labs/README.md: which lab belongs to which chapter, and which exercises it holds."""

import ast
from pathlib import Path

from ..chapters import Chapter, chapters, insert_numbers
from ..labs.holes import numbers_in

HEAD = """# Labs

The algorithms of the course as programs. Write your answers in those that name exercises;
`lab("zero")` takes your functions into a notebook, and ours where there is still a hole. Most
labs also run by themselves: `torchrun --nproc-per-node 4 zero.py`. Built from
[chapters/](../chapters) by `make build`.
"""


def labs_page() -> str:
    """Return the text of labs/README.md."""
    return HEAD + "".join(map(section_of, chapters().values()))


def section_of(chapter: Chapter) -> str:
    """Return a chapter's heading and the table of its labs, those with exercises first."""
    rows = sorted(map(row_of, sorted((chapter.folder / "labs").glob("*.py"))), key=has_no_exercise)
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    head = f"\n## Chapter {chapter.number} · {chapter.title}\n\n"
    return f"{head}| lab | contents | exercises |\n|---|---|---|\n{table}" if rows else ""


def row_of(lab: Path) -> tuple[str, str, str]:
    """Return a lab's link, the first line of its docstring, and the numbers of its exercises."""
    tree = ast.parse(insert_numbers(lab.read_text(encoding="utf-8")))
    title = ast.get_docstring(tree).splitlines()[0].rstrip(".").replace("|", "\\|")
    return f"[{lab.name}]({lab.name})", title, ", ".join(numbers_in(tree).values())


def has_no_exercise(row: tuple[str, str, str]) -> bool:
    return not row[2]
