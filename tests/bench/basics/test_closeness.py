"""`close`: what counts as rounding, whatever the order of a sum, and what does not."""

import math

import pytest
import torch

from pedagogy_lib.basics.closeness import (  # fmt: skip
    close,
    close_in_float32,
    first_off,
    format_gap,
    relative_gap,
    rounding,
)

LENGTH, DEPTH = 4096, 16
ROOM = 1000  # times what is allowed: as far as a mistake is off, at least


def layers(order):
    """Products one after another, whose sums are taken in the order of a permutation."""
    source = torch.Generator().manual_seed(0)
    x = torch.randn(8, LENGTH, dtype=torch.float64, generator=source)
    for _ in range(DEPTH):
        weight = torch.randn(LENGTH, LENGTH // 64, dtype=torch.float64, generator=source)
        y = x[:, order] @ weight[order] / LENGTH**0.5
        x = torch.tanh(y).repeat(1, 64)
    return y


def test_another_order_of_long_and_deep_sums_is_rounding():
    source = torch.Generator().manual_seed(1)
    orders = [torch.randperm(LENGTH, generator=source) for _ in range(3)]
    right = layers(torch.arange(LENGTH))
    gaps = [relative_gap(layers(order), right) for order in orders]
    assert 0 < max(gaps) < rounding() / 8, gaps


@pytest.mark.parametrize("magnitude", [1e-30, 1.0, 1e30])
def test_it_is_relative_to_the_largest(magnitude):
    right = magnitude * torch.tensor([1.0, -4.0, 1e-9], dtype=torch.float64)
    nearly, wrong = right.clone(), right.clone()
    nearly[2] += 4 * magnitude * rounding() / 2
    wrong[2] += 4 * magnitude * rounding() * 2
    assert close(nearly, right) and not close(wrong, right)
    assert relative_gap(wrong, right) == pytest.approx(2 * rounding())


def test_what_went_through_float32_is_no_rounding():
    right = torch.randn(1000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    got = right.float().double()
    assert relative_gap(got, right) > ROOM * rounding()
    assert close_in_float32(got, right) and not close_in_float32(1.0001 * right, right)


def test_each_number_of_a_list_counts_for_itself():
    assert not close([1e9, 5.0], [1e9, 0.25])
    assert not close_in_float32([1e9, 5.0], [1e9, 0.25])
    assert close_in_float32([1e9, torch.tensor(0.1)], [1e9, 0.1])


def test_steps_add_up():
    right = torch.ones(3, dtype=torch.float64)
    got = right + 5 * rounding()
    assert close(got, right, steps=10) and not close(got, right)


def test_a_scale_in_place_of_the_largest():
    assert close(1e-11, 0.0, scale=10.0) and not close(1e-11, 0.0)
    assert close(1e-16, 0.0)  # of numbers that are all zeros, nobody knows the magnitude: 1
    right = torch.tensor([1.0, 1e-9])
    assert close(right + torch.tensor([0, 1e-12]), right)
    assert not close(right + torch.tensor([0, 1e-12]), right, scale=right)


@pytest.mark.parametrize(
    ("got", "wanted"),
    [
        (torch.ones(3), torch.ones(3, 1)),
        (torch.ones(3), torch.ones(3).double()),
        (torch.tensor([1.0, math.nan]), torch.ones(2)),
        (torch.ones(2), torch.tensor([1.0, math.nan])),
        (torch.tensor([math.nan]), torch.tensor([math.nan])),
        (torch.tensor([math.inf]), torch.ones(1)),
        (torch.tensor([1.5, math.inf]), torch.tensor([1.0, math.inf])),
        (torch.tensor([1e-11], dtype=torch.float64), torch.zeros(1).double()),
        (10**15 + 1, 10**15),
        (None, [1.0]),
        (3, {"a": 1}),
        (3, [3]),
        ("a", 1.0),
        (torch.tensor([7]), torch.tensor([8])),
        (torch.tensor([2**60 + 1]), torch.tensor([2**60])),
        (None, torch.ones(1)),
        (torch.ones(1), None),
        (1.0, math.inf),
        ([1.0], [1.0, 2.0]),
        ({"a": 1.0}, {"b": 1.0}),
        ({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}),
    ],
    ids=str,
)
def test_what_is_not_close(got, wanted):
    assert not close(got, wanted)


@pytest.mark.parametrize(
    "x",
    [
        torch.zeros(3), torch.empty(0), torch.tensor(5), torch.tensor([math.inf, 1.0]), None, 3,
        0.1, [1.0, None, torch.ones(2)], {"a": [1.0], "b": {"c": torch.ones(2)}},
        torch.ones(2, requires_grad=True), torch.ones(2, dtype=torch.bfloat16),
        torch.tensor([True]),
    ],
    ids=str,
)  # fmt: skip
def test_everything_is_close_to_itself(x):
    assert close(x, x)


def test_parameters_one_by_one():
    models = [torch.nn.Linear(3, 2).double() for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    assert close(models[0].parameters(), models[1].parameters())
    models[1].bias.detach()[1] += 1e-6
    assert not close(models[0].parameters(), models[1].parameters())


def test_messages():
    got, wanted = torch.zeros(2, 3).double(), torch.zeros(2, 3).double()
    wanted[1, 2] = got[1, 2] = 4
    got[1, 0] += 0.25
    assert first_off(got, wanted) == (1, 0)
    assert format_gap(got, wanted) == "0.25"
    assert format_gap(got, wanted[0]) == "shapes [2, 3], [3]"
