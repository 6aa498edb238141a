"""The pages of `make book`, as they are composed: with holes, hints and pictures, no answers."""

import io
import json
import re
from html import unescape

import pytest
from each import repeat_for_each
from helpers import ROOT
from PIL import Image

from book import front, glossary, labs, ledger, links, notebooks, plans, widgets
from book.hints import render_hint
from book.link_check import Site
from book.notebook_format import read
from book.outputs import VERDICT
from book.pictures import Pictures, size_of
from classroom.handout.answer_search import search
from coursekit.chapters import find_checks, parts
from coursekit.check_runner import find_exercise

NAMES = list(parts())
TARGET = re.compile(r"(?<!!)\]\(((?!https?:)[^()\s]+)\)")
TAG = re.compile(r"<[^>]+>")
IMAGE = re.compile(r'<img alt="([^"]*)" src="\.\./([^"]+)"')


@pytest.fixture(scope="module")
def pictures():
    return Pictures()


@pytest.fixture(scope="module")
def pages(pictures):
    """{name of a part: (the cells of its page, the words that it uses)}"""
    words = glossary.entries()
    return {name: notebooks.page_of(part, pictures, words) for name, part in parts().items()}


def html_of(cells) -> str:
    """All that the outputs of a page show."""
    outputs = [output for cell in cells for output in cell.get("outputs", [])]
    shown = [output.get("data", {}).get("text/html", "") for output in outputs]
    return "\n".join([*shown, *(output.get("text", "") for output in outputs)])


def text_of(cells) -> str:
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def read_notebook(name) -> list:
    return read(ROOT / "notebooks" / f"{parts()[name].stem}.ipynb")


def read_solution(name) -> list:
    return read(ROOT / "solutions" / f"{parts()[name].stem}.ipynb")


@repeat_for_each("name", NAMES)
def test_code_is_the_learners(pages, name):
    shown = [cell.source for cell in pages[name][0] if cell.cell_type == "code"]
    code = [cell.source for cell in read_notebook(name) if cell.cell_type == "code"]
    left_out = [source for source in code if source not in shown]
    assert shown == [source for source in code if source not in left_out]
    assert not [source for source in left_out if not notebooks.ONLY_PROGRESS.fullmatch(source)]


@repeat_for_each("name", NAMES)
def test_no_verdict_on_the_record_is_shown(pages, name):
    assert "✓" not in html_of(pages[name][0])


def test_what_stands_below_a_hole_is_hints_alone(pages):
    tagged = [cell for cells, _ in pages.values() for cell in cells
              if {"hole", "bug"} & set(cell.metadata.get("tags", []))]  # fmt: skip
    different = sum(
        one.source != other.source
        for name in NAMES
        for one, other in zip(read_notebook(name), read_solution(name))
        if one.cell_type == "code"
    )
    assert len(tagged) == different > 50
    pages_of_holes = [output.data["text/html"] for cell in tagged for output in cell.outputs]
    assert not [html for html in pages_of_holes if 'class="course-hints"' not in html]


def test_no_output_has_a_piece_of_an_answer(pages):
    """Hints may: they say on purpose how an answer goes on."""
    texts = {}
    for name, (cells, _) in pages.items():
        for number, cell in enumerate(cells):
            shown = html_of([cell]).partition('<div class="course-hints">')[0]
            if shown.strip():
                texts[f"{name} {number}.txt"] = unescape(TAG.sub(" ", shown))
    assert len(texts) > 1000
    assert [str(one) for one in search({name: text.encode() for name, text in texts.items()})] == []


def test_programs_are_the_learners():
    made = labs.pages()
    for path in labs.programs():
        assert (ROOT / "labs" / path).read_text() in made[links.page_of_lab(path.as_posix())]


@repeat_for_each("name", NAMES)
def test_all_hints_but_the_last_are_folded_there(pages, name):
    shown = html_of(pages[name][0])
    checked = {number for cell in read_notebook(name) if cell.cell_type == "code"
               for number in find_checks(cell.source)}  # fmt: skip
    assert checked == set(parts()[name].numbers)
    for number in checked:
        hints = find_exercise(number).hints
        count = len(hints)
        (box,) = [part for part in shown.split('<div class="course-hints">')[1:]
                  if part.startswith(f"<p><b>Exercise {number} ·")]  # fmt: skip
        summaries = re.findall(r"<summary>Hint (\d+) of (\d+)</summary>", box)
        assert summaries == [(str(step), str(count)) for step in range(1, count)]
        assert render_hint(hints[0]) in box
        assert render_hint(hints[-1]) not in box


@repeat_for_each("name", NAMES)
def test_every_picture_has_a_text_and_a_file(pages, pictures, name):
    cells, _ = pages[name]
    found = IMAGE.findall(text_of(cells) + html_of(cells))
    kept = [
        cell
        for cell, one in zip(read_solution(name), read_notebook(name))
        if cell.source == one.source
    ]
    shown = [output for cell in kept for output in cell.get("outputs", [])
             if not VERDICT.match(output.get("data", {}).get("text/plain", ""))]  # fmt: skip
    record = json.dumps(shown)
    count = record.count('"image/png": "') + record.count("data:image/png;base64,")
    assert len(found) == count + 1  # and the cover
    assert not [(alt, _) for alt, _ in found if not len(alt) > 10]
    assert not [
        (_, address)
        for _, address in found
        if address.removeprefix("pictures/") not in pictures.files
    ]
    assert "base64" not in html_of(cells)


@repeat_for_each("name", NAMES)
def test_links_lead_to_pages(pages, name):
    of_labs = {links.page_of_lab(path.as_posix()) for path in labs.programs()}
    of_labs |= {"index.md", "published.md"}
    for target in TARGET.findall(links.PROTECTED.sub("", text_of(pages[name][0]))):
        path, _, anchor = target.partition("#")
        if path.startswith("../labs/"):
            assert path.removeprefix("../labs/") in of_labs
        else:
            stem = path.removesuffix(".ipynb")
            assert stem in {part.stem for part in parts().values()}
            assert not anchor or anchor in links.anchors_of(stem)


def test_a_label_is_resolved_where_it_stands():
    text = "See [this][01] and [01].\n\n`x[0][01]`\n\n[01]: 01_x.ipynb\n[doc]:\nhttps://a.b/c_(d)\n"
    assert links.resolve_reference_links(text) == (
        "See [this](01_x.ipynb) and [01](01_x.ipynb).\n\n`x[0][01]`"
    )


def test_a_link_to_what_is_no_page_keeps_its_words():
    text = "[`a.py`](../labs/a.py) [all](../solutions) [x](https://y) `[a](b)`"
    assert links.rewrite_links(text) == "[`a.py`](../labs/a.md) all [x](https://y) `[a](b)`"


def test_questions_get_a_box_and_their_answers_a_place(pages):
    for name in NAMES:
        shown = html_of(pages[name][0])
        asked = re.findall(r'course-guess" data-question="([^"]+)"', shown)
        assert asked == list(dict.fromkeys(asked))
        assert set(re.findall(r'course-guessed" data-question="([^"]+)"', shown)) <= set(asked)
    assert "Predict:" not in re.sub(r"<span>Predict:", "", shown)


def test_words_that_share_an_end():
    assert glossary.words_of("weak, strong scaling") == ("weak scaling", "strong scaling")
    assert glossary.words_of("world, world size") == ("world", "world size")
    assert glossary.words_of("broadcast, reduce") == ("broadcast", "reduce")


def test_a_word_is_found_in_prose_alone():
    entry = glossary.Entry("micro-batch", ("micro-batch",), "a part", "01")
    texts = ["# micro-batch\n`micro-batch` $b$ [micro-batch](x)", "Two **micro-\nbatches** come."]
    marked, used = glossary.anchor_first_uses(texts, [entry])
    mark = '<span id="use-micro-batch"></span>'
    assert (marked, used) == ([texts[0], f"Two **{mark}micro-\nbatches** come."], [entry])


def test_every_place_in_the_glossary_is_there(pages):
    words = glossary.entries()
    page = glossary.page(words, {name: used for name, (_, used) in pages.items()})
    places = re.findall(r'href="parts/(\w+)\.html#([\w-]+)"', page)
    texts = {parts()[name].stem: text_of(cells) for name, (cells, _) in pages.items()}
    assert len(places) > 5 * len(words)
    assert not [(stem, place) for stem, place in places if texts[stem].count(f'id="{place}"') != 1]
    assert len({word.anchor for word in words}) == len(words) == page.count('class="course-word"')


def test_readme_leads_to_pages_alone(pictures):
    readme = front.Readme(pictures)
    for text in (front.index(readme, [ledger.FIRST]), front.compose_usage_page(readme)):
        for target in TARGET.findall(links.PROTECTED.sub("", text)):
            path = target.partition("#")[0]
            assert path in ("", "index.md", "using.md") or path.startswith(("parts/", "labs/"))
    assert set(readme.front) | set(readme.using) == set(readme.sections)
    assert "solutions/" not in front.index(readme)
    assert f"\n{ledger.FIRST}\n" in front.index(readme, [ledger.FIRST])


def test_the_planners_page_has_its_tables():
    page = plans.page()
    assert page.count("<table>") == len(plans.SHOWN)
    assert page.count("<tr>") == len(plans.SHOWN) * (plans.MOST + 1)
    assert " 0 of" not in page


def test_a_widget_has_all_its_states_with_it(tmp_path):
    view = {"chosen": {"n": 0}, "src": "02c-1-0.webp", "alt": "</script>", "message": ""}
    record = {"controls": [], "chosen": {"n": 0}, "views": {"0": view}}
    (tmp_path / "02c-1.json").write_text(json.dumps(record))
    html = widgets.embed_widget("02c-1", "<i>still</i>", tmp_path)
    inside = re.search(r'<script type="application/json">(.*)</script><i>still', html)[1]
    assert json.loads(inside)["views"]["0"] == view | {"src": "../views/02c-1-0.webp"}
    assert "</script>" not in inside
    assert widgets.embed_widget("02c-2", "<i>still</i>", tmp_path) == "<i>still</i>"


def test_the_ledgers_pages_keep_together():
    page = ledger.page(ledger.FIRST, "The ledger", "<p>one</p>\n\n  <p>two</p>")
    assert "<p>one</p>\n<p>two</p>\n</div>" in page  # Markdown ends HTML at a blank line
    assert "\ncorrections\n" in page
    assert "toctree" not in ledger.page("ledger/corrections", "Corrections", "")


def test_what_leads_nowhere_is_found(tmp_path):
    (tmp_path / "b.html").write_text('<p id="here">')
    (tmp_path / "a.html").write_text(
        '<a href="b.html#here"></a><a href="b.html#gone"></a><img src="c.png?v=1">'
        '<script src="https://cdn/x.js"></script><a href="https://x">x</a>'
        '<script>{"src":"d.webp"}</script>'
    )
    site = Site(tmp_path)
    assert sorted(site.broken()) == ["a.html: b.html#gone", "a.html: c.png?v=1", "a.html: d.webp"]
    assert site.find_external_resources() == ["a.html: https://cdn/x.js"]


def test_the_same_picture_is_one_file():
    png = min((ROOT / "assets" / "covers").glob("*.png")).read_bytes()  # as records have them
    pictures = Pictures()
    first, again = (pictures.address(png, stem) for stem in ("a", "b"))
    assert first == again == "pictures/a-1.webp"
    width, height = size_of(png)
    assert f'width="{width // 2}" height="{height // 2}"' in pictures.html(png, "A text", "a")


def test_pictures_lose_nothing_on_the_way(tmp_path):
    png = min((ROOT / "assets" / "covers").glob("*.png")).read_bytes()  # as records have them
    pictures = Pictures()
    address = pictures.address(png, "a")
    pictures.write(tmp_path)
    with Image.open(tmp_path / address) as one, Image.open(io.BytesIO(png)) as other:
        assert one.convert("RGBA").tobytes() == other.convert("RGBA").tobytes()
    assert (tmp_path / address).stat().st_size < len(png)
