"""Which tests `make test` leaves to `make test-all`, and how they are dealt out."""

import distribution
import selection


def test_every_notebook_with_holes_has_its_turn():
    names = {path.name for path in (selection.ROOT / "notebooks").glob("*.ipynb")}
    days = [selection.notebooks_of(day, []) for day in range(selection.DAYS)]
    assert set.union(*days) == names
    assert max(map(len, days)) <= -(-len(names) // selection.DAYS)


def test_what_has_changed_is_executed_on_every_day():
    for day in range(selection.DAYS):
        executed = selection.notebooks_of(day, ["notebooks/05_memory.ipynb", "labs/zero.py"])
        assert {"05_memory.ipynb", "06_zero_and_fsdp.ipynb"} <= executed


def test_the_cells_of_a_notebook_and_the_tests_of_a_file_stay_together():
    pieces = map(distribution.piece_of, ("solutions/a.ipynb::Cell 0", "solutions/a.ipynb::Cell 1"))
    assert len(set(pieces)) == 1
    assert distribution.piece_of("tests/test_run.py::test_a[1]") == "tests/test_run.py"


def test_answers_to_different_exercises_are_dealt_out_one_by_one():
    test = "tests/test_answers.py::test_right_answers_pass[{} in place]"
    one, same, other = (distribution.piece_of(test.format(n)) for n in ("7.1", "7.1", "7.12"))
    assert one == same != other
