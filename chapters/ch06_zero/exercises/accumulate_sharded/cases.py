"""The code that runs next to the answer."""

from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from coursekit.kit.reference_training import uneven_loss

from ..prepare.cases import Small, batch_of, whole


def pieces_of(rank, case):
    """Return a rank's micro-batches; sizes are equal, inputs differ."""
    return [batch_of(rank, 10 * number) for number in range(case.args[0])]


class CountReduced(TorchDispatchMode):
    """The count of reduce-scatters that are called under it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        self.count += "reduce_scatter" in str(operation)
        return operation(*args, **(kwargs or {}))


def count_reduced(work) -> int:
    with CountReduced() as counted:
        work()
    return counted.count


SETTINGS = ("set_is_last_backward", "set_reshard_after_forward", "set_reshard_after_backward")


@contextmanager
def last_settings(FSDPModule):
    """Yield {a method of SETTINGS: the value of its last call, on any unit}."""
    found = {}

    def noting(name, method):
        def call(self, value, *args, **kwargs):
            found[name] = value
            return method(self, value, *args, **kwargs)

        return call

    with ExitStack() as patches:
        for name in SETTINGS:
            method = noting(name, getattr(FSDPModule, name))
            patches.enter_context(patch.object(FSDPModule, name, method))
        yield found


@contextmanager
def graphs_kept():
    """Yield a list with one entry for each backward that keeps its graph."""
    found, usual = [], torch.autograd.backward

    def backward(tensors, slopes=None, retain_graph=None, create_graph=False, *args, **kwargs):
        if retain_graph or create_graph:
            found.append("retain_graph")
        return usual(tensors, slopes, retain_graph, create_graph, *args, **kwargs)

    with patch.object(torch.autograd, "backward", backward):
        yield found


@contextmanager
def passes_of(model):
    """Yield a list of the model's forwards and backwards, in order."""
    found = []

    def note(module, inputs, y):
        found.append("forward")
        if y.requires_grad:
            y.register_hook(lambda slope: found.append("backward"))

    handle = model.register_forward_hook(note)
    yield found
    handle.remove()


def try_accumulation(answer, group, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    model, mesh = Small(0), init_device_mesh("cpu", (dist.get_world_size(),))
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh)
    before, pieces = whole(model), pieces_of(dist.get_rank(), case)
    given, returned = list(pieces), []
    with last_settings(FSDPModule) as settings, passes_of(model) as passes, graphs_kept() as kept:
        work = lambda: returned.append(answer(model, uneven_loss, pieces))  # noqa: E731
        found = {"reduced": count_reduced(work)}
    in_turn = passes == ["forward", "backward"] * len(given)
    found |= {
        "passes": "" if in_turn else ", ".join(passes), "returned": returned != [None],
        "kept": len(kept),
        "left": [f"{name}({value})" for name, value in settings.items() if not value],
        "evaluates": not model.training, "taken": [*map(id, pieces)] != [*map(id, given)],
    }  # fmt: skip
    found["whole"] = sum(p.grad is None for p in model.parameters())
    if not found["whole"]:
        gradients = [p.grad.full_tensor() for p in model.parameters()]
        found["gradient"] = torch.cat([g.flatten() for g in gradients])
    found["changed"] = not torch.equal(whole(model), before)
    model.zero_grad()
    inputs, targets = given[0]
    found["later"] = count_reduced(lambda: uneven_loss(model(inputs), targets).backward())
    return found
