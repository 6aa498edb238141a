"""Folded meshes: attention and experts are laid out differently over the same ranks.

torchrun --nproc-per-node 8 labs/folded_experts.py
"""

import torch
import torch.distributed as dist
from expert_parallel import RemoteExperts, exchanged
from expert_training import SIZES, adam
from experts import Experts, expert_layers, make_expert_transformer
from language_model import draw_batch, mean_loss, standard_library
from meshes import Mesh, refuse_ignored
from tensor_parallel import parallelize_attention
from torch import Tensor, nn

# ---- Tokens that each rank along tp takes a part of -----------------------------------------


def gather_parts(x: Tensor, sizes, group) -> Tensor:
    """Return all ranks' rows in rank order; rank r has sizes[r] of them."""
    ranks = len(sizes)
    return exchanged(x.repeat(ranks, *[1] * (x.dim() - 1)), [len(x)] * ranks, sizes, group)


class TakePart(torch.autograd.Function):
    """This rank's part of rows that all ranks of the group have; backward gathers all parts."""

    @staticmethod
    def forward(ctx, x, sizes, group):
        ctx.sizes, ctx.group = sizes, group
        return x.split(sizes)[dist.get_rank(group)].clone()

    @staticmethod
    def backward(ctx, gradient):
        return gather_parts(gradient, ctx.sizes, ctx.group), None, None


class GatherParts(torch.autograd.Function):
    """All rows, from each rank's part of them; backward takes this rank's part.

    All ranks compute the same with the rows, so each one has their whole gradient.
    """

    @staticmethod
    def forward(ctx, x, sizes, group):
        ctx.sizes, ctx.group = sizes, group
        return gather_parts(x, sizes, group)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.split(ctx.sizes)[dist.get_rank(ctx.group)].contiguous(), None, None


class PartOfTokens(nn.Module):
    """An expert layer in which each rank of the group routes a part of the same tokens."""

    def __init__(self, layer, group):
        super().__init__()
        self.layer, self.group = layer, group

    def forward(self, x):
        tokens = x.flatten(0, -2)
        sizes = [len(part) for part in tokens.tensor_split(dist.get_world_size(self.group))]
        y = self.layer(TakePart.apply(tokens, sizes, self.group))
        return GatherParts.apply(y, sizes, self.group).view_as(x)


# ---- Experts cut along etp ------------------------------------------------------------------


def cut_experts(experts: Experts, ep, etp) -> Experts:
    """Cut each expert into etp narrower ones, whose outputs add up to the expert's.

    They are in the order of ranks: the first slices of the first n / ep experts, their second
    slices, and so on.

    Frozen matrices stay frozen.

    Raises  ValueError if etp does not divide the width inside an expert, or ep the experts
    """
    n, width, hidden = experts.up.shape
    if n % ep or hidden % etp:
        raise ValueError(f"{n} experts of {hidden} columns for ep {ep} × etp {etp}")
    slices = Experts(width, hidden // etp, n * etp)
    up = experts.up.detach().view(ep, n // ep, width, etp, -1).permute(0, 3, 1, 2, 4)
    down = experts.down.detach().view(ep, n // ep, etp, -1, width).transpose(1, 2)
    slices.up = nn.Parameter(up.flatten(0, 2).clone(), experts.up.requires_grad)
    slices.down = nn.Parameter(down.flatten(0, 2).clone(), experts.down.requires_grad)
    return slices


class CutExperts(nn.Module):
    """A replacement for Experts on ep × etp ranks: a row travels to all slices of its expert."""

    def __init__(self, experts, group, ep, etp):
        super().__init__()
        self.ep, self.etp = ep, etp
        self.remote = RemoteExperts(cut_experts(experts, ep, etp), group)

    def forward(self, rows, counts):
        counts = counts.view(self.ep, -1)
        parts = rows.split(counts.sum(1).tolist())
        copies = torch.cat([part for part in parts for _ in range(self.etp)])
        y = self.remote(copies, counts.repeat_interleave(self.etp, 0).flatten())
        y = y.split([len(part) for part in parts for _ in range(self.etp)])
        return torch.cat([sum(y[i : i + self.etp]) for i in range(0, len(y), self.etp)])


# ---- Two meshes over the same ranks ---------------------------------------------------------


class FoldedTraining:
    """Training with attention on a mesh of "dp" and "tp", and experts on "edp", "ep" and "etp".

    attention, experts  sizes of the two meshes; both have all ranks
    by_all_ranks        whether experts' gradients are divided by all ranks, which is a mistake
    """

    def __init__(self, model, attention, experts, make_optimizer, by_all_ranks=False):
        self.model, self.by_all_ranks = model, by_all_ranks
        self.attention = Mesh(attention, [("dp", "tp")])
        self.experts = Mesh(experts, [("ep", "etp")])
        for block in model.blocks:
            parallelize_attention(block.attention, self.attention["tp"])
            layer, group = block.mlp, self.experts["ep", "etp"]
            layer.mlps = CutExperts(layer.mlps, group, experts["ep"], experts["etp"])
            for p in layer.parameters():  # the router and a shared expert see this rank's part
                p.sees_part = not hasattr(p, "is_of_expert")
            block.mlp = PartOfTokens(layer, self.attention["tp"])
        self.parameters = list(model.parameters())
        self.optimizer = make_optimizer(self.parameters)

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return its loss, on every rank."""
        copies, copy = self.attention.sizes["dp"], self.attention.at["dp"]
        if len(inputs) % copies:
            raise ValueError(f"{len(inputs)} samples for {copies} copies of the model")
        refuse_ignored(targets, copies)
        mine = [x.chunk(copies)[copy] for x in (inputs, targets)]
        loss = mean_loss(self.model(mine[0]), mine[1])
        self.optimizer.zero_grad()
        loss.backward()
        self.average_gradients()
        self.optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total, group=self.attention["dp"])
        return total.item() / copies

    @torch.no_grad()
    def average_gradients(self):
        """Make each gradient that of the mean loss over the copies: there are "dp" losses."""
        losses = self.attention.sizes["dp"]
        for p in filter(lambda p: p.requires_grad, self.parameters):
            is_expert = hasattr(p, "is_of_expert")
            group = self.attention[("dp", "tp") if getattr(p, "sees_part", False) else "dp"]
            dist.all_reduce(p.grad, group=self.experts["edp"] if is_expert else group)
            wrong = is_expert and self.by_all_ranks
            p.grad /= dist.get_world_size() if wrong else losses


# ---- Comparison with one process, and measurement -------------------------------------------

FOLDS = {  # of 8 ranks with attention on dp 4 × tp 2
    "etp 2 × ep 2 × edp 2": {"edp": 2, "ep": 2, "etp": 2},
    "etp 1 × ep 4 × edp 2": {"edp": 2, "ep": 4, "etp": 1},
    "etp 1 × ep 8 × edp 1": {"edp": 1, "ep": 8, "etp": 1},
}


def whole_gradients(alone, training):
    """Yield (name, this rank's gradient, that of one process), and weights in the same way."""
    tp, ranks = training.attention, training.experts
    member = dist.get_rank(ranks["ep", "etp"])
    for one, here in zip(alone.blocks, training.model.blocks, strict=True):
        layer, whole = here.mlp.layer, one.mlp
        for of in ("weight", "gradient"):
            get = (lambda p: p.detach()) if of == "weight" else (lambda p: p.grad)
            yield f"router {of}", get(layer.router.weight), get(whole.router.weight)
            if whole.shared is not None:
                for p, q in zip(layer.shared.parameters(), whole.shared.parameters()):
                    yield f"shared expert {of}", get(p), get(q)
            yield f"norm {of}", get(here.norm_2.weight), get(one.norm_2.weight)
            rows = get(one.attention.query_key_value.weight)
            n = len(rows) // tp.sizes["tp"]
            part = rows[n * tp.at["tp"] : n * (tp.at["tp"] + 1)]
            yield f"attention {of}", get(here.attention.query_key_value.weight), part
            shadow = Experts(1, 1, 1)
            shadow.up, shadow.down = (nn.Parameter(get(p)) for p in whole.mlps.parameters())
            slices = cut_experts(shadow, ranks.sizes["ep"], ranks.sizes["etp"])
            mine = layer.mlps.remote.experts
            for name in ("up", "down"):
                parts = (
                    getattr(slices, name).detach().chunk(dist.get_world_size(ranks["ep", "etp"]))
                )
                yield f"experts {of}", get(getattr(mine, name)), parts[member]
    for name in ("letters", "output"):
        yield name, getattr(training.model, name).weight.grad, getattr(alone, name).weight.grad


def compare_with_one_process(
    attention, experts, text, steps=2, samples=8, context=31, by_all_ranks=False, **of_model
) -> dict[str, tuple[float, float]]:
    """Train on two meshes, and in this process alone, in float64; return how both differ.

    Returns  {name: (the largest difference as a share of the largest number, the ratio of norms)}
    """
    torch.set_default_dtype(torch.float64)
    of_model = SIZES | {"n": 8, "k": 2, "context": context, "hidden": 8} | of_model
    alone = make_expert_transformer(**of_model)
    optimizer = adam(list(alone.parameters()))
    whole = make_expert_transformer(**of_model)
    training = FoldedTraining(whole, attention, experts, adam, by_all_ranks)
    for number in range(steps):
        inputs, targets = draw_batch(text, samples, number, context)
        loss = training.step(inputs, targets)
        wanted = mean_loss(alone(inputs), targets)
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
    found = {"loss": (abs(loss / wanted.item() - 1), loss / wanted.item())}
    for name, got, right in whole_gradients(alone, training):
        gap = ((got - right).abs().max() / right.abs().max()).item()
        if gap >= found.get(name, (0,))[0]:
            found[name] = (gap, (got.norm() / right.norm()).item())
    return found


def measure_step(attention, experts, text, samples=16) -> tuple[int, int]:
    """Measure "step", the second one; return a rank's parameters, and the columns of an expert."""
    from pedagogy_lib import measure

    model = make_expert_transformer(8, k=2, **SIZES)
    training = FoldedTraining(model, attention, experts, adam)
    batch = draw_batch(text, samples, 0, SIZES["context"])
    training.step(*batch)
    with measure("step", memory=False):
        training.step(*batch)
    columns = expert_layers(model)[0].mlps.remote.experts.up.shape[-1]
    return sum(p.numel() for p in training.parameters), columns


# ---- The program ----------------------------------------------------------------------------


def program(text, etp) -> tuple[int, int, str]:
    """Measure a step with attention cut in two, if the number of ranks is even, and experts in etp.

    Returns  what measure_step returns, and the name of the experts' mesh
    """
    ranks = dist.get_world_size()
    tp = 2 if ranks % 2 == 0 else 1
    etp = min(etp, tp)
    experts = {"edp": 1, "ep": ranks // etp, "etp": etp}
    found = measure_step({"dp": ranks // tp, "tp": tp}, experts, text)
    return *found, " × ".join(f"{axis} {size}" for axis, size in experts.items())


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for etp in (2, 1):
        run = launch(program, standard_library(100_000), etp, world_size=8)
        if run.rank == 0:
            parameters, columns, name = run.values[0]
            print(f"{name}: {parameters:,} parameters on a rank, experts of {columns} columns, "
                  f"{run['step'].sent_bytes[0]:,} bytes sent by rank 0")  # fmt: skip


if __name__ == "__main__":
    main()
