"""The real engines, and ours, on the same steps: numbers, bytes, and what each rank keeps."""

import needs
import pytest
import torch
from helpers import load_solved_lab
from machines_here import needs_machines
from selection import parametrize

from pedagogy_lib import Machines, launch
from pedagogy_lib.basics.closeness import rounding

ENGINES = load_solved_lab("sharding_engines")
STEPS = 5
TWO_MACHINES = Machines(2, bytes_per_second=100e6)
MODELS = {  # kept of parameters, gradients and state on 4 ranks, and sent on Gloo, in models
    "DDP": (1, 1, 2, 1.5),
    "ours, stage 1": (1, 1, 0.5, 1.5),
    "ours, stage 2": (1, 0.25, 0.5, 1.5),
    "FSDP2, kept gathered": (0.25, 0.25, 0.5, 2.25),
    "ours, stage 3": (0.25, 0.25, 0.5, 2.25),
    "FSDP2": (0.25, 0.25, 0.5, 3),
    "FSDP2, 2 halves": (0.5, 0.5, 1, 2.5),
}


def try_engine(name, dtype, layers=2):
    make = {**ENGINES.ENGINES, **ENGINES.DEEPSPEED}[name]
    text = ENGINES.standard_library(5_000)
    return ENGINES.try_engine(make, ENGINES.make_model(64, layers, dtype), text, STEPS)


def size_of(layers=2):
    return sum(p.numel() for p in ENGINES.make_model(64, layers).parameters())


OFTEN = ["ours, stage 3", "FSDP2"]  # the solved chapter 06h shows the same of all of them


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.deep] * (name not in OFTEN)) for name in MODELS],
)
def test_equals_one_process(name):
    run = launch(try_engine, name, torch.float64, world_size=4, device="cpu")
    assert max(gap for gap, _ in run.values) <= rounding(steps=STEPS)
    *kept, sent = MODELS[name]
    bytes_ = 8 * size_of()
    assert run["step"].sent_bytes[0] / bytes_ == pytest.approx(sent, rel=0.02)
    for kind, models in zip(("parameters", "gradients", "optimizer_state"), kept):
        assert run["kept"].peak_bytes[0][kind] / bytes_ == pytest.approx(models, rel=0.01)


def test_zero_redundancy_optimizer():
    """It shares out whole parameters, so ranks differ a little in what they keep."""
    run = launch(try_engine, "ZeroRedundancyOptimizer", torch.float64, world_size=4, device="cpu")
    assert max(gap for gap, _ in run.values) <= rounding(steps=STEPS)
    assert run["step"].sent_bytes[0] / (8 * size_of()) == pytest.approx(2.25, rel=0.02)
    kept = sum(peak["optimizer_state"] for peak in run["kept"].peak_bytes)
    assert kept / (8 * size_of()) == pytest.approx(2, rel=0.01)


@pytest.mark.deep
@pytest.mark.parametrize("machines", [None, pytest.param(TWO_MACHINES, marks=needs_machines)])
@parametrize("name", ENGINES.DEEPSPEED, quick=1)
@needs.mark("deepspeed")
def test_deepspeed(name, machines):
    run = launch(try_engine, name, torch.float32, world_size=4, device="cpu", machines=machines)
    assert max(gap for gap, _ in run.values) <= rounding(torch.float32, STEPS)
    sent = 3 if "released" in name else 2.25
    assert run["step"].sent_bytes[0] / (4 * size_of()) == pytest.approx(sent, rel=0.08)


def test_without_deepspeed_its_engines_are_left_out():
    names = [name for name, _ in ENGINES.all_engines()]
    assert ("DeepSpeed, stage 1" in names) == ENGINES.HAS_DEEPSPEED
    assert "python3 tools/setup.py deepspeed" in ENGINES.NO_DEEPSPEED
