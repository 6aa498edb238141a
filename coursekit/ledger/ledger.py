"""The ledger: every statement of the documents, as the executed records have judged it."""

import json
import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pedagogy_lib.basics.errors import need
from pedagogy_lib.basics.units import format_count

from ..building.build import record_is_current, record_of, renew_records, sources

# {name of a document in the parts' tables: its description}
DOCUMENTS = {
    "PyTorch slides": "Distributed training with PyTorch, slides of a video course (hkproj)",
    "CS 229S": "CS 229S, lecture 8, slides (Stanford)",
    "web page": "Distributed Parallelism in Deep Learning, an interactive web page",
    "book chapter": "Data Parallelism Deep Dive, a chapter of a book",
    "blog": "The Evolution of Data Parallelism: from DP to DeepSpeed and FSDP, a blog",
    "web note": "Types of distributed training, a web note",
    "handwritten notes": "handwritten notes",
}
# The first of these patterns that fits the beginning of a verdict gives its kind.
KINDS = {
    "right": r"right$",
    "right on a condition": r"(about )?right\b",
    "contradiction": r"(they )?contradicts?\b",
    "wrong": r"wrong\b",
    "depends": r"(it )?depends\b",
    "imprecise": r"imprecise\b|in part\b",
    "not decided": r"(not|cannot)\b",  # by the run of this record
}
HAS_IT_RIGHT = "(right)"
SOURCE = re.compile(r"(?:^|; *)(" + "|".join(DOCUMENTS) + r")\b,? *")
SECTION = re.compile(r"\bsections? (\d+)")
ELSEWHERE = re.compile(r"\bpart (\d\d[a-z]?)\b")
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """A place in a document; `is_right` if, of several, it is the one that is right."""

    document: str
    heading: str
    is_right: bool = False

    def __str__(self):
        return f"{self.document}, {self.heading}" if self.heading else self.document


@dataclass(frozen=True)
class Row:
    """A statement, what was found about it, and where it was found.

    name      C001, …; a statement with several names has as many rows
    found     the figure that decided, as the part's table has it
    evidence  measured, computed or documented; `on_gpus` is what could change the verdict there
    stem      stem of the part whose table has it; `title` is that of the part
    cell      number of the table's cell in the executed notebook, from 1
    section   heading of the section in which the figure was found; "" if the table names none
    """

    name: str
    statement: str
    sources: tuple[Source, ...]
    verdict: str
    found: str
    evidence: str
    on_gpus: str
    stem: str
    title: str
    cell: int
    section: str

    @property
    def kind(self) -> str:
        return kind_of(self.verdict)

    @property
    def part(self) -> str:
        return self.stem.partition("_")[0]


def kind_of(verdict) -> str:
    """Return the kind of a verdict, by its first words."""
    for kind, words in KINDS.items():
        if re.match(words, verdict):
            return kind
    need(False, f"a verdict begins with {', '.join(KINDS)}; this one is {verdict!r}")


def sources_of(text) -> tuple[Source, ...]:
    """Return the places named in `PyTorch slides, “Ranks”; blog, “DP” (right)`, in order."""
    names = list(SOURCE.finditer(text))
    need(names and names[0].start() == 0, f"a source begins with a document's name, not {text!r}")
    ends = [after.start() for after in names[1:]] + [len(text)]
    places = []
    for name, end in zip(names, ends):
        heading = text[name.end() : end].strip()
        right = heading.endswith(HAS_IT_RIGHT)
        heading = heading.removesuffix(HAS_IT_RIGHT).strip()
        places.append(Source(name[1], heading, right))
    return tuple(places)


def ledger(records: list[Path] | None = None) -> list[Row]:
    """Return all rows, in the order of their names, from the executed records.

    Raises  LaunchError if a statement is in two tables, or a number between the first and the
            last is missing, or a statement does not say what its verdict rests on
    """
    records = records or list(map(record_of, sources()))
    rows = sorted(
        (row for record in records if record.exists() for row in rows_of(record)),
        key=lambda row: row.name,
    )
    for name, same in groupby(rows, key=lambda row: row.name):
        stems = [row.stem for row in same]
        need(len(stems) == 1, f"{name} stands in more than one table: {', '.join(stems)}")
    numbers = {int(row.name[1:]) for row in rows}
    missing = [f"C{k:03}" for k in range(1, max(numbers)) if k not in numbers]
    need(not missing, f"no executed part has {', '.join(missing)}: `make ledger` executes them")
    return rows


def rows_of(record: Path) -> list[Row]:
    """Return the rows of the statements that an executed part has put to the test."""
    cells = json.loads(record.read_text(encoding="utf-8"))["cells"]
    texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    title = texts[0].splitlines()[0].lstrip("# ")
    headings = HEADING.findall("\n".join(texts))
    return [
        row_of(name, entry, record.stem, title, headings, number)
        for number, cell in enumerate(cells, 1)
        for output in cell.get("outputs", [])
        for entry in output.get("metadata", {}).get("claims", [])
        for name in entry["claims"]
    ]


def row_of(name, entry, stem, title, headings, number) -> Row:
    """Return a row of the ledger from a claim's entry in the record of a part."""
    need("evidence" in entry, f"{name} in part {stem} does not say what its verdict rests on")
    return Row(
        name,
        entry["statement"],
        sources_of(entry["source"]),
        entry["verdict"],
        entry["found"],
        entry["evidence"],
        entry["on_gpus"],
        stem,
        title,
        number,
        section_of(entry["found"], headings),
    )


def section_of(found, headings) -> str:
    """Return the heading of the first section that is named as the place, if it is of this part."""
    named = SECTION.search(found)
    if not named or ELSEWHERE.search(found[: named.start()]):
        return ""
    return next((h for h in headings if re.match(rf"{named[1]}\b", h)), "")


def counts_of(rows) -> dict[str, dict[str, int]]:
    """Count the statements for each kind of verdict and each kind of evidence."""
    table = {kind: dict.fromkeys(("measured", "computed", "documented"), 0) for kind in KINDS}
    for row in rows:
        table[row.kind][row.evidence] += 1
    return table


def corrections(rows) -> dict[str, list[tuple[Source, Row]]]:
    """Return, for each document, the places that its author may want to change, in order."""
    found = {document: [] for document in DOCUMENTS}
    for row in rows:
        for source in row.sources:
            if row.kind != "right" and not source.is_right:
                found[source.document].append((source, row))
    return found


def execute_what_is_missing() -> None:
    """Execute the parts whose records are missing, or were made from other code."""
    old = [source.stem for source in sources() if not record_is_current(source)]
    if old:
        print(f"{format_count(len(old), 'part')} to execute: {', '.join(old)}")
        renew_records(force=False)
