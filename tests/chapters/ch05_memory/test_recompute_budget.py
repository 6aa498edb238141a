"""Recomputation under a budget, and offloading: bytes, FLOPs and gradients beside a plain step."""

from itertools import combinations

import pytest
import torch
from helpers import load_solved_lab
from needs import without_compiler

from pedagogy_lib import close, launch

BUDGET, OFFLOAD, MODELS = map(load_solved_lab, ("recompute_budget", "offloading", "language_model"))


def test_bytes_and_flops_of_parts_add_up_for_every_choice():
    parts, (kept, flops, gradients) = BUDGET.measure_parts(), BUDGET.take_step()
    numbers = range(len(parts))
    for chosen in [c for k in (0, 2, 3, 6) for c in combinations(numbers, k)]:
        left, done, found = BUDGET.take_step(chosen)
        assert left == kept - sum(parts[k][0] for k in chosen), chosen
        assert done == flops + sum(parts[k][1] for k in chosen), chosen
        assert torch.equal(found, gradients)


def test_the_solver_adds_no_more_flops_than_the_greedy_rule_and_fits():
    parts = BUDGET.measure_parts()
    total, gains = sum(size for size, _ in parts), 0
    for percent in range(0, 101, 5):
        best, greedy = (
            choose(parts, percent / 100 * total)
            for choose in (BUDGET.recompute_by_solver, BUDGET.recompute_greedily)
        )
        left = total - sum(parts[k][0] for k in best)
        assert left <= percent / 100 * total * 1.001 + 1  # it counts in steps of 1/10,000
        costs = [sum(parts[k][1] for k in chosen) for chosen in (best, greedy)]
        assert costs[0] <= costs[1]
        gains += costs[0] < costs[1]
    assert gains > 0, "the greedy rule would be enough"


@pytest.mark.deep
def test_a_compiled_model_keeps_less_under_a_budget_with_the_same_gradients():
    shares = (1, 0.5, 0)
    run = launch(without_compiler, BUDGET.compile_under_budgets, shares, world_size=1, device="cpu")
    found = run.values[0]
    kept, flops, exact = BUDGET.take_step()
    assert found[1][0] == kept
    assert found[0][0] == BUDGET.draw_samples().nbytes
    assert kept * 0.5 >= found[0.5][0] * 0.9 and found[0.5][1] < found[0][1] < flops * 1.5
    for _, _, gradients in found.values():
        assert (gradients - exact).norm() <= 1e-6 * exact.norm()


# ---- Offloading ----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", OFFLOAD.WAYS[1:])
def test_gradients_are_the_same_and_nothing_is_left(way):
    text = MODELS.standard_library(5_000)
    plain, moved = (launch(OFFLOAD.step_in, name, text, 32, 2, 4, world_size=1, device="cpu")
                    for name in (OFFLOAD.WAYS[0], way))  # fmt: skip
    assert torch.equal(plain.values[0][0], moved.values[0][0])
    left = OFFLOAD.left_on_device(plain, OFFLOAD.WAYS[0])
    assert OFFLOAD.left_on_device(moved, way) < 0.01 * left
    out = moved.values[0][1]
    assert out == pytest.approx(left, rel=0.01) if way == OFFLOAD.WAYS[2] else out > 1.05 * left


def compute(x, weight):
    """Save views, a transposed tensor, whole numbers, and one tensor several times."""
    y = (x @ weight).tanh()
    z = y.t() * y.t().exp() + y[::2].repeat(2, 1).t()[:, : y.shape[0]]
    picked = z.gather(1, torch.arange(z.shape[1]).expand(z.shape[0], -1).flip(1))
    return (picked * z).sum() + y.expand(2, *y.shape).square().sum()


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_odd_tensors_come_back_as_they_were(careful, dtype):
    model = torch.nn.Linear(5, 5, bias=False).to(dtype)
    x = torch.randn(6, 5, dtype=dtype, requires_grad=True)
    wanted = torch.autograd.grad(compute(x, model.weight), [x, model.weight])
    host = OFFLOAD.Host(model if careful else None)
    with host.hooks():
        loss = compute(x, model.weight)
    again = torch.autograd.grad(loss, [x, model.weight])
    assert all(close(*pair) for pair in zip(again, wanted))
    assert host.moved_out > 0 and host.moved_back > 0


@pytest.mark.parametrize("careful", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.bool, torch.complex64, torch.float8_e4m3fn,
                                   torch.int16])  # fmt: skip
def test_every_dtype_comes_back(careful, dtype):
    """Also those that NumPy lacks; of a transposed view, and of a conjugated one."""
    host = OFFLOAD.Host(torch.nn.Linear(1, 1) if careful else None)
    x = torch.randn(4, 3, dtype=torch.complex64 if dtype.is_complex else torch.float32)
    view = x.to(dtype)[1:].t()
    view = view.conj() if dtype.is_complex else view
    again = host.load(host.store(view))
    assert again.dtype == dtype and torch.equal(again.to(x.dtype), view.to(x.dtype))


@pytest.mark.parametrize("careful", [False, True])
def test_two_steps_under_autocast_leave_nothing_on_the_host(careful):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU(), torch.nn.Linear(32, 8))
    x, moved = torch.randn(16, 64), []
    host = OFFLOAD.Host(model if careful else None)
    for _ in range(2):
        with torch.autocast("cpu", torch.bfloat16):
            wanted = torch.autograd.grad(model(x).float().square().mean(), model.parameters())
            with host.hooks():
                loss = model(x).float().square().mean()
        stored = [id(of) for of in host.stored.values()]
        again = torch.autograd.grad(loss, model.parameters())
        assert all(torch.equal(*pair) for pair in zip(again, wanted))
        assert stored and not host.stored
        moved.append(host.moved_out)
    assert moved[1] == 2 * moved[0]
    # Careful: the casts of x, of the second weight and of two activations, and the float32 result.
    if careful:
        assert moved[0] == 2 * (16 * 64 + 8 * 32 + 2 * 16 * 32) + 4 * 16 * 8


def test_a_memory_that_is_used_again_is_stored_again():
    """A freed tensor's address may be another tensor's; a changed tensor has other numbers."""
    host = OFFLOAD.Host(torch.nn.Linear(1, 1))
    saved = []
    for number in range(50):
        x = torch.full((1000,), float(number))
        saved.append(host.store(x))
        del x
    assert [host.load(each)[0].item() for each in saved] == list(range(50))
    x = torch.zeros(3)
    first = host.store(x)
    x.add_(1)
    assert host.load(first).tolist() == [0, 0, 0] and host.load(host.store(x)).tolist() == [1, 1, 1]
