"""A prediction is asked for, remembered, and shown beside theory and measurement."""

import pytest

from pedagogy_lib import predict, prediction


@pytest.fixture
def watched(monkeypatch, tmp_path):
    """A person is there, and the notebook's folder is a fresh one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prediction, "someone_watches", lambda: True)


def parts(box):
    """The field to type into, and the reply beside it."""
    field, _, reply = box.children[1].children
    return field, reply


def test_without_a_person_only_the_question_is_shown(capsys):
    guess = predict("How many bytes?", unit="MB")
    assert capsys.readouterr().out == "Predict: How many bytes? (MB)\n"
    assert guess.value is None
    picture = guess.compare(theory=6, measured=6.002)
    assert picture.alt == "How many bytes? no prediction; theory 6 MB; measured 6.002 MB"


def test_what_is_typed_is_noted_and_compared(watched):
    guess = prediction.Prediction("How many bytes?", "MB")
    field, reply = parts(guess.box())
    field.value = "4,5"
    assert reply.value == "noted: 4.5 MB"
    assert guess.value == 4.5
    alt = guess.compare(theory=6, measured=6.002).alt
    assert alt == "How many bytes? predicted 4.5 MB; theory 6 MB; measured 6.002 MB"


def test_nonsense_is_answered_and_forgotten(watched):
    guess = prediction.Prediction("How many bytes?", "MB")
    field, reply = parts(guess.box())
    field.value = "many"
    assert reply.value == "a number from 0 on, please: 4 or 0.5 or 2e6"
    assert guess.value is None


def test_an_answer_outlives_the_kernel_but_not_its_question(watched):
    prediction.Prediction("How many bytes?", "MB").value = 7
    again = prediction.Prediction("How many bytes?", "MB")
    assert again.value == 7
    assert parts(again.box())[0].value == "7"
    assert prediction.Prediction("How many bytes?", "GB").value is None


def test_a_stored_answer_does_not_show_in_tests_and_reports(watched, monkeypatch):
    guess = prediction.Prediction("How many bytes?", "MB")
    guess.value = 7
    monkeypatch.setattr(prediction, "someone_watches", lambda: False)
    assert guess.value is None


def test_a_spoilt_file_is_no_obstacle(watched, tmp_path):
    (tmp_path / ".predictions.json").write_text("{")
    guess = prediction.Prediction("How many bytes?", "MB")
    assert guess.value is None
    guess.value = 3
    assert guess.value == 3


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("4,5", 4.5), (" 16 MB ", 16), ("1,000", 1000), ("2e6", 2e6), ("0", 0),
     ("-3", None), ("inf", None), ("nan", None), ("1/4", None), ("", None)],
)  # fmt: skip
def test_numbers_are_read_as_people_type_them(text, number):
    assert prediction.read_number(text, "MB") == number


@pytest.mark.parametrize(("guess", "rows"), [(None, 2), (0.0, 3), (1e9, 3)])
def test_any_number_can_be_drawn(guess, rows):
    picture = prediction.draw("How many?", "MB", guess, 6, 6.002, "#000000")
    assert len(picture.figure.axes[0].patches) == rows
    assert picture.png()
