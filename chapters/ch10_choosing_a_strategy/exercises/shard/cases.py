"""The code that runs next to the answer, and its inputs."""

import torch
import torch.nn.functional as F
from torch import nn

from coursekit.kit.reference_training import flat

BLOCKS, WIDTH, STEPS = 3, 8, 4


class Small(nn.Module):
    """A model of a layer, blocks, and another layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, WIDTH)
        self.blocks = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(BLOCKS))
        self.last = nn.Linear(WIDTH, 2)
        source = torch.Generator().manual_seed(3)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.4, generator=source)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = torch.tanh(block(x)) + x
        return self.last(x)


def make_optimizer(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def batch_of(copy_number, step):
    source = torch.Generator().manual_seed(100 * copy_number + step)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(6, 4), draw(6, 2)


def try_shard(answer, group, case):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    (sizes,) = case.args
    mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))["dp"]
    model, losses = Small().double(), []
    optimizer = answer(model, make_optimizer, mesh)
    if not isinstance(optimizer, torch.optim.Optimizer):
        return {"optimizer": f"{optimizer!r:.60}"}
    for step in range(STEPS):
        x, y = batch_of(mesh.get_local_rank(), step)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return {
        "losses": losses,
        "weights": flat(whole),
        "units": [name or "the model" for name, module in model.named_modules()
                  if isinstance(module, FSDPModule)],
        "shared": all(isinstance(block, FSDPModule) for block in model.blocks)
        and len(set(map(fully_shard.state, model.blocks))) < BLOCKS,
        "kept": sum(p.to_local().numel() if hasattr(p, "to_local") else p.numel()
                    for p in model.parameters()),
    }  # fmt: skip


def alone(copies, place, trained=("first", "blocks", "last"), follows=None):
    """Train in one process; return the losses of one copy's batches, and the final weights.

    trained  names of the parts whose parameters are updated
    follows  copies whose losses count; by default, all of them
    """
    model, losses = Small().double(), []
    chosen = [p for name, p in model.named_parameters() if name.split(".")[0] in trained]
    optimizer = make_optimizer(chosen) if chosen else None
    for step in range(STEPS):
        model.zero_grad()
        each = {k: F.mse_loss(model(x), y)
                for k in range(copies) for x, y in [batch_of(k, step)]}  # fmt: skip
        losses.append(each[place].item())
        of = list(range(copies)) if follows is None else follows
        (sum(each[k] for k in of) / len(of)).backward()
        if optimizer:
            optimizer.step()
    return losses, flat(model.parameters())


def copies_of(trial):
    return trial.case.args[0]["dp"]


def copy_index(trial, place) -> int:
    """Return the index of the copy to which a rank belongs: dp is the first axis."""
    return place * copies_of(trial) // trial.n


def losses(trial, place):
    return alone(copies_of(trial), copy_index(trial, place))[0]
