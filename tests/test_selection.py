"""Which tests `make test` leaves to `make test-all`, and how they are dealt out."""

import distribution
import kernels
import pytest
import selection
from answer_files import exercises_of_kind

from pedagogy_lib.exercises.kit import RankExercise


def test_every_chapter_with_holes_has_its_turn():
    stems = {path.stem for path in (selection.ROOT / "notebooks").glob("*.ipynb")}
    days = [selection.chapters_of(day) for day in range(selection.DAYS)]
    assert set.union(*days) == stems
    assert max(map(len, days)) <= -(-len(stems) // selection.DAYS)


def test_a_notebook_is_executed_whenever_it_or_its_lab_changes():
    executed = selection.notebooks_of(["notebooks/05_memory.ipynb", "labs/zero.py"])
    assert {"05_memory.ipynb", "06_zero.ipynb"} <= executed
    assert "01_gradient_accumulation.ipynb" not in executed


def test_answers_to_every_exercise_have_their_turn():
    exercises = exercises_of_kind(RankExercise)
    for exercise in exercises:
        turns = [selection.has_its_turn(exercise, day, []) for day in range(selection.TURNS)]
        assert turns.count(True) == 1
    of_days = [
        sum(selection.has_its_turn(exercise, day, []) for exercise in exercises)
        for day in range(selection.TURNS)
    ]
    assert max(of_days) < 0.4 * len(exercises)


@pytest.mark.parametrize("folder", ["pedagogy_lib/exercises", "tests/answers"])
def test_answers_are_tried_whenever_they_or_their_exercise_change(folder):
    (exercise,) = (e for e in exercises_of_kind(RankExercise) if e.number == "6.3")
    changed = [f"{folder}/ch06/ex03_reduce_gradients.py"]
    for day in range(selection.TURNS):
        assert selection.has_its_turn(exercise, day, changed)


def test_the_cells_of_a_notebook_and_the_tests_of_a_file_stay_together():
    pieces = map(distribution.piece_of, ("solutions/a.ipynb::Cell 0", "solutions/a.ipynb::Cell 1"))
    assert len(set(pieces)) == 1
    assert distribution.piece_of("tests/test_run.py::test_a[1]") == "tests/test_run.py"


def test_answers_to_different_exercises_are_dealt_out_one_by_one():
    test = "tests/test_answers.py::test_right_answers_pass[{} in place]"
    one, same, other = (distribution.piece_of(test.format(n)) for n in ("7.1", "7.1", "7.13"))
    assert one == same != other


def test_on_five_days_every_piece_comes_under_every_setting_once_a_day():
    pieces, count = {f"piece {k}" for k in range(43)}, len(kernels.SETTINGS)
    of_days = [
        [kernels.in_share(pieces, kernels.share_of(number, day)) for number in range(count)]
        for day in range(739_000, 739_000 + count)
    ]
    for shares in of_days:
        assert set.union(*shares) == pieces and sum(map(len, shares)) == len(pieces)
        assert max(map(len, shares)) - min(map(len, shares)) <= 1
    for shares_of_a_setting in zip(*of_days, strict=True):
        assert set.union(*shares_of_a_setting) == pieces


def test_without_shares_every_piece_is_chosen():
    assert kernels.in_share(["a", "b"], None) == {"a", "b"}
