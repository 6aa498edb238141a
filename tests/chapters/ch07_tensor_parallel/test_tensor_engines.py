"""DTensor's plans and our own ways, on the same steps: numbers, and bytes sent."""

import pytest
import torch
from helpers import load_solved_lab

from pedagogy_lib import launch, measure
from pedagogy_lib.basics.closeness import relative_gap, rounding

ENGINES, MODELS = load_solved_lab("tensor_engines"), load_solved_lab("language_model")
PLANS = ("DTensor", "DTensor, sequence parallel")
OURS = {PLANS[0]: "tensor parallel", PLANS[1]: "sequence parallel"}
SIZES = {
    "plain": {"layers": 2, "heads": 4},
    "two queries for a key": {"layers": 1, "heads": 8, "kv_heads": 4},
}
SAMPLES = 4


def gap(mesh, name, sizes):
    """The largest difference to one process, of the loss and of the gradients."""
    torch.manual_seed(0)
    alone = MODELS.Transformer(32, **sizes)
    split, loss_of, complete = ENGINES.ready(name, mesh, width=32, **sizes)
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(5_000), SAMPLES, 0)
    wanted = MODELS.mean_loss(alone(inputs), targets)
    wanted.backward()
    with ENGINES.split_loss(name):
        loss = loss_of(split(inputs), targets)
        loss.backward()
    if complete:
        complete(split)
    ours, gaps = dict(split.named_parameters()), [relative_gap(loss, wanted)]
    return max(gaps + [ENGINES.difference(ours[k], p) for k, p in alone.named_parameters()])


def step(mesh, name):
    """A step with tensors so large that their bytes matter alone."""
    inputs, targets = MODELS.draw_batch(MODELS.standard_library(5_000), 16, 0)
    model, loss_of, complete = ENGINES.ready(name, mesh, width=64, layers=1)
    with ENGINES.split_loss(name), measure(name):
        loss_of(model(inputs), targets).backward()
        if complete:
            complete(model)


def try_all():
    """All gaps; and a step of each is measured."""
    torch.set_default_dtype(torch.float64)
    mesh = ENGINES.mesh_of_all()
    for name in [*PLANS, *OURS.values()]:
        step(mesh, name)
    names = [*PLANS, OURS[PLANS[1]]]
    return {(name, case): gap(mesh, name, SIZES[case]) for name in names for case in SIZES}


@pytest.fixture(scope="module")
def run():
    return launch(try_all, world_size=2, device="cpu")  # 4 give the same, and take their time


def test_equals_one_process(run):
    for gaps in run.values:
        assert max(gaps.values()) <= rounding(), gaps


def test_dtensor_sends_what_ours_sends(run):
    theirs, ours = (run[name].sent_bytes for name in ("DTensor", "tensor parallel"))
    assert theirs == pytest.approx(ours, rel=0.01)


def test_on_gloo_its_sequence_plan_sends_half_as_much_again(run):
    """Gloo's reduce-scatter is an all-reduce: 2 units, where ours, and the all-gather, send 1."""
    theirs, ours = (sum(run[name].sent_bytes) for name in (PLANS[1], OURS[PLANS[1]]))
    assert 1.35 < theirs / ours < 1.6
