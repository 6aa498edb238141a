"""ZeRO after a forward or a backward that raised: the next step is right, or refuses."""

import copy
from functools import partial

import pytest
import torch
from helpers import load_solved_lab

from pedagogy_lib import RankError, launch
from pedagogy_lib.basics.closeness import close

ZERO, AHEAD = map(load_solved_lab, ("zero", "prefetch"))
KINDS = {**ZERO.STAGES, "prefetching": AHEAD.Prefetching}
SGD = partial(torch.optim.SGD, lr=0.5, momentum=0.9)


class RaisesOnDemand(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, when):
        ctx.when = when
        if when == "forward":
            raise MemoryError(when)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        if ctx.when == "backward":
            raise MemoryError("backward")
        return gradient, None


class Raising(torch.nn.Module):
    """A layer that raises in its forward or in its backward, if `when` says so."""

    def __init__(self):
        super().__init__()
        self.linear, self.when = torch.nn.Linear(4, 4), None

    def forward(self, x):
        return RaisesOnDemand.apply(torch.tanh(self.linear(x)), self.when)


def make(kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), *(Raising() for _ in range(3))).double()
    alone = copy.deepcopy(model)
    engine = KINDS[kind](model, SGD, list(model)[1:])
    return model, engine, alone, SGD(alone.parameters())


def go_through(model, number, when=None):
    """Run forward and backward of a micro-batch; return whether the middle layer has raised."""
    draw = torch.Generator().manual_seed(number)
    x = torch.randn(3, 4, generator=draw, dtype=torch.float64).requires_grad_()
    model[2].when = when
    try:
        model(x).square().mean().backward()
    except MemoryError:
        return True
    finally:
        model[2].when = None
    return False


def equals_one_process(engine, model, alone):
    with ZERO.whole(engine):
        pairs = zip(model.parameters(), alone.parameters())
        return all(close(p.detach(), q.detach(), steps=3) for p, q in pairs)


def skip_batch(kind, when):
    """Discard a step whose batch raised after a good micro-batch; one process never saw it."""
    model, engine, alone, optimizer = make(kind)
    for step in range(3):
        if step == 1:
            assert not go_through(model, 100)
            assert go_through(model, 101, when)
            engine.zero_grad()
        for m in (model, alone):
            go_through(m, step)
        engine.step()
        optimizer.step()
        optimizer.zero_grad()
    return equals_one_process(engine, model, alone)


@pytest.mark.parametrize("when", ["forward", "backward"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_is_discarded_leaves_no_trace(kind, when):
    assert launch(skip_batch, kind, when, world_size=2, device="cpu").values == [True] * 2


def skip_forward(kind):
    """Step without a micro-batch whose forward raised; its gathered units must not outlive it."""
    model, engine, alone, optimizer = make(kind)
    for step in range(3):
        for m in (model, alone):
            go_through(m, step)
        assert go_through(model, 100, "forward")
        engine.step()
        optimizer.step()
        optimizer.zero_grad()
    return equals_one_process(engine, model, alone)


@pytest.mark.parametrize("kind", KINDS)
def test_a_micro_batch_may_be_left_out_if_its_forward_raised(kind):
    assert launch(skip_forward, kind, world_size=2, device="cpu").values == [True] * 2


def step_on(kind):
    model, engine, *_ = make(kind)
    assert go_through(model, 0, "backward")
    model.zero_grad()
    go_through(model, 1)
    engine.step()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "stage 1"])
def test_a_step_with_missing_gradients_is_refused(kind):
    with pytest.raises(RankError, match=r"a backward has raised .* call zero_grad\(\)"):
        launch(step_on, kind, world_size=2, device="cpu")
