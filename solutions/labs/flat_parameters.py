# Built from chapters/ch06_zero/labs/flat_parameters.py by `make build`.
"""One flat parameter per unit, or a shard of each parameter: what each can do, on real ranks.

torchrun --nproc-per-node 2 labs/flat_parameters.py
"""

import warnings
from collections import Counter
from functools import partial

import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import share_of_rank
from torch import nn

# Engines are imported where they are used, as importing one takes seconds in each new process.

HOW = {  # {engine: use_orig_params of the first FSDP; None for FSDP2}
    "FSDP2": None,
    "FSDP 1": False,
    "FSDP 1, use_orig_params": True,
}


def shard(model, how):
    """Make units of each block and of all that is left; return what to call in the forward."""
    if how == "FSDP2":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block)
        return fully_shard(model)
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    warnings.simplefilter("ignore")  # it is deprecated
    return FullyShardedDataParallel(
        model, device_id=torch.get_default_device(), use_orig_params=HOW[how],
        auto_wrap_policy=ModuleWrapPolicy({type(model.blocks[0])}),
    )  # fmt: skip


# ---- Shapes on each rank --------------------------------------------------------------------


def a_few() -> nn.Module:
    """Return a unit of three parameters, of 3 × 2, 3, and 2 numbers."""
    unit = nn.Module()
    unit.weight, unit.bias = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(3))
    unit.scale = nn.Parameter(torch.zeros(2))
    return unit


def lies_where(how) -> dict[str, tuple]:
    """Return {name of a parameter: the shape of this rank's part of it}, for the unit `a_few`."""
    if how == "FSDP2":
        from torch.distributed.fsdp import fully_shard

        unit = fully_shard(a_few())
        return {name: tuple(p.to_local().shape) for name, p in unit.named_parameters()}
    from torch.distributed.fsdp import FullyShardedDataParallel

    warnings.simplefilter("ignore")
    unit = FullyShardedDataParallel(a_few(), device_id=torch.get_default_device(),
                                    use_orig_params=HOW[how])  # fmt: skip
    return {name.rpartition(".")[2]: tuple(p.shape) for name, p in unit.named_parameters()}


# ---- Frozen weights and adapters --------------------------------------------------------------


class LoRA(nn.Module):
    """A frozen linear layer and, added to it, a product of two thin matrices, which is trained."""

    def __init__(self, linear, rank=4):
        super().__init__()
        self.linear = linear
        self.down = nn.Linear(linear.in_features, rank, bias=False)
        self.up = nn.Linear(rank, linear.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.linear(x) + self.up(self.down(x))


def make_lora_transformer(width=64, layers=4) -> Transformer:
    """Return a transformer, frozen except for adapters in its MLPs, the same on all ranks."""
    torch.manual_seed(0)
    model = Transformer(width, layers).requires_grad_(False)
    for block in model.blocks:
        block.mlp[0], block.mlp[2] = LoRA(block.mlp[0]), LoRA(block.mlp[2])
        for adapter in (block.mlp[0], block.mlp[2]):
            adapter.linear.requires_grad_(False)
    return model


def train_adapters(how, text) -> dict[str, int]:
    """Run a backward of the adapters and their state dict, measured as "backward" and "state dict".

    Returns  {kind: bytes}: of all parameters, of those in blocks, and of those that are trained
    Raises   what the engine raises
    """
    from pedagogy_lib import measure

    model = make_lora_transformer()
    sizes = {
        "all": sum(p.nbytes for p in model.parameters()),
        "in blocks": sum(p.nbytes for p in model.blocks.parameters()),
        "trained": sum(p.nbytes for p in model.parameters() if p.requires_grad),
    }
    net = shard(model, how)
    inputs, targets = share_of_rank(draw_batch(text, 4 * dist.get_world_size(), 0))
    for label in ("first", "backward"):  # the first one makes buffers
        net.zero_grad()
        loss = mean_loss(net(inputs), targets)
        with measure(label):
            loss.backward()
    with measure("state dict", memory=False):
        net.state_dict()
    return sizes


def count_reduced_bytes(run) -> int:
    """Return the bytes that rank 0 has put into reduce-scatters of gradients."""
    calls = run["backward"].calls[0]
    return sum(call.sent_bytes for call in calls if "reduce_scatter" in call.name)


# ---- Weight decay, by group -------------------------------------------------------------------


def make_param_groups(net, decay=0.5) -> list[dict]:
    """Return groups in which matrices decay and vectors (biases, scales of norms) do not."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    matrices = [p for p in parameters if p.ndim >= 2]
    vectors = [p for p in parameters if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return [group for group in groups if group["params"]]


def numbers_that_decay(how) -> int:
    """Return how many numbers of this rank's parameters are in the group that decays."""
    torch.manual_seed(0)
    groups = make_param_groups(shard(Transformer(32, 2), how))
    return sum(
        p.to_local().numel() if hasattr(p, "to_local") else p.numel()
        for group in groups if group["weight_decay"] for p in group["params"]
    )  # fmt: skip


def compare_weight_decay(how, text, steps=5) -> float:
    """Train with these groups in float64; return how far the weights are from one process's.

    The result is a share of the largest weight. This is for FSDP2 alone: others do not give their
    weights so easily.
    """
    from pedagogy_lib import relative_gap

    torch.manual_seed(0)
    model, alone = Transformer(32, 2).double(), Transformer(32, 2).double()
    alone.load_state_dict(model.state_dict())
    net = shard(model, how)
    both = [(net, share_of_rank), (alone, lambda batch: batch)]
    adam = partial(torch.optim.AdamW, lr=0.01, eps=1e-4)  # eps: rounding noise makes no full steps
    optimizers = [adam(make_param_groups(m)) for m, _ in both]
    for step in range(steps):
        batch = draw_batch(text, 2 * dist.get_world_size(), step)
        for (m, share), optimizer in zip(both, optimizers):
            optimizer.zero_grad()
            inputs, targets = share(batch)
            mean_loss(m(inputs), targets).backward()
            optimizer.step()
    pairs = zip(net.parameters(), alone.parameters())
    return max(relative_gap(p.full_tensor().detach(), q.detach()) for p, q in pairs)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(20_000)
    for how in ("FSDP2", "FSDP 1, use_orig_params"):
        run = launch(train_adapters, how, text, world_size=2)
        if run.rank == 0:
            times = count_reduced_bytes(run) * 2 / run.values[0]["trained"]
            count = Counter(call.name for call in run["backward"].calls[0])["reduce_scatter"]
            print(f"{how}: {count} reduce-scatters of {times:.1f} times the adapters' bytes")


if __name__ == "__main__":
    main()
