"""A prediction is asked for, remembered, and shown beside theory and measurement."""

import json

import pytest
import torch

from coursekit import predictions
from pedagogy_lib import LaunchError, predict
from pedagogy_lib.pictures.style import Picture


@pytest.fixture
def viewer(monkeypatch, tmp_path):
    """A person is there, and the notebook's folder is a fresh one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predictions, "someone_watches", lambda: True)


class Screen:
    """What IPython would show: it is drawn again in its place."""

    def __init__(self, picture):
        self.pictures = [picture]

    def update(self, picture):
        self.pictures.append(picture)

    def alts(self):
        return [picture.alt for picture in self.pictures]


@pytest.fixture
def screens(viewer, monkeypatch):
    """Each picture that is displayed, with what has taken its place since."""
    found = []

    def show(picture, display_id):
        found.append(Screen(picture))
        return found[-1]

    monkeypatch.setattr("IPython.display.display", show)
    return found


def test_without_a_person_only_the_question_is_shown(capsys):
    guess = predict("How many bytes?", unit="MB")
    assert capsys.readouterr().out == "Predict: How many bytes? (MB)\n"
    assert guess.value is None
    picture = guess.compare(theory=6, measured=6.002)
    assert picture.alt == "How many bytes? no prediction; theory 6 MB; measured 6.002 MB"


def test_what_is_typed_is_noted_and_compared(viewer):
    guess = predictions.Prediction("How many bytes?", "MB")
    box = guess.box()
    box.typed = {"text": "4,5"}
    assert (box.is_good, box.reply) == (True, "noted: 4.5 MB")
    assert guess.value == 4.5
    alt = guess.compare(theory=6, measured=6.002).alt
    assert alt == "How many bytes? predicted 4.5 MB; theory 6 MB; measured 6.002 MB"


@pytest.mark.parametrize("typed", ["many", "6 kB", "6 MiB", "about 6", "-3", "<b>"])
def test_nonsense_is_told_and_keeps_no_number(viewer, typed):
    guess = predictions.Prediction("How many bytes?", "MB")
    box = guess.box()
    box.typed = {"text": "7"}
    box.typed = {"text": typed}
    assert not box.is_good
    assert box.reply == (
        f'"{typed}" is not noted: write a number from 0 on, such as 4, 0.5, 3/2 or 2e6, in MB'
    )
    assert guess.value is None


def test_an_empty_field_takes_the_number_back(viewer, tmp_path):
    guess = predictions.Prediction("How many bytes?", "MB")
    box = guess.box()
    box.typed = {"text": "7"}
    box.typed = {"text": " "}
    assert (box.is_good, box.reply, guess.value) == (True, "no prediction", None)
    assert json.loads((tmp_path / ".predictions.json").read_text()) == {}


def test_a_number_that_is_typed_later_is_drawn_into_the_picture(screens):
    guess = predictions.Prediction("How many bytes?", "MB")
    box = guess.box()
    guess.compare(theory=6, measured=6.002)._ipython_display_()
    box.typed = {"text": "4"}
    box.typed = {"text": "nonsense"}
    (screen,) = screens
    assert [alt.split(";")[0].removeprefix("How many bytes? ") for alt in screen.alts()] == [
        "no prediction", "predicted 4 MB", "no prediction",
    ]  # fmt: skip


def test_a_cell_that_runs_again_has_one_picture_to_draw(screens):
    guess = predictions.Prediction("How many bytes?", "MB")
    box = guess.box()
    for measured in (6.002, 7.002):
        guess.compare(theory=6, measured=measured)._ipython_display_()
    box.typed = {"text": "4"}
    assert [len(screen.pictures) for screen in screens] == [1, 2]
    assert screens[1].alts()[1].endswith("measured 7.002 MB")


def test_an_answer_outlives_the_kernel_but_not_its_question(viewer):
    predictions.Prediction("How many bytes?", "MB").value = 7
    again = predictions.Prediction("How many bytes?", "MB")
    assert again.value == 7
    assert (again.box().typed["text"], again.box().reply) == ("7", "noted")
    assert predictions.Prediction("How many bytes?", "GB").value is None


def test_a_stored_answer_does_not_show_in_tests_and_reports(viewer, monkeypatch):
    guess = predictions.Prediction("How many bytes?", "MB")
    guess.value = 7
    monkeypatch.setattr(predictions, "someone_watches", lambda: False)
    assert guess.value is None
    assert type(guess.compare(6, 6.002)) is Picture, "nobody could change the number"


@pytest.mark.parametrize("content", [b"{", b"null", b"[1]", b"\xff\xfe", b"[" * 100_000])
def test_a_spoilt_file_is_no_obstacle(viewer, tmp_path, content):
    (tmp_path / ".predictions.json").write_bytes(content)
    guess = predictions.Prediction("How many bytes?", "MB")
    assert guess.value is None
    guess.value = 3
    assert guess.value == 3


@pytest.mark.parametrize(
    "kept", ['"8"', "[1]", "{}", "Infinity", "NaN", "-3", "1e200", "9" * 400, "null", "true or so"]
)
def test_what_is_kept_and_no_number_is_none_and_can_be_replaced(viewer, tmp_path, kept):
    guess = predictions.Prediction("How many bytes?", "MB")
    (tmp_path / ".predictions.json").write_text(f'{{"{guess.key}": {kept}}}')
    box = guess.box()
    assert (guess.value, box.typed["text"], box.reply) == (None, "", "")
    assert guess.compare(6, 6.002).png()
    box.typed = {"text": "7"}
    assert (guess.value, box.reply) == (7, "noted: 7 MB")


def test_where_nothing_can_be_written_a_number_lasts_as_long_as_the_kernel(viewer, monkeypatch):
    def full(source, target):
        raise OSError(28, "No space left on device")

    guess = predictions.Prediction("How many bytes?", "MB")
    guess.value = 3
    monkeypatch.setattr("coursekit.progress.learner_state.os.replace", full)
    guess.value = 4
    assert guess.value == 4
    guess.value = None
    assert guess.value is None
    monkeypatch.undo()


@pytest.mark.parametrize("typed", ["1e101", "1.7e308", "9" * 400, "1e300/1e-300", "1/1e-320"])
def test_numbers_that_nothing_can_be_drawn_of_are_nonsense(typed):
    assert predictions.read_number(typed, "MB") is None


def test_the_largest_numbers_can_be_drawn():
    most = predictions.MOST
    for guess, theory, measured in [(most, 1, 1), (1, most, most), (most, -most, most), (0, 0, 0)]:
        picture = predictions.draw("How many?", "MB", guess, theory, measured, "#000000")
        assert picture.png()


def test_a_bar_far_beyond_the_others_is_cut():
    def read_bar(guess):
        picture = predictions.draw("How many?", "MB", guess, 6, 6, "#000000")
        (axes,) = picture.figure.axes
        return axes.texts[-1].get_text(), axes.get_xlim()[1]

    assert read_bar(6 * predictions.FAR) == ("60 MB", 72)
    assert read_bar(6 * predictions.FAR * 2) == ("120 MB →", 72)


@pytest.mark.parametrize(("question", "unit"), [("How many?", 3), (None, "MB")])
def test_questions_are_words(question, unit):
    with pytest.raises(LaunchError, match=r"predict\(\) takes a \w+ in words, not (3|None)"):
        predict(question, unit)


@pytest.mark.parametrize(
    ("text", "number"),
    [("4", 4), ("4,5", 4.5), (" 16 MB ", 16), ("1,000", 1000), ("2e6", 2e6), ("0", 0),
     ("6 mb", 6), ("6MB", 6), ("3/2", 1.5), ("3 / 2 MB", 1.5), ("1,5/2", 0.75),
     ("-3", None), ("inf", None), ("nan", None), ("1/0", None), ("1/2/3", None), ("/2", None),
     ("6 kB", None), ("6 MiB", None), ("6 MB MB", None), ("about 6", None), ("", None)],
)  # fmt: skip
def test_numbers_are_read_as_people_type_them(text, number):
    assert predictions.read_number(text, "MB") == number


@pytest.mark.parametrize(("guess", "rows"), [(None, 2), (0.0, 3), (1e9, 3)])
def test_any_number_can_be_drawn(guess, rows):
    picture = predictions.draw("How many?", "MB", guess, 6, 6.002, "#000000")
    assert len(picture.figure.axes[0].patches) == rows
    assert picture.png()


def test_a_unit_may_have_letters_that_mean_something_in_a_pattern():
    assert predictions.read_number("6 (x+y)", "(X+Y)") == 6
    assert predictions.read_number("25 %", "%") == 25


def names_of(picture) -> list[str]:
    return [label.get_text() for label in picture.figure.axes[0].get_yticklabels()]


def test_bytes_that_were_counted_are_called_so():
    guess = predictions.Prediction("How many bytes?", "MB")
    counted = guess.compare(6, 6.002, wire="counted")
    assert names_of(counted) == ["counted", "theory"]
    assert counted.alt == "How many bytes? no prediction; theory 6 MB; counted 6.002 MB"
    assert [bar.get_fill() for bar in counted.figure.axes[0].patches] == [True, False]
    assert names_of(guess.compare(6, torch.tensor(6.002)))[0] == "measured"


@pytest.mark.parametrize(
    ("arguments", "options", "sentence"),
    [
        (("a", "b"), {}, "compare() takes two numbers, but theory is 'a'"),
        ((6, [6, 6]), {}, "compare() takes two numbers, but measured is [6, 6]"),
        ((6, torch.ones(2)), {}, "but measured is tensor([1., 1.])"),
        ((1, 2), {"kind": "foo"}, "kind is one of parameters, gradients, "),
        ((1, 2), {"kind": []}, "kind is one of parameters, gradients, "),
        ((1e101, 2), {}, "compare() takes two numbers, but theory is 1e+101"),
        ((10**400, 2), {}, "compare() takes two numbers, but theory is 1000"),
        ((1j, 2), {}, "compare() takes two numbers, but theory is 1j"),
        ((1, 2), {"wire": "guessed"}, "wire is one of measured, counted, simulated, not 'guessed'"),
    ],
)
def test_what_cannot_be_compared_gets_one_sentence(arguments, options, sentence):
    with pytest.raises(LaunchError) as caught:
        predictions.Prediction("How many bytes?", "MB").compare(*arguments, **options)
    assert sentence in str(caught.value)
