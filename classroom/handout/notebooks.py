"""Notebooks as learners get them in a handout, which has no `solutions/`."""

import posixpath
import re

from coursekit.building.build import dump, insert_holes, make_notebook, source_of, text_of

LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^()\s]*)\)")
DEFINED = re.compile(r"^\[(\w+)\]: (\S+)\n?", re.MULTILINE)  # below a text: the target of [05b]
ON_SOLUTIONS = {  # {a sentence that is not true in a handout: one that is}
    " A solved and executed copy of each part, to look things up in, is in "
    "[solutions/](../solutions).": "",
    "A function of a lab that you have not written yet is taken from our solution. A function that "
    "you have begun is run as it is, finished or not. To run our solution instead, write "
    '`lab("collectives", ours="broadcast_tree")`.':
        "A cell that needs a function of a lab that you have not written yet stops, and names the "
        "exercise that comes first. Cells behind it may miss its results. Go on to the exercise, "
        "and come back.",
    "A function of the lab that you have not written yet is taken from the solution.":
        "A cell that needs a function of the lab that you have not written yet stops, and names "
        "the exercise.",
    " (Until then, the course uses its own solution.)": "",
    "Those that you have not written yet are there, solved.": "Write them first.",
}  # fmt: skip


def notebook_of(part: str, paths) -> bytes:
    """Return a part's notebook with holes; links to what is not in the handout keep their words.

    paths  all files of the handout
    """
    text = text_of(source_of(part))
    notebook = make_notebook(insert_holes(text), part)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            source = replace_solution_sentences(cell.source)
            cell.source = drop_missing_links(paths, source, "notebooks")
    return dump(notebook).encode()


def replace_solution_sentences(source: str) -> str:
    """Return a cell's text, with the sentences that are true where there is no solution."""
    for sentence, instead in ON_SOLUTIONS.items():
        pattern = r"\s+".join(map(re.escape, sentence.split(" ")))
        source = re.sub(pattern, lambda _, instead=instead: instead, source)
    return source


def drop_missing_links(paths, text: str, folder: str) -> str:
    """Return Markdown of this folder in which links lead only to what exists."""

    def replace_link(found: re.Match) -> str:
        picture, words, target = found.groups()
        if is_elsewhere(target) or leads_to(paths, target, folder):
            return found[0]
        return "" if picture else words

    return drop_missing_definitions(paths, LINK.sub(replace_link, text), folder)


def drop_missing_definitions(paths, text: str, folder: str) -> str:
    """Drop `[words][name]` and `[name]` whose targets, defined below the text, do not exist."""
    for line in list(DEFINED.finditer(text)):
        name, target = line.groups()
        if not is_elsewhere(target) and not leads_to(paths, target, folder):
            text = text.replace(line[0], "")
            text = re.sub(rf"\[([^\]]*)\]\[{name}\]|\[({name})\]", r"\1\2", text)
    return text


def is_elsewhere(target) -> bool:
    """Return whether a link leads to the web, or stays on its page."""
    return not target or target.startswith("#") or ":" in target


def leads_to(paths, target, folder) -> bool:
    path = posixpath.normpath(posixpath.join(folder, target.partition("#")[0]))
    return path in paths or any(one.startswith(f"{path}/") for one in paths)
