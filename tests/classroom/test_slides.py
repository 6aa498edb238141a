"""Slides of a part: in order, alone, and on the screen without overflow."""

import re
from base64 import b64decode

import needs
import pytest
from browser import chromium
from bs4 import BeautifulSoup
from each import repeat_for_each

from classroom.teaching import slides
from classroom.teaching.deck import FOUND, first_sentences, record_of, slides_of
from classroom.teaching.maths import draw_formula, render_markdown
from coursekit.building import build
from coursekit.chapters import parts
from pedagogy_lib.basics.errors import WrongInput

NAMES = list(parts())
needs_chromium = needs.mark("Chromium", "playwright")
MEASURE = """() => [...document.querySelectorAll('.slide')].map((slide, k) => {
  show(k);
  const open = slides.filter((e) => getComputedStyle(e).display !== 'none').length;
  const out = [...slide.querySelectorAll('*')].filter((e) => !e.closest('aside')).filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width && (box.left < -1 || box.right > 1281 || box.top < -1 || box.bottom > 721);
  }).map((e) => e.outerHTML.slice(0, 80));
  const foot = slide.querySelector('.foot').getBoundingClientRect();
  const low = [...slide.children].filter((e) => !e.matches('.foot, aside')).filter(
    (e) => e.getBoundingClientRect().bottom > foot.top + 2).map((e) => e.className);
  const cut = [...slide.querySelectorAll('.text, .says, .beside, .equation')].filter(
    (e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.className);
  const img = slide.querySelector('.figure img');
  const box = img?.getBoundingClientRect();
  const scale = img && Math.min(box.width / img.naturalWidth, box.height / img.naturalHeight);
  return {number: k + 1, open, out, low, cut, scale};
})"""
SMALLEST = 0.35  # of a picture's pixels; notebooks show 0.5


@repeat_for_each("name", NAMES)
def test_a_question_is_asked_before_its_answer_is_shown(name):
    made = slides_of(record_of(name))
    assert made[0].kind == "title"
    assert made[-1].kind == "end"
    asked = [k for k, slide in enumerate(made) if slide.kind == "predict"]
    answered = [k for k, slide in enumerate(made) if slide.title.endswith(FOUND)]
    source = build.text_of(build.source_of(parts()[name].stem))
    assert len(asked) == len(re.findall(r"= predict\(|^predict\(", source, re.M))
    assert len(answered) == len(asked)
    assert not [
        (question, answer) for question, answer in zip(asked, answered) if not question < answer
    ]


@repeat_for_each("name", NAMES)
def test_every_picture_of_the_notebook_has_a_slide(name):
    text = record_of(name).read_text().split("## Put to the test")[0]
    there = text.count('"image/png": "') + text.count('src=\\"data:image/png;base64,')
    assert sum(slide.picture is not None for slide in slides_of(record_of(name))) == there


def test_minutes_add_up_to_the_parts():
    part = parts()["08"]
    made = slides_of(record_of("08"))
    assert sum(slides.split_minutes(part, made)) == pytest.approx(part.reading + part.writing)


def test_a_deck_needs_nothing_else():
    page = BeautifulSoup(slides.deck(parts()["02b"]), "html.parser")
    addresses = [tag.get("src") or tag.get("href") for tag in page.select("[src], link[href]")]
    assert addresses
    assert not [address for address in addresses if not address.startswith("data:image/")]
    assert "@import" not in str(page.style)
    assert not [slide for slide in page.select(".slide") if not slide.select("aside b")]


def test_formulas_become_pictures_with_their_text():
    html = render_markdown(r"It is $\frac1k$ of `$HOME`-less words, see [02c](02c_the_ring.ipynb).")
    image = BeautifulSoup(html, "html.parser").img
    assert image["alt"] == r"\frac{1}{k}"
    assert b64decode(image["src"].split(",")[1]).lstrip().startswith(b"<?xml")
    assert "see 02c." in html
    assert "block" in draw_formula(r"a \bmod b", True)


def test_sentences_are_not_cut_inside_of_brackets_or_bold_words():
    text = "One thing. (It is this. Or that.) **Two. Three.** Four."
    assert first_sentences(text, 2) == "One thing."
    assert first_sentences(text, 8) == "One thing. (It is this. Or that.)"


def test_a_part_that_is_not_there_is_told(tmp_path):
    with pytest.raises(WrongInput, match="no part '2x'"):
        slides.write_decks(["2x"], tmp_path)


def complaints_of(page, path) -> list:
    page.goto(path.as_uri())
    page.wait_for_function(
        "document.images.length == 0 || [...document.images].every(i => i.complete)"
    )
    return [
        found
        for found in page.evaluate(MEASURE)
        if found["open"] != 1
        or found["out"]
        or found["low"]
        or found["cut"]
        or (found["scale"] or 1) < SMALLEST
    ]


@needs_chromium
@pytest.mark.deep
def test_no_slide_overflows(tmp_path):
    written = slides.write_decks([], tmp_path)
    with chromium(width=1280) as page:
        page.set_viewport_size({"width": 1280, "height": 720})
        found = {path.stem: complaints_of(page, path) for path in written}
    assert {name: complaints for name, complaints in found.items() if complaints} == {}


@needs_chromium
@pytest.mark.deep
def test_keys_move_and_every_slide_is_a_printed_page(tmp_path):
    (path, *_) = slides.write_decks(["02b"], tmp_path)
    with chromium(width=1280) as page:
        page.goto(path.as_uri())
        count = page.locator(".slide").count()
        shown = lambda: page.locator(".slide.here").get_attribute("id")  # noqa: E731
        for key, expected in [("ArrowRight", 2), (" ", 3), ("ArrowLeft", 2), ("End", count),
                              ("PageDown", count), ("Home", 1)]:  # fmt: skip
            page.keyboard.press(key)
            assert shown() == f"slide{expected}"
        assert not page.locator(".here aside").is_visible()
        page.keyboard.press("n")
        assert page.locator(".here aside").is_visible()
        printed = page.pdf(prefer_css_page_size=True, print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", printed)) == count
