"""Details of chapter 07's checks: symptoms, faults of earlier exercises, what is printed."""

import warnings

import pytest
from answer_files import all_answers, define_answer
from exercise_names import EX
from helpers import append_program

from coursekit.building import build
from coursekit.kit import observed_calls
from pedagogy_lib import check

ANSWERS = {
    (answer.exercise.number, answer.words): answer
    for answer in all_answers()
    if answer.exercise.number.startswith("7.")
}


# ---- What is told beside the diagnosis ---------------------------------------------------------

SYMPTOMS = {  # of the programs with a bug, as the notebook shows them
    (EX.split_mlp, "is GELU(p + q) = GELU(p) + GELU(q)?"): "2 ranks, 8 inputs, 16 hidden features: "
    "rank 0: y at [0, 0] is",
    (
        EX.row_layer,
        "with 1 rank it is right",
    ): "2 ranks, x [3, 2]: rank 0: every row of y is off by the same numbers: ",
    (
        EX.residual_mlp,
        "the ranks' norms drift apart",
    ): "2 ranks: y is right. Wrong is the gradient of norm.weight, norm.bias, x on ranks 0, 1",
    (
        EX.sum_of_experts,
        "What is in that memory by then?",
    ): "2 ranks, relu before it: the sum is right on rank 0, the gradient of its matrix is off",
    (
        EX.dropped_mlp,
        "at the same place of their parts",
    ): "2 ranks, p = 0.5: ranks 0 and 1 have dropped the same 517 of 1024 features",
}


@pytest.mark.parametrize(("number", "words"), SYMPTOMS)
def test_the_symptom_of_a_program_with_a_bug(number, words, course):
    course()
    wrong = check(number, define_answer(ANSWERS[number, words])).wrong
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
    (
        EX.column_linear,
        "tensor_parallel",
        (EX.cut, "chunk makes all but the last one equal"),
        EX.cut,
    ),
    (EX.column_linear, "tensor_parallel", (EX.copy, "through this rank's part alone"), EX.copy),
    (EX.row_linear, "tensor_parallel", (EX.all_reduce, "n times too much"), EX.all_reduce),
    (EX.vocabulary_embedding, "tensor_parallel", FIRST_PART + TWICE, EX.cut),
    (EX.split_cross_entropy, "tensor_parallel", FIRST_PART + TWICE, EX.all_reduce),
    (
        EX.reduce_scatter,
        "collectives",
        "def reduce_scatter_ring(chunks, group=None):\n    pass\n",
        EX.reduce_scatter_ring,
    ),
]


@pytest.mark.parametrize(("number", "lab", "fault", "first"), FAULTS)
def test_a_fault_of_an_earlier_exercise_is_sent_there(number, lab, fault, first, course):
    course(**{lab: append_program(fault if isinstance(fault, str) else ANSWERS[fault].program)})
    verdict = check(number)
    assert verdict.passed is False
    assert verdict.wrong.why == f'first: check("{first}")', verdict


def test_a_fault_of_the_lab_is_not_put_down_to_the_cell(course):
    fault = ANSWERS[EX.copy, "through this rank's part alone"]
    course(tensor_parallel=append_program(fault.program))
    verdict = check(
        EX.residual_mlp, define_answer(ANSWERS[EX.residual_mlp, "three copies before the norm"])
    )
    assert verdict.wrong.why == 'first: check("7.2")', verdict


def test_what_a_cell_is_built_on_is_sent_there_too(course):
    course(tensor_parallel=append_program(TWICE))
    wrong = check(
        EX.dropped_mlp, define_answer(ANSWERS[EX.dropped_mlp, "at the same place of their parts"])
    ).wrong
    assert wrong.why == 'first: check("7.3")'


def test_half_of_a_class_is_told_what_is_left(course):
    def begun(text):
        """The lab with its holes, of which the first is filled: forward of exercise 7.17."""
        hole = "        ...  # your code here\n"
        return build.insert_holes(text).replace(hole, "        ctx.group = group\n", 1)

    course(sequence_parallel=begun)
    verdict = check(EX.all_gather)
    assert verdict.passed is None
    assert "partly written; still to write: backward" in str(verdict)


# ---- What is printed ---------------------------------------------------------------------------

LOUD = {  # where PyTorch would print
    "sequence_parallel": (EX.overlapped_product, "all of them are rows"),  # it warns of x.T
    "decoding": (
        EX.likeliest,
        "what travels has to be as long on all of them",
    ),  # ranks end at once
}


@pytest.mark.parametrize("lab", LOUD)
def test_libraries_do_not_drown_the_diagnosis(lab, course, capsys):
    number, words = LOUD[lab]
    course(**{lab: append_program(ANSWERS[number, words].program)})
    assert words in check(number).wrong.why
    printed = capsys.readouterr().out  # by the ranks
    assert "terminate called" not in printed and "Warning" not in printed


def test_what_python_prints_to_stderr_is_still_shown(course):
    warns = "def likeliest(*args):\n    __import__('warnings').warn('mine')"
    course(decoding=append_program(warns))
    verdict = check(EX.likeliest)
    assert verdict.passed is False
    assert "UserWarning: mine" in repr(verdict)


def test_warnings_of_what_autograd_passes_by_are_noted_and_all_others_given():
    words = "c10d::some_: an autograd kernel was not registered to the Autograd key(s)"
    with pytest.warns() as given, observed_calls.note_bypassed() as passed:
        warnings.warn(words, stacklevel=1)
        warnings.warn("another one", stacklevel=1)
    assert passed == ["c10d::some_"]
    assert [str(warning.message) for warning in given] == ["another one"]
