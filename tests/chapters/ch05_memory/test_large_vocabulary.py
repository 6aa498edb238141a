"""A loss in chunks equals F.cross_entropy: in half precision, and with ignored targets."""

import pytest
import torch
import torch.nn.functional as F
from helpers import launch_on_cpu, load_solved_lab

from pedagogy_lib import close

LARGE = load_solved_lab("large_vocabulary")
POSITIONS, WIDTH, VOCABULARY = 64, 8, 50


def gradients_of(way, dtype, ignored=0):
    """Return the loss, and the gradients of `hidden`'s inputs and of the matrix."""
    torch.manual_seed(0)
    x = torch.randn(POSITIONS, WIDTH).bfloat16().to(dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH).bfloat16().to(dtype).requires_grad_()
    targets = torch.randint(VOCABULARY, (POSITIONS,))
    targets[:ignored] = -100
    loss = way(2 * x, weight, targets)
    return loss, x.grad, weight.grad


def at_once(hidden, weight, targets):
    loss = F.cross_entropy(hidden @ weight.T, targets)
    loss.backward()
    return loss.detach()


def in_chunks(size):
    return lambda hidden, weight, targets: LARGE.backward_in_chunks(hidden, weight, targets, size)


@pytest.mark.parametrize("size", [1, 7, POSITIONS])
@pytest.mark.parametrize("ignored", [0, 1, 30, POSITIONS])
def test_ignored_targets_count_for_nothing(size, ignored):
    found, wanted = (
        gradients_of(way, torch.float64, ignored) for way in (in_chunks(size), at_once)
    )
    assert close(found[1:], wanted[1:])
    if ignored == POSITIONS:  # a mean of nothing
        assert found[0].isnan()
        assert wanted[0].isnan()
    else:
        assert close(found[0], wanted[0])


def length_of_gap(x, y) -> float:
    return ((x.float() - y.float()).norm() / y.float().norm()).item()


@pytest.mark.parametrize("size", [1, 8, POSITIONS])
def test_small_chunks_are_added_up_in_float32(size):
    exact, rounded = (gradients_of(at_once, dtype) for dtype in (torch.float32, torch.bfloat16))
    loss, *gradients = gradients_of(in_chunks(size), torch.bfloat16)
    assert loss.item() == pytest.approx(exact[0].item(), rel=0.01)
    for found, wanted, alike in zip(gradients, exact[1:], rounded[1:]):
        assert found.dtype == torch.bfloat16
        assert length_of_gap(found, wanted) < 1.2 * length_of_gap(alike, wanted)


@pytest.mark.parametrize("has_other_uses", [False, True])
def test_a_gradient_that_is_there_stays_in_the_sum(has_other_uses):
    found = []
    for way in (in_chunks(5), at_once):
        torch.manual_seed(0)
        weight = torch.randn(VOCABULARY, WIDTH, dtype=torch.float64).requires_grad_()
        weight.grad = torch.ones_like(weight)
        calls = []
        weight.register_post_accumulate_grad_hook(lambda p, calls=calls: calls.append(p))
        x = weight[:POSITIONS] if has_other_uses else torch.ones_like(weight).requires_grad_()
        way(2 * x, weight, torch.arange(len(x)))
        found.append(weight.grad)
        assert 1 <= len(calls) <= 1 + has_other_uses, "once for each backward, not for each chunk"
    assert close(*found)


def test_beside_the_matrix_there_are_two_more_of_its_size_at_most():
    width, vocabulary, size = 8, 4096, 4
    matrix, logits = 4 * width * vocabulary, 4 * size * vocabulary
    ways = LARGE.ways_in_chunks([size])
    run = launch_on_cpu(LARGE.time_ways, ways, 4 * size, width, vocabulary, world_size=1)
    assert run["4 positions"].peak_bytes[0]["total"] < 1.1 * (3 * matrix + logits)
