"""Master weights, sums in bfloat16, recomputed FLOPs, and products in 8 and 4 bits."""

from functools import partial

import pytest
import torch
from helpers import load_solved_lab

MEMORY, HALF, RECOMPUTATION, MODELS = map(
    load_solved_lab, ("memory", "half_precision", "recomputation", "language_model")
)
NARROW = load_solved_lab("narrow_formats")
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


# ---- Formats of 8 and 4 bits --------------------------------------------------------------------


def test_numbers_of_four_bits_are_rounded_to_the_nearest():
    x = torch.tensor([0.2, 0.3, -1.3, 2.4, 2.6, -4.9, 5.1, 100.0])
    found = NARROW.round_to(x, NARROW.E2M1)
    assert found.tolist() == [0.0, 0.5, -1.5, 2.0, 3.0, -4.0, 6.0, 6.0]


@pytest.mark.parametrize("name", NARROW.FORMATS)
def test_scaled_numbers_keep_the_largest_of_their_block_and_zeros(name):
    form = NARROW.FORMATS[name]
    x = torch.randn(4, 64, generator=torch.Generator().manual_seed(0)) * 2.0**-30
    x[0] = 0
    found = NARROW.round_in_blocks(x, form.numbers, form.block, form.scales)
    if form.scales is None:
        assert not found.any(), "numbers so small need a scale"
        return
    assert not found[0].any()
    blocks, rounded = (t[1:].reshape(-1, form.block or t[1:].numel()) for t in (x, found))
    off = (rounded - blocks).abs().amax(1) / blocks.abs().amax(1)
    assert off.max() <= (1 / 16 if form.numbers == NARROW.E4M3 else 1 / 4)


@pytest.mark.parametrize("name", NARROW.FORMATS)
def test_scales_that_are_powers_of_two_never_round_anything_to_infinity(name):
    form, x = NARROW.FORMATS[name], torch.tensor([[448.0, 449.0, 1e4, 6.0] * 16])
    found = NARROW.round_in_blocks(x, form.numbers, form.block, form.scales)
    assert found.isfinite().all()


def test_four_bits_need_small_blocks_and_eight_bits_a_scale():
    errors = NARROW.compare_formats(MODELS.standard_library(20_000))
    assert errors["E4M3, not scaled"][1] > 0.5
    assert max(errors["E4M3"] + errors["MXFP8: E4M3"]) < 0.05
    assert all(small < one for small, one in zip(errors["NVFP4: E2M1"], errors["E2M1"]))
    assert NARROW.FORMATS["NVFP4: E2M1"].bits == 4.5


def test_a_parameter_that_is_listed_twice_is_trained_once():
    p = torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))
    mixed = MEMORY.MixedPrecision([p, p], partial(torch.optim.SGD, lr=0.5))
    p.grad = torch.ones_like(p)
    mixed.step()
    assert p.tolist() == [0.5, 0.5]
