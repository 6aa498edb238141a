"""A recorded picture with controls in a page without a kernel, in Chromium."""

import functools
import http.server
import json
import statistics
import threading

import needs
import pytest
from browser import chromium

from pedagogy_lib import explore, plot_bars
from pedagogy_lib.basics import screen
from pedagogy_lib.widgets import view_files

pytestmark = [
    pytest.mark.slow,
    needs.mark("Chromium", "playwright"),
]
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>A part</title><link rel="icon" href="data:,">
<link rel="stylesheet" href="static/course.css">
%s</head><body><h1>A part</h1>%s</body></html>
"""
WHOLE = '<script defer src="static/recorded.page.js"></script>'
MODULE = '<script type="module" src="static/recorded.js"></script>'
ROWS = '<div style="height: 4000px"></div>'
MOST_MILLISECONDS = 100
TIMED = """async ([key, alt]) => {
  const slider = document.querySelector("input[type=range]");
  const image = document.querySelector(".course-picture img");
  const began = performance.now();
  slider.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  while (!image.alt.startsWith(alt)) await new Promise((seen) => setTimeout(seen, 1));
  await image.decode();
  return performance.now() - began;
}"""


def draw(ranks, way="ring"):
    if ranks == 8:
        raise ValueError("at most 7 ranks have room here")
    return plot_bars(["a"] * ranks, {way: [ranks] * ranks}, "MB", title=f"{ranks} ranks, {way}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the views of three pictures with controls."""
    site = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(screen.VIEWS, str(site / "views" / "99_a_part"))
        explore(draw, ranks=[2, 3, 8, 4], way=["ring", "tree"],
                no_effect=lambda way, **others: {"ranks"} if way == "tree" else set())  # fmt: skip
        explore(draw, ranks=[1, 2, 3, 4, 5])
        patch.setattr(view_files, "MOST_VIEWS", 5)
        explore(draw, ranks=[2, 3, 4], way=["ring", "tree", "chain"], labels={"way": "algorithm"})
    (site / "static").mkdir()
    for name in ("explorer.js", "recorded.js", "course.css"):
        (site / "static" / name).write_text((view_files.HERE / name).read_text())
    (site / "static" / "recorded.page.js").write_text(view_files.page_script())
    return site


def place_of(site, number, embedded=True) -> str:
    """What stands in a page for a recorded picture, with the still one until it is mounted."""
    address = f"views/99_a_part-{number}.json"
    text = (site / address).read_text()
    inside = f'<script type="application/json">{text}</script>' if embedded else ""
    return f'<div class="course-recorded" data-views="{address}">{inside}<i>still</i></div>'


class SiteServer:
    """The folder over HTTP; `asked` has what was asked for."""

    def __init__(self, folder):
        self.asked = asked = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                asked.append(self.path.rpartition("/")[2])

        handler = functools.partial(Handler, directory=str(folder))
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def end(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site_server(site):
    site_server = SiteServer(site)
    yield site_server
    site_server.end()


@pytest.fixture
def page():
    with chromium() as page:
        page.set_default_timeout(20_000)
        page.complaints = []
        page.on("console", lambda said: page.complaints.append(said.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        yield page


def open_page(page, site, *places, script=WHOLE, url=None):
    """From the disk, where no address is given."""
    (site / "page.html").write_text(PAGE % (script, "".join(places)))
    page.goto(f"{url or f'file://{site}'}/page.html")
    page.locator(".course-picture img").first.wait_for()


def find_shown_file(page) -> str:
    """The name of the file that is seen, once it is there."""
    image = page.locator(".course-picture img").first
    assert image.evaluate("image => image.decode().then(() => image.naturalWidth)") > 600
    return image.get_attribute("src").rpartition("/")[2]


def src_of(site, number, **chosen) -> str:
    views = json.loads((site / "views" / f"99_a_part-{number}.json").read_text())["views"]
    return next(view["src"] for view in views.values() if view["chosen"] == chosen)


@pytest.mark.parametrize("way", ["from the disk", "by its address", "as a module"])
def test_a_moved_slider_changes_picture_and_description(site, site_server, page, way):
    url = None if way == "from the disk" else site_server.url
    script = MODULE if way == "as a module" else WHOLE
    open_page(page, site, place_of(site, 1, way != "by its address"), script=script, url=url)
    assert page.get_by_text("still").count() == 0
    page.get_by_role("img", name="2 ranks, ring").wait_for()
    assert find_shown_file(page) == src_of(site, 1, ranks=0, way=0)
    page.get_by_role("slider", name="ranks").press("ArrowRight")
    page.get_by_role("img", name="3 ranks, ring").wait_for()
    assert find_shown_file(page) == src_of(site, 1, ranks=1, way=0)
    page.get_by_label("way").select_option("tree")
    page.get_by_role("img", name="3 ranks, tree").wait_for()
    assert find_shown_file(page) == src_of(site, 1, ranks=1, way=1)
    assert page.get_by_role("slider", name="ranks").is_disabled()
    assert page.complaints == []


def test_values_that_do_not_go_together_keep_the_picture(site, page):
    open_page(page, site, place_of(site, 1))
    slider = page.get_by_role("slider", name="ranks")
    slider.press("ArrowRight")
    slider.press("ArrowRight")
    page.get_by_role("img", name="4 ranks, ring").wait_for()
    before = page.locator(".course-picture").bounding_box()
    slider.press("End")
    page.locator(".course-message").get_by_text("at most 7 ranks have room here").wait_for()
    page.get_by_role("img", name="4 ranks, ring").wait_for()
    assert page.locator(".course-picture").bounding_box() == before
    slider.press("Home")
    page.get_by_role("img", name="2 ranks, ring").wait_for()
    slider.press("End")  # it is the picture before that stays, not the one of the first time
    page.locator(".course-message").get_by_text("at most 7 ranks have room here").wait_for()
    page.get_by_role("img", name="2 ranks, ring").wait_for()
    slider.press("Home")
    assert page.locator(".course-message").text_content() == ""
    assert page.complaints == []


def test_controls_that_were_recorded_alone_are_set_back(site, page):
    open_page(page, site, place_of(site, 3))
    slider, told = page.get_by_role("slider", name="ranks"), page.locator(".course-message")
    slider.press("End")
    page.get_by_role("img", name="4 ranks, ring").wait_for()
    assert told.text_content() == ""
    page.get_by_label("algorithm").select_option("chain")
    page.get_by_role("img", name="2 ranks, chain").wait_for()
    assert told.text_content().endswith("Set back: ranks (2)")
    assert slider.get_attribute("aria-valuetext") == "2" and slider.input_value() == "0"
    page.get_by_label("algorithm").select_option("tree")
    page.get_by_role("img", name="2 ranks, tree").wait_for()
    assert told.text_content() == ""
    slider.press("ArrowRight")
    page.get_by_role("img", name="3 ranks, ring").wait_for()
    assert told.text_content().endswith("Set back: algorithm (ring)")
    assert page.get_by_label("algorithm").input_value() == "0"
    assert page.complaints == []


def test_a_film_plays(site, page):
    open_page(page, site, place_of(site, 2))
    page.get_by_role("button", name="next").click()
    page.get_by_role("img", name="2 ranks").wait_for()
    page.get_by_role("slider").press("End")
    page.get_by_role("button", name="play").click()
    page.get_by_role("button", name="pause").wait_for()
    page.get_by_role("img", name="3 ranks").wait_for()
    page.get_by_role("img", name="5 ranks").wait_for()
    page.get_by_role("button", name="play").wait_for()
    assert page.complaints == []


def test_pictures_are_there_at_once(site, site_server, page):
    open_page(page, site, place_of(site, 2), url=site_server.url)
    page.wait_for_load_state("networkidle")
    steps = [("ArrowRight", n) for n in (2, 3, 4, 5)] + [("ArrowLeft", n) for n in (4, 3, 2, 1)]
    times = [page.evaluate(TIMED, [key, f"{n} ranks"]) for key, n in steps]
    print(f"milliseconds: {sorted(round(each, 1) for each in times)}")
    assert statistics.median(times) <= MOST_MILLISECONDS, times


def test_a_page_loads_only_what_is_near(site, site_server, page):
    open_page(page, site, place_of(site, 1), ROWS, place_of(site, 2), url=site_server.url)
    page.wait_for_load_state("networkidle")
    asked = [name for name in site_server.asked if name.endswith(".webp")]
    near = {src_of(site, 1, ranks=a, way=b) for a, b in ((0, 0), (1, 0), (0, 1))}
    assert set(asked) == near and len(asked) == len(near)
    page.locator(".course-picture img").nth(1).scroll_into_view_if_needed()
    page.wait_for_load_state("networkidle")
    page.get_by_role("img", name="1 ranks").wait_for()
    later = {src_of(site, 2, ranks=n) for n in (0, 1)}
    page.wait_for_function("() => document.images[1].complete")
    assert later <= set(site_server.asked)


def test_a_record_that_is_missing_leaves_the_still_picture(site, site_server, page):
    place = '<div class="course-recorded" data-views="views/none.json"><i>still</i></div>'
    open_page(page, site, place, place_of(site, 2), url=site_server.url)
    assert page.get_by_text("still").count() == 1
    assert any("no controls for this picture" in said for said in page.complaints)
