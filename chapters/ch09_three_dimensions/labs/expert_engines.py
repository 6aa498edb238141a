"""The same layer of experts three times: by hand, from PyTorch's parts, and DeepSpeed's.

torchrun --nproc-per-node 2 labs/expert_engines.py
"""

import importlib.util
import os
import sys
import warnings

import torch
import torch.distributed as dist
import torch.nn.functional as F
from expert_parallel import RemoteExperts, by_expert
from experts import ExpertLayer, Experts
from torch import Tensor, nn
from torch.distributed._functional_collectives import all_to_all_single_autograd

WIDTH, EXPERTS = 32, 8
HAS_DEEPSPEED = importlib.util.find_spec("deepspeed") is not None
NO_DEEPSPEED = (
    "DeepSpeed is optional and not installed here;\n"
    "`python3 tools/setup.py deepspeed` in the course's folder installs it."
)


def whole_layer() -> ExpertLayer:
    """Make the same layer in every process; each token has one expert."""
    torch.manual_seed(0)
    return ExpertLayer(WIDTH, EXPERTS)


def make_our_layer() -> ExpertLayer:
    """Make the layer with RemoteExperts."""
    layer = whole_layer()
    layer.mlps = RemoteExperts(layer.mlps, dist.group.WORLD)
    return layer


# ---- From PyTorch's parts -------------------------------------------------------------------


class GroupedExperts(Experts):
    """All experts in two products: torch.nn.functional.grouped_mm, in float32 or bfloat16."""

    def forward(self, x, counts):
        ends = counts.cumsum(0).int()
        return F.grouped_mm(F.gelu(F.grouped_mm(x, self.up, offs=ends)), self.down, offs=ends)


class TorchRemoteExperts(nn.Module):
    """A replacement for Experts like RemoteExperts, with PyTorch's own exchange."""

    def __init__(self, experts, group):
        super().__init__()
        self.group, self.ranks = group, dist.get_world_size(group)
        mine = slice(dist.get_rank(group), None)
        up, down = (x.detach().chunk(self.ranks)[mine][0].clone() for x in experts.parameters())
        self.experts = GroupedExperts(*up.shape[1:], len(up))
        self.experts.up = nn.Parameter(up, requires_grad=experts.up.requires_grad)
        self.experts.down = nn.Parameter(down, requires_grad=experts.down.requires_grad)

    def forward(self, rows, counts):
        came = torch.empty_like(counts)
        dist.all_to_all_single(came, counts, group=self.group)
        counts, came = counts.view(self.ranks, -1), came.view(self.ranks, -1)
        send, receive = counts.sum(1).tolist(), came.sum(1).tolist()
        x = all_to_all_single_autograd(rows, receive, send, self.group)
        order = by_expert(came)
        y = torch.zeros_like(x).index_copy(0, order, self.experts(x[order], came.sum(0)))
        return all_to_all_single_autograd(y, send, receive, self.group)


def make_torch_layer() -> ExpertLayer:
    """Make the layer with TorchRemoteExperts."""
    layer = whole_layer()
    layer.mlps = TorchRemoteExperts(layer.mlps, dist.group.WORLD)
    return layer


# ---- DeepSpeed's, if it is installed --------------------------------------------------------


def make_deepspeed_layer() -> nn.Module:
    """Make a deepspeed.moe.layer.MoE with the same weights; it drops nothing."""
    begin_deepspeed(torch.get_default_device().type)
    from deepspeed.moe.layer import MoE

    ranks, whole = dist.get_world_size(), whole_layer()
    layer = MoE(WIDTH, OneExpert(whole), EXPERTS, ranks, 1, drop_tokens=False, min_capacity=0,
                use_rts=False, top2_2nd_expert_sampling=False)  # fmt: skip
    layer.set_deepspeed_parallelism()
    experts = layer.deepspeed_moe.experts.deepspeed_experts
    with torch.no_grad():
        layer.deepspeed_moe.gate.wg.weight.copy_(whole.router.weight)
        for number, expert in enumerate(experts, dist.get_rank() * len(experts)):
            expert.up.copy_(whole.mlps.up[number])
            expert.down.copy_(whole.mlps.down[number])
    return layer


def begin_deepspeed(device):
    """Initialise DeepSpeed: a function with both `torch` and `.ops` cannot travel to a rank."""
    os.environ.setdefault("DS_ACCELERATOR", device)
    os.environ["TORCHDYNAMO_DISABLE"] = "1"  # else it imports torch's compiler: seconds, unused
    warnings.filterwarnings("ignore", category=FutureWarning, module="torch.distributed")
    import deepspeed

    deepspeed.ops.__compatible_ops__ = {}  # else it compiles C++: a minute, unused
    if not deepspeed.comm.is_initialized():
        deepspeed.comm.init_distributed(dist_backend=dist.get_backend(), dist_init_required=False)


class OneExpert(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.up, self.down = (nn.Parameter(p[0].detach().clone()) for p in layer.mlps.parameters())

    def forward(self, x):
        return F.gelu(x @ self.up) @ self.down


def all_engines() -> dict:
    """Return {name: function that makes the layer} of all engines available here."""
    there = {"DeepSpeed's": make_deepspeed_layer} if HAS_DEEPSPEED else {}
    return {"by hand": make_our_layer, "of PyTorch's parts": make_torch_layer} | there


# ---- Comparison with one process ------------------------------------------------------------


def compare(name, tokens=64) -> tuple[float, float, float]:
    """Compare a layer with one process, forward and backward; it is measured as "layer".

    Returns  the differences of the outputs, the tokens' gradients, and the gradients of this rank's
             experts from those of one process, as shares of the largest number
    """
    from pedagogy_lib import measure, relative_gap

    engine, alone = all_engines()[name](), whole_layer()
    chance = torch.Generator().manual_seed(dist.get_rank())
    x, slope = (torch.randn(tokens, WIDTH, generator=chance) for _ in range(2))
    run_layer(engine, x, slope)  # opens connections
    dist.barrier()
    with measure("layer"):
        y, gradient = run_layer(engine, x, slope)
    wanted_y, wanted_gradient = run_layer(alone, x, slope)
    of_experts = alone.mlps.up.grad
    dist.all_reduce(of_experts)  # every rank has computed only its own tokens
    mine = of_experts.chunk(dist.get_world_size())[dist.get_rank()]
    return (
        relative_gap(y, wanted_y),
        relative_gap(gradient, wanted_gradient),
        relative_gap(gradient_of_experts(engine), mine),
    )


def run_layer(layer, x, slope) -> tuple[Tensor, Tensor]:
    """Run forward and backward from cleared gradients; return the output and the gradient of x."""
    layer.zero_grad()
    x = x.clone().requires_grad_()
    y = layer(x)
    y = y[0] if isinstance(y, tuple) else y  # DeepSpeed returns a loss and counts, too
    (y * slope).sum().backward()
    return y.detach(), x.grad


def gradient_of_experts(engine) -> Tensor:
    """Return the gradient of the first matrix of all of this rank's experts."""
    if isinstance(engine, ExpertLayer):
        return engine.mlps.experts.up.grad
    return torch.stack([one.up.grad for one in engine.deepspeed_moe.experts.deepspeed_experts])


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    if not HAS_DEEPSPEED:
        print(NO_DEEPSPEED, file=sys.stderr)
    for name in all_engines():
        run = launch(compare, name, world_size=2)
        if run.rank == 0:
            print(f"{name}: as one process to {max(run.values[0]):.0e}, "
                  f"{run['layer'].sent_bytes[0]:,} bytes sent")  # fmt: skip


if __name__ == "__main__":
    main()
