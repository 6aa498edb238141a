"""A scoreboard: one's own runs, the best first; they outlive the kernel, and not its folder."""

import pytest

from coursekit import scores
from pedagogy_lib import LaunchError, Scoreboard

SPEED, MEMORY = "tokens/s", "MB"
FAST, SLOW = {SPEED: 1500.0, MEMORY: 4.4}, {SPEED: 900.0, MEMORY: 3.6}


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def viewer(monkeypatch):
    monkeypatch.setattr(scores, "someone_watches", lambda: True)


def board():
    return Scoreboard("test", SPEED)


def test_the_best_comes_first():
    one = board()
    one.add("slow", SLOW)
    one.add("fast", FAST)
    assert list(one.runs()) == ["fast", "slow"]
    told = repr(one.table({SPEED: ",.0f", MEMORY: ".1f"}, {"an engine": {SPEED: 250.0}}, "Runs"))
    assert told.splitlines() == [
        "Runs",
        "           tokens/s  MB",
        "fast       1,500     4.4",
        "slow       900       3.6",
        "an engine  250       –",
    ]


def test_of_one_name_the_best_counts():
    one = board()
    one.add("mine", FAST)
    one.add("mine", SLOW)
    assert one.runs() == {"mine": FAST}
    one.add("mine", FAST | {SPEED: 1600.0})
    assert one.runs()["mine"][SPEED] == 1600.0


def test_where_nobody_watches_nothing_is_stored(folder):
    board().add("mine", FAST)
    assert board().runs() == {}
    assert not list(folder.iterdir())


@pytest.mark.usefixtures("viewer")
def test_runs_outlive_the_kernel(monkeypatch):
    board().add("mine", FAST)
    assert board().runs() == {"mine": FAST}
    monkeypatch.setattr(scores, "someone_watches", lambda: False)
    assert board().runs() == {}


@pytest.mark.usefixtures("viewer")
@pytest.mark.parametrize("text", ["", "[1]", '{"a": 1, "b": {"MB": 3}, "c": {"tokens/s": "x"}}'])
def test_a_spoilt_file_counts_as_empty(folder, text):
    (folder / ".scores-test.json").write_text(text)
    assert board().runs() == {}


@pytest.mark.usefixtures("viewer")
def test_the_worst_of_very_many_are_forgotten():
    one = board()
    for k in range(scores.MOST_KEPT + 5):
        one.add(f"run {k}", {SPEED: float(k)})
    assert list(one.runs()) == [f"run {k}" for k in range(scores.MOST_KEPT + 4, 4, -1)]
    assert board().runs() == one.runs()


@pytest.mark.parametrize("figures", [{MEMORY: 4.4}, {SPEED: "fast"}, 1500.0])
def test_figures_are_numbers(figures):
    with pytest.raises(LaunchError, match="a run's figures are numbers, among them 'tokens/s'"):
        board().add("mine", figures)
