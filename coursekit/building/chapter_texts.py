"""Texts that are generated from chapter.toml: markers in the sources of parts, and CHAPTERS.md.

A marker is used in a Markdown cell: {{title}}, {{takes}}, {{next}}, {{questions}} or {{paths}}.
"""

import re
from collections.abc import Callable
from pathlib import Path
from textwrap import fill as wrap

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import format_count

from ..chapters import MARKER, NAMED, Part, course, exercise_numbers, insert_numbers, parts

WIDTH = 98
LEFT_ALONE, FORMULA = r"```.*?```|`[^`]*`|\$\$.*?\$\$", r"\$([^$]+)\$([.,;:?!])"
END_OF_FORMULA = re.compile(f"({LEFT_ALONE})|{FORMULA}", re.DOTALL)
HEADING = re.compile(r"^# ### Exercise \{\{(\w+)\}\}", re.MULTILINE)
CALL = re.compile(r'\bcheck\(\s*"\{\{(\w+)\}\}"')
COVER = re.compile(r'^# %%.*tags=\[[^\]]*"cover"', re.MULTILINE)
HEAD = """# The chapters

Written by `make build` from `chapters/`. Each link leads to a solved and executed notebook.

## What to read for which question

Read the parts of a row from left to right. The minutes are those to read and run them, without
exercises. A part may use words of earlier parts: chapter 00 lists them.

"""
TABLE = """## All parts

Minutes: to read and run, and for the exercises.

| | you write | and measure | minutes |
|---|---|---|---|
"""


def need_parts_in_order(sources: list[Path]):
    """Raise WrongInput unless parts' sources have covers, and the exercises of chapter.toml."""
    listed = {part.stem: part.exercises for part in parts().values()}
    for source in sources:
        if source.stem in listed:
            need_part_in_order(source, listed[source.stem])


def need_part_in_order(source: Path, listed: tuple[str, ...]):
    """Raise WrongInput unless a part has a cover, and the exercises listed, in their order."""
    text = source.read_text(encoding="utf-8")
    headings = tuple(HEADING.findall(text))
    need(
        headings == listed,
        f"{source.name} has headings `### Exercise {{{{name}}}} · Title` with the names "
        f"{', '.join(headings) or 'none'}; chapter.toml lists {', '.join(listed) or 'none'}",
    )
    unknown = sorted({*CALL.findall(text)} - exercise_numbers().keys())
    need(not unknown, f"{source.name} checks {', '.join(unknown)}, which no chapter.toml lists")
    need(
        COVER.search(text),
        f"{source.name} has no cell with the tag `cover`, whose picture it needs",
    )


def expand_markers(text: str, stem: str) -> str:
    """Return a Markdown cell of a part's source with its markers replaced.

    Raises  WrongInput for a marker that does not exist
    """
    part = parts().get(stem.partition("_")[0])

    def expand_marker(found: re.Match) -> str:
        need(
            found[1] in MARKERS,
            f"{stem}: {found[0]} is no marker; there are {', '.join(MARKERS)}",
        )
        return MARKERS[found[1]](part)

    return MARKER.sub(expand_marker, text)


def join_punctuation(text: str) -> str:
    """Return a text whose formulas contain the punctuation that follows them.

    A browser may break a line between a formula and the full stop after it.
    """
    return END_OF_FORMULA.sub(lambda found: found[1] or f"${found[2]}{{{found[3]}}}$", text)


def takes(part: Part) -> str:
    """Return the sentences on the time that a part takes and the parts that it needs."""
    more = f", and {part.writing} more for {format_count(len(part.exercises), 'exercise')}"
    shown = link if len(part.prerequisites) < 3 else short_link
    needs = NAMED.sub(lambda found: shown(parts()[found[1]]), insert_numbers(part.needs))
    return (
        f"**It takes** about {part.reading} minutes{more * bool(part.exercises)}. **It needs** "
        f"{needs}."
    )


def next_part(part: Part) -> str:
    """Return a link to the part that follows."""
    _, *later = list(parts())[list(parts()).index(part.name) :]
    need(later, f"{part.stem}: no part follows the last one, so it has no {{{{next}}}}")
    return link(parts()[later[0]])


def link(part: Part) -> str:
    return f"[{part}]({part.stem}.ipynb)"


def short_link(part: Part) -> str:
    return f"[{part.name}]({part.stem}.ipynb)"


def questions() -> str:
    """Return the table of questions, in which a name in brackets is a part."""
    rows = ["| question | read | minutes |", "|---|---|---|"]
    for entry in course()["questions"]:
        minutes = sum(parts()[name].reading for name in NAMED.findall(entry["read"]))
        rows.append(f"| {entry['question']} | {entry['read']} | {minutes} |")
    return "\n".join(rows)


def paths() -> str:
    """Return the paths through the course as a list, in which a name in brackets is a part."""
    return "\n".join(map(path_text, course()["paths"]))


def path_text(entry: dict) -> str:
    names, written = entry.get("parts", list(parts())), entry.get("exercises_of", [])
    reading = sum(parts()[name].reading for name in names)
    writing = sum(parts()[name].writing for name in written)
    told = entry["text"].format(
        parts=bracket_names(names), exercises_of=bracket_names(written), reading=reading,
        writing=writing, hours=round_to_hours(reading + writing),
        hours_for_all=round_to_hours(sum(part.writing for part in parts().values())),
    )  # fmt: skip
    item = f"* **{entry['name']}**{told}"
    return wrap(item, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def bracket_names(names) -> str:
    """Join the names of parts as in "[00], [00b] and [02]"."""
    *some, last = [f"[{name}]" for name in names] or [""]
    return f"{', '.join(some)} and {last}" if some else last


def round_to_hours(minutes: int) -> int:
    return round(minutes / 60)


def append_addresses(text: str) -> str:
    """Return a text followed by the addresses of the parts that it names in brackets."""
    named = sorted(set(NAMED.findall(text)))
    return "\n".join([text, "", *(f"[{name}]: {parts()[name].stem}.ipynb" for name in named)])


def chapters_page() -> str:
    """Return the text of CHAPTERS.md."""

    def links(text):
        return NAMED.sub(lambda name: f"{name[0]}(solutions/{parts()[name[1]].stem}.ipynb)", text)

    rows = "\n".join(map(row, parts().values()))
    return f"{HEAD}{links(questions())}\n\n## Three paths\n\n{links(paths())}\n\n{TABLE}{rows}\n"


def row(part: Part, folder: str = "solutions") -> str:
    """Return a part's row in the table of all parts, with a link into this folder."""
    minutes = f"{part.reading} + {part.writing}" if part.writing else part.reading
    cells = f"[{part}]({folder}/{part.stem}.ipynb) | {part.write} | {part.measure} | {minutes}"
    return f"| {cells} |"


MARKERS: dict[str, Callable[[Part], str]] = {
    "title": str,
    "takes": takes,
    "next": next_part,
    "questions": lambda _: append_addresses(questions()),
    "paths": lambda _: append_addresses(paths()),
}
