"""`progress()`: what is solved of all that there is, what comes next, and the passport."""

import json
import re
from datetime import date
from pathlib import Path

import pytest
from exercise_names import EX

from coursekit import outline
from coursekit.building import build
from coursekit.chapters import parts
from coursekit.outline import NotebookPart
from coursekit.progress import course_progress, learner_state
from coursekit.progress.course_progress import format_day, format_duration
from coursekit.progress.passport import INKS, Passport
from pedagogy_lib import LaunchError, check, progress

NAME = Path("02_a.ipynb")


class SomeDay(date):
    @classmethod
    def today(cls):
        return cls(2026, 5, 4)


TODAY = SomeDay.today().isoformat()


def rank(node, local_rank, per_node):
    return node * per_node + local_rank


def mean(number):
    import torch
    import torch.distributed as dist

    x = torch.tensor(number, dtype=torch.float64)
    dist.all_reduce(x)
    return (x / dist.get_world_size()).item()


@pytest.fixture(autouse=True)
def learner(monkeypatch, tmp_path):
    """A learner in `work/`, whose kernel has just started."""
    monkeypatch.setattr(outline, "COURSE", build.ROOT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(learner_state, "CHECKED", {})
    monkeypatch.setattr(learner_state, "date", SomeDay)
    monkeypatch.setattr(learner_state, "someone_watches", lambda: True)


def restart(monkeypatch):
    monkeypatch.setattr(learner_state, "CHECKED", {})


def remember(values):
    Path(".progress.json").write_text(json.dumps(values))


def handout(monkeypatch, folder, *stems) -> Path:
    """A course that has these parts alone."""
    (folder / "notebooks").mkdir(parents=True)
    for stem in stems:
        source = build.ROOT / "notebooks" / f"{stem}.ipynb"
        (folder / "notebooks" / source.name).write_bytes(source.read_bytes())
    monkeypatch.setattr(outline, "COURSE", folder)
    monkeypatch.setattr(course_progress, "COURSE", folder)
    return folder


def a_part(name, *numbers, reading=10, writing=30):
    return NotebookPart(name, "A title", NAME, dict.fromkeys(numbers, ""), reading, writing)


def days_of(*numbers):
    return dict.fromkeys(numbers, "2026-11-28")


def test_every_part_says_its_title_its_minutes_and_its_exercises():
    wanted = [(p.name, p.title, p.reading, p.writing, p.numbers) for p in parts().values()]
    assert [
        (p.name, p.title, p.reading, p.writing, tuple(p.exercises)) for p in outline.outline()
    ] == wanted


def test_nothing_is_solved_yet():
    told = repr(progress())
    number = len([n for part in outline.outline() for n in part.exercises])
    assert told.startswith(f"0 of {number} exercises passed, about ")
    assert re.search(r"^00 · Start here +0 of 3 ", told, re.MULTILINE)
    assert re.search(
        r"^Next: exercise 0.1 · The global rank of a process, in 00 · Start here$",
        told,
        re.MULTILINE,
    )


def test_its_lines_fit_a_small_window():
    """Also where a chapter lacks its last exercise alone, and so names nearly all of its stamps."""
    for chapter in progress().chapters:
        *numbers, _ = [number for part in chapter for number in part.exercises]
        remember(dict.fromkeys(numbers, TODAY))
        *lines, _ = repr(progress()).splitlines()  # the last is the address of a file
        assert max(map(len, lines)) <= 90


def test_checks_are_what_it_knows(monkeypatch):
    check(EX.global_rank, rank)
    assert "Next: exercise 0.2 · " in repr(progress())
    check(EX.mean_over_ranks, mean)
    restart(monkeypatch)
    told = repr(progress())
    noted = {"global_rank": TODAY, "mean_over_ranks": TODAY}
    assert json.loads(Path(".progress.json").read_text()) == noted
    assert re.search(r"^00 · Start here +2 of 3 .* 00$", told, re.MULTILINE)
    assert "Next: exercise 0.3" in told and "00b_what_to_split.ipynb" in told
    page = progress()._repr_html_()
    assert page.count("<li ") == 1 and f">{format_day(TODAY)}<" in page


def test_an_exercise_that_is_inserted_takes_nothing_away(monkeypatch):
    remember({"0.2": True, "my_samples": TODAY})  # 0.2 as version 1.0 has written it
    later = {"global_rank": "0.1", "new": "0.2", "mean_over_ranks": "0.3", "my_samples": "0.4"}
    monkeypatch.setattr(learner_state, "exercise_numbers", lambda: later)
    assert learner_state.days_of(later.values()) == {"0.3": "", "0.4": TODAY}


def test_a_check_that_fails_takes_its_stamp_back_and_the_first_day_stays(monkeypatch):
    remember({EX.global_rank: "2026-01-02", EX.mean_over_ranks: "2026-01-03"})
    check(EX.global_rank, rank)
    assert learner_state.days_of([EX.global_rank]) == {EX.global_rank: "2026-01-02"}
    assert [stamp.day for stamp in progress().stamps()] == ["2026-01-03"]
    check(EX.global_rank, lambda node, local_rank, per_node: 0)
    restart(monkeypatch)
    assert progress().stamps() == [] and learner_state.days_of([EX.global_rank]) == {}
    check(EX.global_rank, rank)
    assert learner_state.days_of([EX.global_rank]) == {EX.global_rank: TODAY}


def test_a_record_without_days_counts(monkeypatch):
    remember({EX.global_rank: True, EX.mean_over_ranks: True, EX.my_samples: False})
    assert [(stamp.part.name, stamp.day) for stamp in progress().stamps()] == [("00", "")]
    assert ">00<" in progress()._repr_html_()
    assert repr(progress("00")) == "Part 00 · all 2 exercises passed"


@pytest.mark.parametrize("value", ["no", "", 1, 0, None, [], {}, "2026-13-01", "true", 20261128])
def test_a_record_that_is_spoilt_passes_nothing(value):
    remember({EX.global_rank: value, EX.mean_over_ranks: True})
    assert list(learner_state.days_of([EX.global_rank, EX.mean_over_ranks])) == [EX.mean_over_ranks]
    assert "Next: exercise 0.1" in repr(progress())
    assert "0 of " in progress()._repr_html_()


def test_tests_and_reports_know_of_their_own_kernel_alone(monkeypatch):
    remember({EX.global_rank: TODAY})
    monkeypatch.setattr(learner_state, "someone_watches", lambda: False)
    assert "Next: exercise 0.1" in repr(progress())


def test_the_link_leads_to_the_learners_copy(monkeypatch, tmp_path):
    course = handout(monkeypatch, tmp_path / "course", "00_start_here")
    (course / "work").mkdir()
    monkeypatch.chdir(course / "work")
    assert 'href="../notebooks/00_start_here.ipynb"' in progress()._repr_html_()
    Path("00_start_here.ipynb").write_text("{}")
    assert 'href="00_start_here.ipynb"' in progress()._repr_html_()
    monkeypatch.chdir(course)
    assert 'href="work/00_start_here.ipynb"' in progress()._repr_html_()


def test_a_handout_tells_of_what_it_has(monkeypatch, tmp_path):
    handout(monkeypatch, tmp_path / "course", "02_collectives", "02b_trees_and_chains")
    told = repr(progress())
    both = parts()["02"], parts()["02b"]
    asked = [number for part in both for number in part.numbers]
    left = format_duration(sum(part.reading + part.writing for part in both))
    assert told.startswith(f"0 of {len(asked)} exercises passed, about {left} left")
    assert re.findall(r"^(\d\d) ·", told, re.MULTILINE) == ["02"]
    remember({EX.swap: TODAY, EX.coordinates: TODAY})
    told = repr(progress())
    assert f"1 of {len(asked)} exercises" in told and f"Next: exercise {asked[1]}" in told


def test_a_course_without_exercises(monkeypatch, tmp_path):
    handout(monkeypatch, tmp_path / "course", "00c_what_to_believe")
    told = repr(progress())
    assert told.startswith("there are no exercises here") and "Next" not in told
    assert "no exercises  15 min" in told
    assert "0 of 0 stamps" in progress()._repr_html_()


def test_a_file_that_is_no_notebook_is_told(monkeypatch, tmp_path):
    course = handout(monkeypatch, tmp_path / "course", "00_start_here")
    (course / "notebooks" / "01_x.ipynb").write_text("<<<<<<< HEAD")
    with pytest.raises(LaunchError, match=r"01_x.ipynb cannot be read as a notebook"):
        progress()


@pytest.mark.parametrize(
    ("passed", "minutes"),
    [
        ([], 0 + 40 + 10 + 25 + 20),
        ([EX.swap], 20 + 10 + 25 + 20),
        ([EX.swap, EX.tree_seconds], 10 + 25 + 20),
        ([EX.broadcast_tree], 40 + 10),
        ([EX.swap, EX.tree_seconds, EX.broadcast_tree], 0),
    ],
)
def test_the_time_that_is_left(passed, minutes):
    """A part is read when something of it has passed; one without exercises, with its chapter."""
    parts = [a_part("02", EX.swap, EX.tree_seconds, reading=0, writing=40),
             a_part("02b", reading=10, writing=0),
             a_part("02c", EX.broadcast_tree, reading=25, writing=20)]  # fmt: skip
    assert Passport(parts, days_of(*passed)).minutes_left(parts) == minutes


def test_all_is_done():
    parts = [a_part("02", EX.swap, EX.tree_seconds), a_part("02b", writing=0)]
    done = Passport(parts, {EX.swap: "2026-02-09", EX.tree_seconds: "2026-10-01"})
    assert done.headline() == "all 2 exercises passed by 1 Oct 2026"
    assert "Next" not in repr(done) + done._repr_html_()
    assert done.row_of(parts)[2:] == ["done", "all"]
    assert (
        Passport(parts, {EX.swap: "", EX.tree_seconds: ""}).headline() == "all 2 exercises passed"
    )


@pytest.mark.parametrize(
    ("minutes", "told"),
    [(1, "5 min"), (33, "35 min"), (58, "1 h"), (95, "1 h 35 min"), (600, "10 h"), (4080, "68 h")],
)
def test_minutes_in_words(minutes, told):
    assert format_duration(minutes) == told


def test_a_title_is_shown_as_it_is():
    part = a_part("02", EX.swap)._replace(title="A <b>", exercises={EX.swap: "f & g"})
    page = "".join(Passport([part], d)._repr_html_() for d in ({}, days_of(EX.swap)))
    assert "<b>" not in page.replace("<b>Next:</b>", "").replace("<b>Passport</b>", "")
    assert "f &amp; g" in page and "A &lt;b&gt;" in page


def test_inks_are_seen_on_light_and_on_dark():
    """At least 3 : 1, as WCAG asks of what is no text; text takes the page's own colour."""
    for ink in INKS:
        assert contrast(ink, "#FFFFFF") >= 3 and contrast(ink, "#111111") >= 3, ink
    page = Passport([a_part("02", EX.swap)], days_of(EX.swap))._repr_html_()
    assert not re.search(r"[;\"]color:", page)


def contrast(one, other) -> float:
    light, dark = sorted(map(luminance, (one, other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(color) -> float:
    shares = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.03928 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear))
