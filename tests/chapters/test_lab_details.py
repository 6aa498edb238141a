"""Small promises of the labs: how often a GPU would be waited for, and what is refused in time."""

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from torch.utils._python_dispatch import TorchDispatchMode

from pedagogy_lib import LaunchError, RankError, launch

MEMORY, ACCUMULATION, COLLECTIVES = map(
    load_solved_lab, ("memory", "gradient_accumulation", "collectives")
)  # fmt: skip


# ---- A number that Python wants: a GPU has to finish for it -------------------------------------


class Numbers(TorchDispatchMode):
    """Counts how often a tensor is made a number of Python's, by .item(), bool() or float()."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket is torch.ops.aten._local_scalar_dense
        return func(*args, **(kwargs or {}))


def numbers_wanted(function, *args) -> int:
    with Numbers() as seen:
        function(*args)
    return seen.count


@pytest.mark.parametrize("number", [1.0, float("inf")])
def test_a_loss_scaler_waits_once_a_step(number):
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(5)]
    for p in parameters[1:]:
        p.grad = torch.full((2,), number)
    scaler = MEMORY.LossScaler(2.0)
    assert numbers_wanted(scaler.step, parameters, lambda: None) == 1
    assert scaler.scale == (2.0 if number == 1.0 else 1.0)


def test_a_loss_scaler_takes_a_step_without_gradients():
    assert MEMORY.LossScaler().step([torch.nn.Parameter(torch.ones(2))], lambda: None) is True


def test_accumulation_waits_once_a_step():
    layer, parts = torch.nn.Linear(2, 3), [(torch.ones(2, 2), torch.tensor([0, 1]))] * 4
    loss_fn = torch.nn.functional.cross_entropy
    assert numbers_wanted(ACCUMULATION.accumulate, layer, loss_fn, parts) == 1


def test_accumulation_of_tokens_waits_for_no_loss_of_a_micro_batch():
    words, sentence = torch.nn.Embedding(3, 3), torch.tensor([[1, 2]])
    parts = [(sentence, sentence)] * 4
    counts = len(parts)  # each micro-batch's targets are counted, before the first forward
    assert numbers_wanted(ACCUMULATION.accumulate_tokens, words, parts) == counts + 1


# ---- Tensors that do not lie in a row -----------------------------------------------------------

CALLS = {
    "broadcast_tree": lambda f, x: f(x),
    "reduce_tree": lambda f, x: f(x),
    "reduce_scatter_ring": lambda f, x: f([x] * dist.get_world_size()),
    "all_gather_ring": lambda f, x: f([x] * dist.get_world_size()),
    "all_reduce_ring": lambda f, x: f(x),
    "all_reduce_star": lambda f, x: f(x),
    "all_to_all": lambda f, x: f([x] * dist.get_world_size(), [x] * dist.get_world_size()),
    "all_reduce_buckets": lambda f, x: f([x, x], 100),
}


def give_a_transposed_tensor(name, lab):
    CALLS[name](getattr(lab, name), torch.ones(2, 3).T)


@pytest.mark.parametrize("name", CALLS)
def test_a_collective_refuses_on_all_ranks_alike(name):
    with pytest.raises(LaunchError) as caught:
        launch(give_a_transposed_tensor, name, COLLECTIVES, world_size=3, device="cpu", timeout=20)
    assert isinstance(caught.value, RankError)
    assert "all 3 ranks raised ValueError: this collective takes contiguous" in str(caught.value)
