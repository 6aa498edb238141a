"""The glossary: each word of part 00's table, and the parts that introduce it and use it."""

import re
from dataclasses import dataclass
from functools import cached_property

from coursekit.building.build import ROOT
from coursekit.chapters import parts
from pedagogy_lib.basics.errors import need

from .links import slug
from .notebook_format import read

ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \| (\d\d[a-z]?) \|$", re.MULTILINE)
HEADING = "| word | meaning | part |"
FIRST_PART = "00_start_here"
# Everything that is not prose: code, formulas, links and pictures, tags, headings, tables.
NO_PROSE = re.compile(
    r"```.*?```|`(?:[^`\n]|\n(?!\s*\n))*`|\$\$.*?\$\$|\$[^$]+\$|!?\[[^\]]*\]\([^)]*\)|\[[^\]]*\]\[[^\]]*\]|<[^>]+>"
    r"|^#[^\n]*|^\|[^\n]*",
    re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Entry:
    """A row of the table, such as "weak, strong scaling".

    words    as texts have them: ("weak scaling", "strong scaling")
    meaning  in Markdown
    part     the part that introduces it: "03k"
    """

    name: str
    words: tuple[str, ...]
    meaning: str
    part: str

    @property
    def anchor(self) -> str:
        return f"word-{slug(self.name.replace(',', ''))}"

    @cached_property
    def pattern(self) -> re.Pattern:
        """A pattern that finds the words in a text, also in the plural and across line ends."""
        forms = "|".join(re.sub(r"\\?[ -]", r"[\\s-]+", re.escape(word)) for word in self.words)
        return re.compile(rf"(?<![\w-])(?:{forms})(?:e?s)?(?![\w-])", re.IGNORECASE)


def entries() -> list[Entry]:
    """Return all entries, in the order of the table."""
    cells = read(ROOT / "notebooks" / f"{FIRST_PART}.ipynb")
    tables = [cell.source for cell in cells if HEADING in cell.source]
    need(tables, f"{FIRST_PART} has no table of words any more: {HEADING}")
    rows = ROW.findall(tables[0].partition(HEADING)[2])
    return [Entry(name, words_of(name), meaning, part) for name, meaning, part in rows]


def words_of(name: str) -> tuple[str, ...]:
    """Split a name: "weak, strong scaling" has a shared end, "world, world size" has not."""
    *first, last = name.split(", ")
    begin, _, end = last.partition(" ")
    shared = end and not any(" " in word or word == begin for word in first)
    return (*(f"{word} {end}" if shared else word for word in first), last)


def place_of(entry: Entry) -> str:
    """Return the anchor of a word's first use in a part."""
    return entry.anchor.replace("word-", "use-")


def anchor_first_uses(sources: list[str], all_entries) -> tuple[list[str], list[Entry]]:
    """Return a part's texts with an anchor at each word's first use, and the words it uses."""
    prose = [NO_PROSE.sub(lambda found: "\0" * len(found[0]), text) for text in sources]
    found = {entry: place for entry in all_entries if (place := first_use(prose, entry))}
    sources = list(sources)
    for entry, (number, at) in sorted(found.items(), key=lambda one: one[1], reverse=True):
        mark = f'<span id="{place_of(entry)}"></span>'
        sources[number] = f"{sources[number][:at]}{mark}{sources[number][at:]}"
    return sources, list(found)


def first_use(prose: list[str], entry: Entry) -> tuple[int, int] | None:
    """Return the index of the first text that uses a word and the position there, or None."""
    for number, text in enumerate(prose):
        if found := entry.pattern.search(text):
            return number, found.start()
    return None


def page(all_entries, used: dict[str, list[Entry]]) -> str:
    """Return the glossary's Markdown.  used  {name of a part: the words that it uses}"""
    chosen = sorted(all_entries, key=lambda entry: entry.name.lower())
    items = "\n\n".join(item(entry, used) for entry in chosen)
    return (
        "# Glossary\n\nEach word with its meaning, the part that introduces it, and the places "
        f"where it is used.\n\n{items}\n"
    )


def item(entry: Entry, used) -> str:
    places = [name for name, words in used.items() if entry in words and name != entry.part]
    links = " ".join(link(name, entry) for name in places)
    parts_word = "1 other part" if len(places) == 1 else f"{len(places)} other parts"
    where = (
        f'<details class="course-uses"><summary>used in {parts_word}</summary><p>{links}</p>'
        "</details>"
        if places
        else ""
    )
    home = parts()[entry.part]
    anchor = f"#{place_of(entry)}" if entry in used.get(entry.part, []) else ""
    introduced = f'<a href="parts/{home.stem}.html{anchor}">{home.name} · {home.title}</a>'
    return (
        f'<div class="course-word" id="{entry.anchor}"><p><b>{entry.name}</b></p>\n\n'
        f'{entry.meaning}\n\n<p class="course-where">{introduced}</p>{where}</div>'
    )


def link(name: str, entry: Entry) -> str:
    stem = parts()[name].stem
    return f'<a href="parts/{stem}.html#{place_of(entry)}">{name}</a>'


def words_introduced(name: str, all_entries) -> str:
    """Return a line for the end of a part, which links its own words to the glossary."""
    own = [entry for entry in all_entries if entry.part == name]
    links = ", ".join(f'<a href="../glossary.html#{entry.anchor}">{entry.name}</a>'
                      for entry in own)  # fmt: skip
    return f'<p class="course-words"><b>Words of this part</b> {links}</p>' if own else ""
