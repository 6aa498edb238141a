"""The website of `make book` in Chromium: light and dark, wide and narrow, without a network."""

import json
import re
import statistics
import subprocess
import sys

import needs
import pytest
from browser import chromium
from helpers import ROOT

from book import widgets
from book.link_check import Site

pytestmark = [
    pytest.mark.slow,
    pytest.mark.deep,
    needs.mark("Chromium", "playwright"),
    needs.mark("Sphinx"),
]
PAGES = ("index", "parts/00_start_here", "parts/02c_the_ring", "parts/08f_zero_bubble",
         "parts/10_choosing_a_strategy", "chapters/02", "labs/index", "labs/collectives",
         "glossary", "plans", "using", "search")  # fmt: skip
LOOKS = [("light", 1280), ("dark", 360)]
MOST_BYTES = 3_000_000
MOST_MILLISECONDS = 100
BUILD_SECONDS = 1200  # by far more than the three minutes of a quiet machine: here others work, too
HIDDEN = "() => [...document.querySelectorAll('pre, .course-table, table')].filter(" \
    "(e) => e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0 && " \
    "!e.closest('[tabindex=\"0\"]')).map((e) => e.outerHTML.slice(0, 120))"  # fmt: skip
VIEW = {"message": "", "without_effect": [], "width": 640, "height": 200}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built by the command without any warning."""
    folder = tmp_path_factory.mktemp("book") / "site"
    done = subprocess.run([sys.executable, "-m", "book", str(folder)], cwd=ROOT, text=True,
                          capture_output=True, timeout=BUILD_SECONDS, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


def open_page(page, site, name):
    """Open a page; returns what the browser complains of and what it fails to load."""
    wrong = []
    page.on("console", lambda said: said.type in ("error", "warning") and wrong.append(said.text))
    page.on("requestfailed", lambda asked: wrong.append(asked.url))
    page.on("request", lambda asked: asked.url.startswith("http") and wrong.append(asked.url))
    page.goto((site / f"{name}.html").as_uri())
    page.wait_for_load_state("load")
    return wrong


def test_every_address_leads_somewhere(site):
    found = Site(site)
    assert found.broken() == []
    assert found.find_external_resources() == []
    assert len(found.texts) > 200


def test_no_page_has_words_of_a_passed_check(site):
    texts = Site(site).texts.values()
    assert not [text for text in texts if "✓ passed" in text or "### BEGIN" in text]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_a_page_is_for_everybody(site, name, scheme, width):
    """No fault that axe finds, nothing from a network, no page wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    with chromium(width=width, color_scheme=scheme) as page:
        assert open_page(page, site, name) == []
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        page.wait_for_timeout(500)  # the theme makes what scrolls focusable after a moment
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate(HIDDEN) == []
        found = Axe().run(page).response
    assert {"color-contrast", "document-title"} <= {one["id"] for one in found["passes"]}
    wrong = [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]
    assert wrong == []


def test_no_page_is_wider_than_a_phone(site):
    wide = {}
    with chromium(width=360) as page:
        for path in Site(site).texts:
            page.goto(path.as_uri())
            page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
            wide[path.stem] = page.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 360} == {}


def test_no_page_is_heavy(site):
    """A page with all that it names, also what waits until somebody scrolls."""
    for page, text in Site(site).texts.items():
        named = set(re.findall(r'<(?:img|script|link)\b[^>]*\b(?:src|href)="([^"#?:]+)', text))
        files = {(page.parent / name).resolve() for name in named if not name.endswith(".html")}
        size = page.stat().st_size + sum(file.stat().st_size for file in files if file.is_file())
        assert size <= MOST_BYTES, (page.name, size)


def test_the_search_finds_a_part(site):
    with chromium() as page:
        assert open_page(page, site, "search") == []
        page.goto((site / "search.html").as_uri() + "?q=straggler")
        page.locator("ul.search a").first.wait_for()
        assert any("What to believe" in one for one in page.locator("ul.search").all_inner_texts())


def test_a_prediction_is_kept_and_told_above_the_answer(site):
    with chromium() as page:
        open_page(page, site, "parts/02c_the_ring")
        page.get_by_label("Predict: Ring, 8 ranks").fill("7")
        page.get_by_text("You predicted 7 MB.").wait_for()
        page.reload()
        page.get_by_text("You predicted 7 MB.").wait_for()


def test_hints_open_one_after_the_other(site):
    with chromium() as page:
        open_page(page, site, "parts/02c_the_ring")
        box = page.locator(".course-hints").first
        first, second = (box.get_by_text(f"Hint {step} of") for step in (1, 2))
        assert not second.is_visible()
        first.click()
        second.wait_for()


def test_a_word_leads_to_its_use_in_another_part(site):
    with chromium() as page:
        open_page(page, site, "glossary")
        word = page.locator("#word-straggler")
        word.get_by_text("used in").click()
        word.locator("details a").first.click()
        page.locator("#use-straggler").wait_for(state="attached")
        assert "/parts/" in page.url


def test_pictures_are_turned_round_in_the_dark(site):
    look = "getComputedStyle(document.querySelector('.course-picture img')).filter"
    with chromium(color_scheme="dark") as page:
        open_page(page, site, "parts/02c_the_ring")
        assert page.evaluate(look).startswith("invert(0.93)")
        page.get_by_role("button", name="Color mode").click()
        page.get_by_role("button", name="Light").click()
        assert page.evaluate(look) == "none"


def test_a_widget_answers_at_once(site, tmp_path):
    """A part's page with a film of five pictures, as the theme shows it."""
    pytest.importorskip("pedagogy_lib.widgets.view_files")
    from PIL import Image

    views = tmp_path / "views"
    views.mkdir()
    control = {"name": "step", "label": "step", "texts": list("12345"), "is_slider": True}
    record = {"controls": [control], "chosen": {"step": 0}, "is_film": True, "action": "",
              "height": 200, "views": {}}  # fmt: skip
    for step in range(5):
        Image.new("RGB", (1280, 400), (40 * step, 0, 0)).save(views / f"a-{step}.webp")
        record["views"][str(step)] = {"chosen": {"step": step}, "src": f"a-{step}.webp",
                                      "alt": f"step {step}", **VIEW}  # fmt: skip
    (views / "a-1.json").write_text(json.dumps(record))
    text = (site / "parts" / "02_collectives.html").read_text()  # it has no controls of its own
    place = widgets.embed_widget("a-1", "<p>still</p>", views)
    script = f'<script defer src="../{widgets.SCRIPT}"></script>'
    page_file = site / "parts" / "a_widget.html"
    page_file.write_text(text.replace("</article>", f"{place}{script}</article>"))
    widgets.put(site, views)
    with chromium() as page:
        assert open_page(page, site, "parts/a_widget") == []
        page.locator(".course input[type=range]").focus()
        page.get_by_role("img", name="step 0").wait_for()
        page.wait_for_timeout(500)
        times = [milliseconds_of_a_step(page, step) for step in (1, 2, 3, 4)]
    page_file.unlink()
    assert statistics.median(times) <= MOST_MILLISECONDS


def milliseconds_of_a_step(page, step) -> float:
    """From a key to the picture."""
    return page.evaluate(
        """async (alt) => {
          const slider = document.querySelector(".course input[type=range]");
          const image = document.querySelector(".course .course-picture img");
          const began = performance.now();
          slider.dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight", bubbles: true}));
          while (image.alt !== alt) await new Promise((seen) => setTimeout(seen, 1));
          await image.decode();
          return performance.now() - began;
        }""",
        f"step {step}",
    )
