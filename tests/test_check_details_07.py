"""Details of chapter 07's checks: symptoms, faults of earlier exercises, what is printed."""

import warnings

import pytest
from answer_files import FOLDER, answers_in, defined
from helpers import with_more

from pedagogy_lib import check
from pedagogy_lib.course import build
from pedagogy_lib.exercises.kit import groups

ANSWERS = {
    (answer.exercise.number, answer.words): answer
    for path in FOLDER.glob("ch07/*.py")
    for answer in answers_in(path)
}


# ---- What is told beside the diagnosis ---------------------------------------------------------

SYMPTOMS = {  # of the programs with a bug, as the notebook shows them
    ("7.6", "is GELU(p + q) = GELU(p) + GELU(q)?"): "2 ranks, 8 inputs, 16 hidden features: "
    "rank 0: y at [0, 0] is",
    ("7.7", "with 1 rank it is right"): "2 ranks, x [3, 2]: rank 0: every row of y is off by the "
    "same numbers: ",
    ("7.8", "the ranks' norms drift apart"): "2 ranks: y is right. Wrong is the gradient of "
    "norm.weight, norm.bias, x on ranks 0, 1",
    ("7.9", "What is in that memory by then?"): "2 ranks, relu before it: the sum is right on "
    "rank 0, the gradient of its matrix is off",
    ("7.14", "at the same place of their parts"): "2 ranks, p = 0.5: ranks 0 and 1 have dropped "
    "the same 517 of 1024 features",
}


@pytest.mark.parametrize(("number", "words"), SYMPTOMS)
def test_the_symptom_of_a_program_with_a_bug(number, words, course):
    course()
    wrong = check(number, defined(ANSWERS[number, words])).wrong
    assert SYMPTOMS[number, words] in f"{wrong.case}: {wrong.what}"


# ---- Faults of earlier exercises ---------------------------------------------------------------

FIRST_PART = """
def cut(x, dim, group=None, together=1):
    return x.chunk(dist.get_world_size(group), dim)[0].clone()
"""
TWICE = """
class AllReduce(AllReduce):
    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient, None, None
"""
FAULTS = [  # (exercise whose check is asked, lab, its fault, exercise that comes first)
    ("7.4", "tensor_parallel", ("7.1", "chunk makes all but the last one equal"), "7.1"),
    ("7.4", "tensor_parallel", ("7.2", "through this rank's part alone"), "7.2"),
    ("7.5", "tensor_parallel", ("7.3", "n times too much"), "7.3"),
    ("7.12", "tensor_parallel", FIRST_PART + TWICE, "7.1"),
    ("7.13", "tensor_parallel", FIRST_PART + TWICE, "7.3"),
    ("7.17", "collectives", "def reduce_scatter_ring(chunks, group=None):\n    pass\n", "2.6"),
]


@pytest.mark.parametrize(("number", "lab", "fault", "first"), FAULTS)
def test_a_fault_of_an_earlier_exercise_is_sent_there(number, lab, fault, first, course):
    course(**{lab: with_more(fault if isinstance(fault, str) else ANSWERS[fault].program)})
    verdict = check(number)
    assert verdict.passed is False
    assert verdict.wrong.why == f'first: check("{first}")', verdict


def test_a_fault_of_the_lab_is_not_put_down_to_the_cell(course):
    fault = ANSWERS["7.2", "through this rank's part alone"]
    course(tensor_parallel=with_more(fault.program))
    verdict = check("7.8", defined(ANSWERS["7.8", "three copies before the norm"]))
    assert verdict.wrong.why == 'first: check("7.2")', verdict


def test_what_a_cell_is_built_on_is_sent_there_too(course):
    course(tensor_parallel=with_more(TWICE))
    wrong = check("7.14", defined(ANSWERS["7.14", "at the same place of their parts"])).wrong
    assert wrong.why == 'first: check("7.3")'


def test_half_of_a_class_is_told_what_is_left(course):
    def begun(text):
        """The lab with its holes, of which the first is filled: forward of exercise 7.16."""
        hole = "        ...  # your code here\n"
        return build.with_holes(text).replace(hole, "        ctx.group = group\n", 1)

    course(sequence_parallel=begun)
    verdict = check("7.16")
    assert verdict.passed is None
    assert "partly written; still to write: backward" in str(verdict)


# ---- What is printed ---------------------------------------------------------------------------

LOUD = {  # where PyTorch would print
    "sequence_parallel": ("7.19", "all of them are rows"),  # it warns of x.T
    "decoding": ("7.20", "what travels has to be as long on all of them"),  # ranks end at once
}


@pytest.mark.parametrize("lab", LOUD)
def test_libraries_do_not_drown_the_diagnosis(lab, course, capsys):
    number, words = LOUD[lab]
    course(**{lab: with_more(ANSWERS[number, words].program)})
    assert words in check(number).wrong.why
    printed = capsys.readouterr().out  # by the ranks
    assert "terminate called" not in printed and "Warning" not in printed


def test_what_python_prints_to_stderr_is_still_shown(course):
    warns = "def likeliest(*args):\n    __import__('warnings').warn('mine')"
    course(decoding=with_more(warns))
    verdict = check("7.20")
    assert verdict.passed is False
    assert "UserWarning: mine" in repr(verdict)


def test_warnings_of_what_autograd_passes_by_are_noted_and_all_others_given():
    words = "c10d::some_: an autograd kernel was not registered to the Autograd key(s)"
    with pytest.warns() as given, groups.noting_passed() as passed:
        warnings.warn(words, stacklevel=1)
        warnings.warn("another one", stacklevel=1)
    assert passed == ["c10d::some_"]
    assert [str(warning.message) for warning in given] == ["another one"]
