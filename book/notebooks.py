"""A part's page as a notebook: the code with holes, above the outputs of the executed record."""

import re

from coursekit.building.build import ROOT
from coursekit.chapters import find_checks
from pedagogy_lib.basics.errors import need

from .glossary import anchor_first_uses, words_introduced
from .hints import hints_of
from .links import resolve_reference_links, rewrite_links
from .notebook_format import code, markdown, new_html_output, read
from .outputs import PageOutputs
from .pictures import Pictures
from .times import minutes

ONLY_PROGRESS = re.compile(r"\s*(?:progress|hint)\([^()]*\)\s*")
COVER = re.compile(r"!\[([^\]]*)\]\(\.\./assets/covers/(\w+)\.png\)")
HOLE = "...  # your code here"


def page_of(part, pictures: Pictures, entries=()):
    """Return the cells of a part's page, and the glossary entries whose words it uses.

    part      one of `chapters.parts()`
    pictures  receives all pictures that the page shows
    """
    stem = part.stem
    given = read(ROOT / "notebooks" / f"{stem}.ipynb")
    done = read(ROOT / "solutions" / f"{stem}.ipynb")
    need(len(given) == len(done), f"the record of {stem} is not current: call make build")
    shown = PageOutputs(stem, pictures)
    made = [cell_of(one, other, shown) for one, other in zip(given, done)]
    cells = [cell for cell in made if cell is not None]
    texts = [cell for cell in cells if cell.cell_type == "markdown"]
    sources, used = anchor_first_uses([cell.source for cell in texts], entries)
    for cell, source in zip(texts, sources):
        cell.source = source
    cells[0].source = add_title_bar(cells[0].source, part)
    if own := words_introduced(part.name, entries):
        cells.append(markdown(own, "words"))
    return cells, used


def add_title_bar(source: str, part) -> str:
    """Add a bar below a part's title: its time, its exercises, and its notebook to download."""
    heading, _, rest = source.partition("\n")
    count = len(part.exercises)
    exercises = f" · {count} exercise{'s' * (count > 1)}" if count else ""
    return (
        f'{heading}\n\n<p class="course-bar"><span>{minutes(part.reading, part.writing)}{exercises}'
        f'</span> <a class="course-button" download href="../downloads/{part.stem}.ipynb">'
        f"Download the notebook</a></p>\n{rest}"
    )


def cell_of(given, done, shown: PageOutputs):
    """Return a cell of the page, or None where it would tell a reader nothing."""
    if given.cell_type == "markdown":
        return markdown(text_of(given.source, shown.pictures), given.id)
    if ONLY_PROGRESS.fullmatch(given.source):
        return None
    tags = ["hide-input"] if given.metadata.get("jupyter", {}).get("source_hidden") else []
    is_hole = given.source != done.source  # the record's output is the answer's
    outputs = [] if is_hole else shown.outputs_of(done)
    outputs += [new_html_output(hints_of(number)) for number in find_checks(given.source)]
    if is_hole:
        tags.append("hole" if HOLE in given.source else "bug")
    return code(given.source, given.id, outputs, tags)


def text_of(source: str, pictures: Pictures) -> str:
    """Return Markdown with links to the site's pages, and with the cover at its size."""

    def cover(found):
        path = ROOT / "assets" / "covers" / f"{found[2]}.png"
        alt = " ".join(found[1].split())
        return pictures.html(path.read_bytes(), alt, found[2], is_first=True)

    text = COVER.sub(cover, source)
    return rewrite_links(resolve_reference_links(text))
