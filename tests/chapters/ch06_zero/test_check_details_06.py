"""Chapter 06: faults of earlier exercises, labs in part, and what cases can tell apart."""

import pytest
import torch
from answer_files import all_answers, define_answer
from coursekit.content.ch06_zero.exercises.reduce_gradients import cases as reducing
from exercise_names import EX
from helpers import put_lab

from coursekit.answers import remote_answer
from coursekit.building import build
from pedagogy_lib import check

NAMES = ("zero", "collectives", "complete_gradients", "simple_ddp", "language_model")
SOLVED = {name: build.text_of(build.source_of(name)) for name in NAMES}
ANSWERS = {
    (answer.exercise.number, answer.words): answer
    for answer in all_answers()
    if answer.exercise.number.startswith("6.")
}


@pytest.fixture(autouse=True)
def quick_hangs(monkeypatch):
    monkeypatch.setattr(remote_answer, "TIMEOUT_SECONDS", 3.0)


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Replaces a lab of the learner's; the others are solved."""
    for name, text in SOLVED.items():
        put_lab(tmp_path, monkeypatch, name, text, text)
    return lambda name, text: put_lab(tmp_path, monkeypatch, name, text)


# ---- Programs with a bug, as a learner gets them -------------------------------------------------

AS_GIVEN = [  # exercise, phrase of the diagnosis, the symptom that is told with it
    (
        EX.sharded_linear,
        "as if the slopes of all layers passed through the weight of layer 3",
        "wrong is that of x, too; right is that of layer 2's shard, layer 3's shard",
    ),
    (
        EX.accumulate_part,
        "what is summed over, and what is divided by?",
        "it is 0.5 times what it should be, in every element",
    ),
]


@pytest.mark.parametrize(
    ("number", "phrase", "symptom"), AS_GIVEN, ids=[number for number, *_ in AS_GIVEN]
)
def test_the_symptom_of_a_program_as_it_is(number, phrase, symptom):
    verdict = check(number, define_answer(ANSWERS[number, phrase]))
    assert symptom in f"{verdict.wrong.case}: {verdict.wrong.what}", verdict
    assert phrase in verdict.wrong.why, verdict


# ---- What an answer is built on ------------------------------------------------------------------

FAULTS = [  # the exercise that is checked, the one that is wrong, the lab, what is wrong in it
    (
        EX.reduce_gradients,
        EX.flatten_padded,
        "zero",
        "def flatten_padded(tensors, n):\n    return torch.cat(tensors)",
    ),
    (
        EX.reduce_gradients,
        EX.reduce_scatter_ring,
        "collectives",
        "def reduce_scatter_ring(chunks, group=None):\n    pass",
    ),
    (
        EX.zero1,
        EX.reduce_gradients,
        "zero",
        ANSWERS[EX.reduce_gradients, "this is the sum"].program,
    ),
    (
        EX.zero1,
        EX.all_gather_ring,
        "collectives",
        "def all_gather_ring(chunks, group=None):\n    pass",
    ),
    (EX.zero2, EX.zero1, "zero", "Zero1.update = lambda self: self.optimizer.step()"),
    (
        EX.gather,
        EX.all_gather_ring,
        "collectives",
        "def all_gather_ring(chunks, group=None):\n    pass",
    ),
    (
        EX.dispose,
        EX.flatten_padded,
        "zero",
        "def flatten_padded(tensors, n):\n    return torch.cat(tensors)",
    ),
    (
        EX.zero3,
        EX.gather,
        "zero",
        ANSWERS[EX.gather, "copy the shard into the chunk, before"].program,
    ),
    (EX.zero3, EX.dispose, "zero", ANSWERS[EX.dispose, "nothing is freed"].program),
    (
        EX.zero3,
        EX.reduce_gradients,
        "zero",
        """
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    unit.shard.grad = flat.chunk(unit.n)[unit.rank]
""",
    ),
    (EX.zero3, EX.zero2, "zero", "Zero2.end_backward = lambda self: setattr(self, 'left', None)"),
    (
        EX.zero3,
        EX.start_equal,
        "simple_ddp",
        """
def start_equal(model, group=None):
    for p in model.parameters():
        p.data.zero_()
""",
    ),
]


@pytest.mark.parametrize(
    ("number", "first", "lab", "source"),
    [pytest.param(*fault, id=f"{fault[0]} after {fault[1]}") for fault in FAULTS],
)
def test_a_fault_of_an_earlier_exercise_is_sent_there(number, first, lab, source, put):
    put(lab, f"{SOLVED[lab]}\n\n{source}")
    verdict = check(number)
    assert verdict.passed is False, verdict
    assert verdict.wrong.why == f'first: check("{first}")', verdict


def test_a_missing_solution_is_named(tmp_path, monkeypatch):
    """A teacher may leave solutions/ out: then what comes first has to be written first."""
    for name in NAMES[1:]:
        put_lab(tmp_path, monkeypatch, name, SOLVED[name])
    before, _, rest = SOLVED["zero"].partition("    ### BEGIN SOLUTION")
    _, _, after = rest.partition("    ### END SOLUTION")
    put_lab(tmp_path, monkeypatch, "zero", f"{before}    ...{after}")
    assert f"exercise {EX.flatten_padded} comes first: flatten_padded" in check(EX.zero1).wrong.what


def test_a_stage_3_whose_stage_2_still_has_its_hole_is_made_of_ours(put):
    hole = """self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left.pop())
"""
    assert hole in SOLVED["zero"]
    put("zero", SOLVED["zero"].replace(hole, "...\n"))
    verdict = check(EX.zero3)
    assert verdict.passed, verdict


def test_a_class_with_one_of_its_holes_left_is_partly_written(put):
    hole = "class Zero3(Zero2):\n    def before_forward(self, unit, *_):\n        ...\n"
    put("zero", f"{SOLVED['zero']}\n\n{hole}")
    verdict = check(EX.zero3)
    assert verdict.passed is None
    assert "partly written; still to write: before_forward" in str(verdict)


# ---- The checks themselves -----------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_the_parts_of_a_tensor(n):
    parts = [reducing.part_of(torch.arange(1.0, 6), n, place) for place in range(n)]
    assert len({len(part) for part in parts}) == 1
    assert torch.cat(parts)[:5].tolist() == [1, 2, 3, 4, 5]
    assert not torch.cat(parts)[5:].any()
