"""The pages of a class in Chromium: sorted, on a phone, in the dark, and without barriers."""

import needs
import pytest
from browser import chromium
from exercise_names import EX
from results_of_class import results_of_class

from classroom.pages import write
from coursekit.protocol import Wrong
from coursekit.verdicts import Verdict

pytestmark = [
    pytest.mark.slow,
    pytest.mark.deep,
    needs.mark("Chromium", "playwright"),
]
PAGES = ("index.html", "similar.html", "students/Eun-ji-Zhang.html")
SORTED_BY = "() => [...document.querySelectorAll('.heat tbody tr')].map(row => row.children[%d]"


def make_verdict(answer) -> Verdict:
    """A verdict in the words of the answer's file, as this test is not about checks."""
    if answer.kind == "right":
        return Verdict(str(answer), True, ["2 ranks", "4 ranks"])
    wrong = Wrong("3 ranks", "rank 0, x[0] is 1, expected `5`", answer.words)
    return Verdict(str(answer), False, ["2 ranks"], wrong)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty students, fifteen exercises, and one of each thing that needs a person."""
    results = results_of_class(make_verdict)
    for at, state in enumerate(("look", "broken", "unfinished")):
        answer = results["students"][at]["answers"][EX.swap]
        answer |= {"state": state, "score": 0.0, "what": "it ended", "reasons": ["`import sys`"]}
    folder = tmp_path_factory.mktemp("class")
    write(results, folder)
    return folder


@pytest.mark.parametrize("page_name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(folder, page_name, scheme):
    from axe_playwright_python.sync_playwright import Axe

    with chromium(color_scheme=scheme) as page:
        page.goto(f"file://{folder / page_name}")
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        found = Axe().run(page).response
    assert {"color-contrast", "link-name", "document-title"} <= {
        one["id"] for one in found["passes"]
    }
    wrong = [(one["id"], one["nodes"][0]["html"]) for one in found["violations"]]
    assert wrong == []


@pytest.mark.parametrize("page_name", PAGES)
def test_a_phone_shows_the_whole_width(folder, page_name):
    with chromium(width=360) as page:
        page.goto(f"file://{folder / page_name}")
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_a_heading_sorts_the_table(folder):
    with chromium() as page:
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.goto(f"file://{folder / 'index.html'}")
        names = SORTED_BY % 0 + ".dataset.value)"
        points = SORTED_BY % 1 + ".dataset.value * 1)"
        before = page.evaluate(names)
        page.get_by_role("button", name="Points").click()
        assert page.evaluate(points) == sorted(page.evaluate(points), reverse=True)
        page.get_by_role("button", name="Points").click()
        assert page.evaluate(points) == sorted(page.evaluate(points))
        assert page.locator("[aria-sort]").get_attribute("aria-sort") == "ascending"
        page.get_by_role("button", name="Student").click()
        assert page.evaluate(names)[:2] == ["Ada van-der-Berg", "Ada Zhang"]
        assert sorted(page.evaluate(names)) == sorted(before)
    assert said == []  # nothing that the page's own policy would refuse


def test_a_mark_leads_to_the_answer(folder):
    with chromium() as page:
        page.goto(f"file://{folder / 'index.html'}")
        page.locator(".heat tbody tr").nth(4).locator("a.cell").nth(7).click()
        assert page.url.endswith(f"#ex-{EX.all_reduce_ring}")
        assert page.locator("section:target").is_visible()


def test_heads_stay_while_the_table_scrolls(folder):
    with chromium(width=700) as page:
        page.goto(f"file://{folder / 'index.html'}")
        page.evaluate("document.querySelector('#who .scroll').scrollTo(200, 400)")
        box = page.locator("#who .scroll").bounding_box()
        head = page.locator(".heat thead th").first.bounding_box()
        assert abs(head["x"] - box["x"]) < 3 and abs(head["y"] - box["y"]) < 3
