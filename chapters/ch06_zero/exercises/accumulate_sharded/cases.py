"""The code that runs next to the answer."""

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


def try_accumulation(answer, group, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model, mesh = Small(0), init_device_mesh("cpu", (dist.get_world_size(),))
    for unit in (*model.blocks, model):
        fully_shard(unit, mesh=mesh)
    before, pieces = whole(model), pieces_of(dist.get_rank(), case)
    found = {"reduced": count_reduced(lambda: answer(model, uneven_loss, pieces))}
    found["whole"] = sum(p.grad is None for p in model.parameters())
    if not found["whole"]:
        gradients = [p.grad.full_tensor() for p in model.parameters()]
        found["gradient"] = torch.cat([g.flatten() for g in gradients])
    found["changed"] = not torch.equal(whole(model), before)
    model.zero_grad()
    inputs, targets = pieces[0]
    found["later"] = count_reduced(lambda: uneven_loss(model(inputs), targets).backward())
    return found
