"""`SlowProducts`: how long products take, and that nothing else changes."""

import pytest
import torch
import torch.nn.functional as F
from helpers import launch_on_cpu as launch

from pedagogy_lib import SlowProducts, measure
from pedagogy_lib.basics.closeness import close

FLOPS = 2 * 40 * 30 * 20 / 0.05  # a product of (40, 30) and (30, 20) takes 0.05 s


def test_products_forward_and_backward_take_their_time():
    def step():
        x, weight = torch.randn(40, 30), torch.randn(20, 30, requires_grad=True)
        bias = torch.zeros(20)
        with SlowProducts(FLOPS), measure("all"):
            y = F.linear(x, weight, bias).relu()
            y.sum().backward()
        wanted = (y > 0).float().T @ x
        return close(weight.grad, wanted)

    run = launch(step, world_size=1)
    assert run.values == [True]
    assert [round(end - start, 1) >= 0.05 for start, end in run["product"].spans[0]] == [True] * 2
    assert 0.1 <= run["product"].seconds[0] <= run["all"].seconds[0]


def test_it_travels_to_the_ranks():
    def step(mode):
        with mode:
            torch.ones(2, 2) @ torch.ones(2, 2)

    assert len(launch(step, SlowProducts(1e9), world_size=2)["product"].spans) == 2


def test_products_that_are_not_measured_take_their_time_too():
    def step(mode):
        with mode, measure("all"):
            torch.ones(40, 30) @ torch.ones(30, 20)

    run = launch(step, SlowProducts(FLOPS, measured=False), world_size=1)
    assert run["all"].seconds[0] >= 0.05
    with pytest.raises(KeyError):
        run["product"]


def test_no_flops():
    with pytest.raises(ValueError, match="positive number of FLOPS"):
        SlowProducts(0)
