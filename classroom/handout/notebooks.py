"""Notebooks and labs as learners get them, where there is no `solutions/`."""

import posixpath
import re

from pedagogy_lib.course.build import ROOT, dump, to_notebook, with_holes

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s]*)\)")
# Sentences on what is not in a handout.
ON_SOLUTIONS = [
    re.compile(r" A solved\s+and executed copy of each part, to look things up in, is in\s+"
               r"\[solutions/\]\(\.\./solutions\)\."),
]  # fmt: skip


def notebook_of(part: str, paths) -> bytes:
    """A part's notebook with holes. What it links to and is not in the handout, it only names.

    paths  all files of the handout
    """
    text = (ROOT / "solutions" / f"{part}.py").read_text(encoding="utf-8")
    notebook = to_notebook(with_holes(text), part)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for sentence in ON_SOLUTIONS:
                cell.source = sentence.sub("", cell.source)
            cell.source = with_links_to(paths, cell.source, "notebooks")
    return dump(notebook).encode()


def with_links_to(paths, text: str, folder: str) -> str:
    """Markdown in this folder, in which links lead only to what there is."""

    def checked(found: re.Match) -> str:
        picture, words, target = found.groups()
        if is_elsewhere(target) or leads_to(paths, target, folder):
            return found[0]
        return "" if picture else words

    return LINK.sub(checked, text)


def is_elsewhere(target) -> bool:
    """Whether a link leads to the web, or stays on its page."""
    return not target or target.startswith("#") or ":" in target


def leads_to(paths, target, folder) -> bool:
    path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
    return path in paths or any(one.startswith(f"{path}/") for one in paths)
