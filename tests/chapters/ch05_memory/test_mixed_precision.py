"""Master weights, sums in bfloat16, and recomputed FLOPs."""

from functools import partial

import pytest
import torch
from helpers import load_solved_lab

MEMORY, HALF, RECOMPUTATION, MODELS = map(
    load_solved_lab, ("memory", "half_precision", "recomputation", "language_model")
)
SGD = partial(torch.optim.SGD, lr=2.0**-9)


def step(layer, mixed):
    for p in layer.parameters():
        p.grad = torch.ones_like(p)
    mixed.step()


def test_weights_that_are_loaded_later_stay():
    layer = torch.nn.Linear(2, 2).bfloat16()
    mixed = MEMORY.MixedPrecision(layer.parameters(), SGD)
    step(layer, mixed)
    layer.load_state_dict({name: torch.full_like(x, 7) for name, x in layer.state_dict().items()})
    mixed.step()  # without a gradient
    assert all((p == 7).all() for p in layer.parameters())
    step(layer, mixed)
    assert all((master == 7 - 2.0**-9).all() for master in mixed.masters)


def test_a_master_keeps_what_its_parameter_cannot_show():
    p = torch.nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    mixed = MEMORY.MixedPrecision([p], SGD)
    for number in range(1, 5):
        p.grad = torch.ones_like(p)
        p.data[0] = 0.5  # another process's part, for example
        mixed.step()
        assert mixed.masters[0].tolist() == [0.5 - 2.0**-9, *[1 - number * 2.0**-9] * 2]


def test_frozen_weights_have_no_master():
    layer = torch.nn.Linear(2, 2).bfloat16()
    layer.weight.requires_grad_(False)
    before = layer.weight.clone()
    mixed = MEMORY.MixedPrecision(layer.parameters(), SGD)
    layer.bias.grad = torch.ones_like(layer.bias)
    mixed.step()
    assert [master.shape for master in mixed.masters] == [layer.bias.shape]
    assert torch.equal(layer.weight, before)


@pytest.mark.parametrize(("micro_batches", "least", "most"), [(8, 0, 0.005), (1024, 0.4, 0.6)])
def test_a_sum_of_many_micro_batches_loses_digits(micro_batches, least, most):
    assert least <= abs(HALF.share_lost(micro_batches)) <= most


def test_recomputation_costs_more_where_weights_are_frozen():
    found = RECOMPUTATION.more_flops_if_frozen(MODELS.standard_library(5_000), 64, 4, 2)
    reentrant, other = found.values()
    assert 1.4 < reentrant <= 1.5
    assert 1.25 < other < 1.4


def test_a_parameter_that_is_listed_twice_is_trained_once():
    p = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    mixed = MEMORY.MixedPrecision([p, p], partial(torch.optim.SGD, lr=0.5))
    p.grad = torch.ones_like(p)
    mixed.step()
    assert p.tolist() == [0.5, 0.5]
