"""A verdict as people see it: in colour, with hints folded away, and links to lines."""

import html
import re

import pytest
from helpers import ROOT

from coursekit.building.build import sources, text_of
from coursekit.check_runner import chapters_with_checks, exercises_of, finds_a_bug
from coursekit.protocol import Wrong
from coursekit.verdicts import BADGES, Verdict, render_text

WRONG = Wrong(
    "2 ranks", "expected 3, got 1\n  at ./labs/collectives.py:7, in f()", "the sum & more"
)
CHECKED = re.compile(r"^(?:display\()?check\(\"(\d+\.\d+)\"", re.MULTILINE)


def page_of(**settings) -> str:
    return Verdict("Exercise 2.3 · f", False, ["1 rank: 1"], WRONG, **settings)._repr_html_()


def test_the_last_word_says_whether_it_has_passed():
    assert repr(Verdict("f", True, ["1 rank: 1"])).splitlines()[-1] == "passed"
    assert repr(Verdict("f", False, [], WRONG)).splitlines()[-1] == "not yet"
    assert repr(Verdict("f: not attempted yet", None, [])) == "f: not attempted yet"
    assert "✓ passed" in Verdict("f", True, [])._repr_html_()


def test_what_is_wrong_and_why():
    page = page_of()
    assert "✗ not yet" in page and "✓ 1 rank: 1" in page
    assert "✗ <b>2 ranks</b>: expected 3, got 1" in page
    assert "the sum &amp; more" in page
    assert "<details" not in page


def test_hints_come_one_after_the_other():
    page = page_of(hints=("look", "look <again>"))
    first, second = page.index("Hint 1 of 2"), page.index("Hint 2 of 2")
    assert page[first:second].count("<details") == 1, "the second is in the first"
    assert page.count("<details") == page.count("</details>") == 2
    assert "look &lt;again&gt;" in page
    assert "Hint" not in Verdict("f", True, [], hints=("look",))._repr_html_()


def test_where_a_bug_is_to_be_found_the_symptom_comes_first():
    page = page_of(folds=True)
    assert page.index("expected 3") < page.index("<details") < page.index("the sum")
    assert repr(Verdict("f", False, [], WRONG, folds=True)).count("the sum") == 1


def test_exercises_with_a_bug_are_known():
    expected = set()
    for text in map(text_of, sources()):
        for program in re.finditer("### IT WAS", text):
            expected.add(CHECKED.search(text, program.end())[1])
    everything = [e for chapter in chapters_with_checks() for e in exercises_of(chapter).values()]
    assert {e.number for e in everything if finds_a_bug(e)} == expected


def test_lines_of_the_course_are_links(monkeypatch):
    monkeypatch.chdir(ROOT / "notebooks")
    assert render_text("at ./labs/collectives.py:57, in f()") == (
        'at <a href="../labs/collectives.py#line=56">./labs/collectives.py:57</a>, in f()'
    )
    assert render_text("use `a < b`, not `") == "use <code>a &lt; b</code>, not `"
    assert render_text("at ./labs/no_such_lab.py:57 <b>") == "at ./labs/no_such_lab.py:57 &lt;b&gt;"


@pytest.mark.parametrize("word_and_color", BADGES.values())
def test_a_badge_can_be_read(word_and_color):
    color = word_and_color[1]
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5


def test_no_hint_is_lost_on_its_way():
    for chapter in chapters_with_checks():
        for exercise in exercises_of(chapter).values():
            page = Verdict("f", False, [], WRONG, exercise.hints)._repr_html_()
            text = html.unescape(re.sub("</?(code|a)[^>]*>", "", page))
            assert not [hint for hint in exercise.hints if hint.replace("`", "") not in text]
