"""The links in a notebook's text, rewritten for a page of the site."""

import re
from functools import cache

from coursekit.building.build import ROOT

from .notebook_format import read

PROTECTED = re.compile(r"```.*?```|`(?:[^`\n]|\n(?!\s*\n))*`|\$\$.*?\$\$", re.DOTALL)
DEFINITION = re.compile(r"^\[([^\]]+)\]:\s+(\S+)[ \t]*\n?", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\((?!https?:|mailto:)([^()\s]+)\)")
LAB = re.compile(r"\.\./labs/([\w/.-]+?)(?:#.*)?$")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PART = re.compile(r"(\d\d[a-z]?_\w+)\.ipynb(?:#(.+))?$")


def resolve_reference_links(text: str) -> str:
    """Turn `[words][label]` into `[words](target)`: two cells of a page may define one label."""
    targets = {label.lower(): target for label, target in DEFINITION.findall(text)}
    if not targets:
        return text
    text = DEFINITION.sub("", text)
    labels = "|".join(re.escape(label) for label in targets)
    alone = re.compile(rf"\[({labels})\](?:\[\])?(?![\[(:])", re.IGNORECASE)
    behind = re.compile(rf"\]\[({labels})\]", re.IGNORECASE)

    def resolve(part):
        part = behind.sub(lambda found: f"]({targets[found[1].lower()]})", part)
        return alone.sub(lambda found: f"[{found[1]}]({targets[found[1].lower()]})", part)

    return map_outside_code(resolve, text).rstrip()


def rewrite_links(text: str) -> str:
    """Point a part's links to the site's pages; where there is no page, keep only the words."""
    return map_outside_code(lambda part: LINK.sub(rewritten, part), text)


def rewritten(found: re.Match) -> str:
    words, target = found[1], found[2]
    if part := PART.match(target):
        anchor = slug(part[2] or "")
        anchor = f"#{anchor}" if anchor in anchors_of(part[1]) else ""  # else the page's top
        return f"[{words}]({part[1]}.ipynb{anchor})"
    if lab := LAB.match(target):
        return f"[{words}](../labs/{page_of_lab(lab[1])})"
    return words


def page_of_lab(path: str) -> str:
    """Return a file's page: `collectives.md` for `collectives.py`, `x.yaml.md` for `x.yaml`."""
    if path == "published/README.md":
        return "published.md"
    return path.removesuffix(".py") + ".md"


@cache
def anchors_of(stem: str) -> set[str]:
    """Return the anchors of all headings of a part."""
    cells = read(ROOT / "notebooks" / f"{stem}.ipynb")
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    return {slug(words) for text in texts for words in HEADING.findall(text)}


def slug(words: str) -> str:
    """Return a heading's anchor as GitHub and MyST make it; Jupyter keeps signs and capitals."""
    return re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")


def map_outside_code(change, text: str) -> str:
    """Apply `change` to all text between pieces of code and formulas.

    A piece of code within the words of a link is part of them.
    """
    kept = []

    def hide(found):
        kept.append(found[0])
        return f"\0{len(kept) - 1}\0"

    changed = change(PROTECTED.sub(hide, text))
    return re.sub("\0(\\d+)\0", lambda found: kept[int(found[1])], changed)
