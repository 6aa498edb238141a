"""Each part tells where it leads, how long it takes, what was learnt, and where to go next."""

import re
from functools import cache
from operator import attrgetter

import nbformat
import pytest
from each import repeat_for_each
from helpers import ROOT

from coursekit.building import build
from coursekit.building.record_pictures import find_cover

PARTS = build.sources()
STEM = attrgetter("stem")
MOST_COLUMNS = 90
LINK = re.compile(r"\]\(([^)#]+)(#[^)]*)?\)|^\[\w+\]: (\S+)$", re.MULTILINE)
IMPORTS = re.compile(r"((import|from) .*)?^from pedagogy_lib import \(", re.DOTALL | re.MULTILINE)
CALLS = re.compile(r"`(\w+)\(")


@cache
def cells_of(source):
    return build.make_notebook(build.text_of(source), source.stem).cells


def read_record(source):
    assert build.record_of(source).exists(), "run `make build`"
    return nbformat.read(build.record_of(source), as_version=4)


def prose_of(source) -> str:
    return "\n\n".join(c.source for c in cells_of(source) if c.cell_type == "markdown")


@repeat_for_each("source", PARTS, STEM)
def test_a_part_begins_with_a_picture(source):
    title, cover, *_ = cells_of(source)
    assert title.source.startswith("# ")
    alt, path = re.match(r"!\[([^\]]{40,})\]\((\S+)\)\n\n\*\w", cover.source).groups()
    assert "\n\n" not in alt
    assert (build.ROOT / "notebooks" / path).resolve() == build.cover_path(source)


@repeat_for_each("source", PARTS, STEM)
def test_the_first_picture_is_that_of_the_record(source):
    assert build.cover_path(source).exists(), "run `make build`"
    assert build.cover_path(source).read_bytes() == find_cover(read_record(source))


@repeat_for_each("source", PARTS, STEM)
def test_a_part_says_what_for_how_long_and_what_it_needs(source):
    cover = cells_of(source)[1].source
    for phrase in ("**After this part you can**", "**It takes** about", "**It needs**"):
        assert phrase in cover


@repeat_for_each("source", PARTS, STEM)
def test_a_part_ends_with_what_was_learnt(source):
    *_, end, progress = cells_of(source)
    assert progress.source == f'progress("{source.stem.partition("_")[0]}")'
    assert end.source.startswith("## What you have learnt")
    assert 3 <= end.source.count("\n* ") <= 5
    assert "**Next**: " in end.source or source == PARTS[-1]
    has_exercises = bool(re.search(r"^### Exercise ", prose_of(source), re.MULTILINE))
    assert ("**Your exercise" in end.source) == has_exercises, "name the exercises at the end"


@pytest.mark.deep
def test_the_template_of_a_part_is_one(tmp_path, monkeypatch):
    text, part = (ROOT / "chapters" / "template.py").read_text(), PARTS[1]
    source = tmp_path / "chapters" / "ch00_start_here" / part.name
    for folder in (source.parent, tmp_path / "solutions", tmp_path / "notebooks"):
        folder.mkdir(parents=True)
    source.write_text(text.replace("02h_title", part.stem).replace("02h", part.stem[:3]))
    monkeypatch.setattr(build, "ROOT", tmp_path)
    record = build.execute(source)
    assert "sum 4" in str([cell.get("outputs") for cell in record.cells])
    build.record_of(source).write_text(build.dump(record))
    build.cover_path(source).parent.mkdir(parents=True)
    build.cover_path(source).write_bytes(find_cover(record))
    for test in (
        test_a_part_begins_with_a_picture,
        test_the_first_picture_is_that_of_the_record,
        test_a_part_says_what_for_how_long_and_what_it_needs,
        test_a_part_ends_with_what_was_learnt,
        test_code_that_only_prepares_is_folded,
        test_printed_lines_of_a_record_fit_a_small_window,
    ):
        test.__wrapped__(source)


@repeat_for_each("source", PARTS, STEM)
def test_the_end_names_every_lab_with_exercises(source):
    checked = set(re.findall(r'\bcheck\("(\d+\.\d+)"\)', build.text_of(source)))
    labs = {lab.stem: set(re.findall(r"Exercise (\d+\.\d+)", build.text_of(lab)))
            for lab in build.lab_sources()}  # fmt: skip
    wanted = {name for name, exercises in labs.items() if exercises & checked}
    linked = set(re.findall(r"\(\.\./labs/(\w+)\.py\)", cells_of(source)[-2].source))
    assert wanted <= linked


@repeat_for_each("source", PARTS, STEM)
def test_links_lead_somewhere(source):
    for path, _, defined in LINK.findall(prose_of(source)):
        address = path or defined
        if not address.startswith("http"):
            assert (build.ROOT / "notebooks" / address).exists(), address


def test_the_map_links_every_other_part():
    linked = {defined for *_, defined in LINK.findall(prose_of(PARTS[0]))}
    missing = {f"{source.stem}.ipynb" for source in PARTS[1:]} - linked
    assert not missing, "part 00 has a map: add a row, and a link below it"


@repeat_for_each("source", PARTS, STEM)
def test_what_prose_tells_to_call_is_imported(source):
    import pedagogy_lib

    code = "\n".join(c.source for c in cells_of(source) if c.cell_type == "code")
    told = set(CALLS.findall(prose_of(source))) & set(pedagogy_lib.__all__)
    assert not {name for name in told if not re.search(rf"\b{name}\b", code)}


@repeat_for_each("source", PARTS, STEM)
def test_code_that_only_prepares_is_folded(source):
    cells = cells_of(source)
    imports = next(c for c in cells if IMPORTS.match(c.source))
    appendix = [i for i, cell in enumerate(cells) if "## Put to the test" in cell.source]
    later = [c for i in appendix for c in cells[i:] if c.cell_type == "code"][:-1]
    for cell in [imports, *later]:
        assert cell.metadata.get("jupyter", {}).get("source_hidden") is True, cell.source[:80]


@repeat_for_each("source", PARTS, STEM)
def test_no_sum_begins_a_line(source):
    """Markdown makes a list of a line that begins with a plus."""
    assert not re.findall(r"^\+ .*", prose_of(source), re.MULTILINE)


@repeat_for_each("source", PARTS, STEM)
def test_an_exercise_in_a_lab_links_to_it(source):
    labs = {exercise: lab.stem for lab in build.lab_sources()
            for exercise in re.findall(r"Exercise (\d+\.\d+)", build.text_of(lab))}  # fmt: skip
    cells = [re.split(r"^### Exercise (\d+\.\d+)", cell.source, flags=re.MULTILINE)
             for cell in cells_of(source) if cell.cell_type == "markdown"]  # fmt: skip
    told = {name: text for cell in cells for name, text in zip(cell[1::2], cell[2::2])}
    unlinked = [name for name in told.keys() & labs.keys()
                if f"](../labs/{labs[name]}.py)" not in told[name]]  # fmt: skip
    assert not unlinked


@repeat_for_each("source", PARTS, STEM)
def test_printed_lines_of_a_record_fit_a_small_window(source):
    """At 1,100 px beside JupyterLab's side bar; where one does not, words are broken anywhere."""
    outputs = (output for cell in read_record(source).cells for output in cell.get("outputs", []))
    streams = [output.text for output in outputs if output.output_type == "stream"]
    assert [
        line for text in streams for line in text.splitlines() if len(line) > MOST_COLUMNS
    ] == []
