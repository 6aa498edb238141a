"""What has been done of a part, in one line; it outlives the kernel, and not its folder."""

import time

import pytest
from exercise_names import EX

from coursekit import predictions
from coursekit.building import build
from coursekit.predictions import PredictionResult
from coursekit.progress import learner_state
from coursekit.progress.progress import Progress
from pedagogy_lib import LaunchError, check, predict, progress


def right(node, local_rank, per_node):
    return node * per_node + local_rank


def wrong(node, local_rank, per_node):
    return node + local_rank


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(learner_state, "CHECKED", {})
    monkeypatch.setattr(predictions, "COMPARED", {})
    monkeypatch.setattr("coursekit.progress.progress.COMPARED", predictions.COMPARED)


@pytest.fixture
def viewer(monkeypatch):
    for module in (learner_state, predictions):
        monkeypatch.setattr(module, "someone_watches", lambda: True)


def test_what_is_left_is_named():
    assert repr(progress("00")) == "Part 00 · still to do: 0.1, 0.2"
    check(EX.global_rank, right)
    assert repr(progress("00")) == "Part 00 · passed: 0.1 · still to do: 0.2"


def test_the_last_check_counts():
    check(EX.global_rank, right)
    check(EX.global_rank, wrong)
    assert "still to do: 0.1, 0.2" in repr(progress("00"))


def test_it_outlives_the_kernel(viewer, monkeypatch):
    check(EX.global_rank, right)
    monkeypatch.setattr(learner_state, "CHECKED", {})
    assert "passed: 0.1" in repr(progress("00"))


def test_tests_and_reports_read_and_write_no_file(tmp_path):
    (tmp_path / ".progress.json").write_text('{"0.1": true}')
    assert "still to do: 0.1" in repr(progress("00"))
    (tmp_path / ".progress.json").unlink()
    check(EX.global_rank, right)
    assert not list(tmp_path.iterdir())


def test_how_close_predictions_were(viewer):
    for number, (guess, measured) in enumerate([(4, 5), (None, 5), (7, 0), (0, 0)]):
        prediction = predictions.Prediction(f"question {number}", "MB")
        prediction.value = guess
        prediction.compare(5, measured)
    said = repr(progress("00"))
    assert said.endswith("3 of 4 predictions made, off by 20 %, more than ten times, 0 %")
    page = progress("00")._repr_html_()
    assert "<summary>Each prediction</summary>" in page
    assert "question 0: 4 MB predicted, 5 MB measured: off by 20 %" in page
    assert "question 1" not in page


def test_a_prediction_that_is_changed_after_the_measurement_does_not_count(viewer):
    early, late = (predictions.Prediction(f"question {number}", "MB") for number in (1, 2))
    early.value = 4
    early.compare(5, 5)
    late.compare(5, 5)
    assert repr(progress("00")).endswith("1 of 2 predictions made, off by 20 %")
    early.value = late.value = 5
    said = "1 of 2 predictions made, off by 20 % · 2 typed after the measurement"
    assert repr(progress("00")).endswith(said)
    early.value = None
    assert "1 typed after the measurement" in repr(progress("00"))


@pytest.mark.parametrize(("seconds", "said"), [(-5, "off by 20 %"), (5, "none of 1")])
def test_a_prediction_that_waited_for_a_cell_counts_as_typed_when_it_was(seconds, said, viewer):
    prediction = predictions.Prediction("question 1", "MB")
    prediction.compare(5, 5)
    prediction.answer("4", time.time() + seconds)
    assert said in repr(progress("00"))
    assert ("typed after" in repr(progress("00"))) == (seconds > 0)


def test_predictions_that_nobody_made():
    predict("How many?", "MB").compare(1, 2)
    assert repr(progress("00")).endswith("none of 1 prediction made")


@pytest.mark.parametrize(
    ("guess", "measured", "expected"), [(4, 5, 0.2), (5, 5, 0), (0, 0, 0), (1, 0, float("inf"))]
)
def test_distance(guess, measured, expected):
    assert PredictionResult(None, guess, measured, 0.0).distance() == pytest.approx(expected)


def test_a_part_that_is_done():
    done = Progress("03", [EX.loss_factor, EX.start_equal], [EX.loss_factor, EX.start_equal], [])
    assert repr(done) == "Part 03 · all 2 exercises passed"
    assert "#00694B" in done._repr_html_()


@pytest.mark.parametrize("part", ["99", "/", "../notebooks/00", "", "*", None, 3, []])
def test_a_part_that_there_is_not(part):
    first = ", ".join(source.stem.split("_")[0] for source in build.sources()[:5])
    with pytest.raises(LaunchError, match=rf"there is no part .*; there are: {first}, "):
        progress(part)
