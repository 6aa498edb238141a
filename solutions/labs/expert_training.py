# Built from chapters/ch09_three_dimensions/labs/expert_training.py by `make build`.
"""Training with experts on ranks: several copies of each expert, spread over several ranks.

torchrun --nproc-per-node 4 labs/expert_training.py
"""

from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from expert_parallel import RemoteExperts, share_out
from experts import (
    ExpertLayer,
    balancing_loss,
    expert_layers,
    load_of,
    make_expert_transformer,
    moved_bias,
)
from language_model import draw_batch, mean_loss, standard_library
from meshes import Mesh, refuse_ignored
from simple_ddp import now
from torch import nn

JOINT = (("edp", "ep"),)  # all ranks: each has its own samples
SIZES = {"width": 32, "layers": 2, "context": 32}
adam = partial(torch.optim.AdamW, lr=1e-2, eps=1e-3)  # eps: rounding noise makes no full steps

# ---- Experts and data parallelism -----------------------------------------------------------


@torch.no_grad()
def average_gradients(parameters, mesh) -> None:
    """Average gradients over all ranks' samples: see exercise 9.23.

    An expert's gradient covers what its group's ranks sent to it; other groups have copies of it.
    In float16 a sum may overflow where the mean would not.
    """
    world_size = mesh.sizes["edp"] * mesh.sizes["ep"]
    for p in filter(lambda p: p.requires_grad, parameters):
        is_of_expert = getattr(p, "is_of_expert", False)
        dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
        p.grad /= world_size


class ExpertTraining:
    """Training of a model on a mesh: "edp" copies of each expert, spread over "ep" ranks.

    Each rank has its own samples. Everything but the experts is copied to every rank.

    model   the whole model, the same on all ranks; this rank keeps its share of the experts
    weight  of the balancing loss
    rate    of the router's bias
    average takes the parameters and the mesh, after the backward
    """

    def __init__(
        self, model, mesh, make_optimizer, weight=0.0, rate=0.0, average=average_gradients
    ):
        self.model, self.mesh, self.average = share_out(model, mesh["ep"]), mesh, average
        self.layers, self.weight, self.rate = expert_layers(model), weight, rate
        self.parameters = list(model.parameters())
        self.optimizer = make_optimizer(self.parameters)

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return its loss, on every rank.

        Raises  ValueError if the number of ranks does not divide the number of samples, or if
                targets of several ranks are -100
        """
        everybody = self.mesh["edp", "ep"]
        n, rank = dist.get_world_size(everybody), dist.get_rank(everybody)
        if len(inputs) % n:
            raise ValueError(f"{len(inputs)} samples for {n} ranks")
        refuse_ignored(targets, n)
        mine = [x.chunk(n)[rank] for x in (inputs, targets)]
        loss = mean_loss(self.model(mine[0]), mine[1])
        balance = sum(balancing_loss(of.scores, of.experts, everybody) for of in self.layers)
        self.optimizer.zero_grad()
        (loss + self.weight * balance).backward()
        self.average(self.parameters, self.mesh)
        self.optimizer.step()
        self.move_biases()
        total = loss.detach().clone()
        dist.all_reduce(total, group=everybody)
        return total.item() / n

    def move_biases(self):
        for layer in self.layers:
            loads = load_of(layer.experts, layer.n)
            dist.all_reduce(loads, group=self.mesh["edp", "ep"])
            layer.bias = moved_bias(layer.bias, loads, self.rate)


# ---- Comparison with one process ------------------------------------------------------------


def gradient_ratios(average, sizes, text) -> dict[str, float]:
    """Return gradient norms after one step, as multiples of those of one process, in float64."""
    torch.set_default_dtype(torch.float64)
    n, found = 2 * sizes["ep"], {}
    model, alone = make_expert_transformer(n, **SIZES), make_expert_transformer(n, **SIZES)
    training = ExpertTraining(model, Mesh(sizes, JOINT), adam, average=average)
    inputs, targets = draw_batch(text, 2 * dist.get_world_size(), 0, SIZES["context"])
    training.step(inputs, targets)
    mean_loss(alone(inputs), targets).backward()
    layer, whole, place = training.layers[0], expert_layers(alone)[0], training.mesh.at["ep"]
    pairs = {
        "attention": (model.blocks[0].attention.output, alone.blocks[0].attention.output),
        "router": (layer.router, whole.router),
    }
    for name, (mine, of_all) in pairs.items():
        found[name] = (mine.weight.grad.norm() / of_all.weight.grad.norm()).item()
    of_rank = whole.mlps.up.grad.chunk(sizes["ep"])[place]
    return found | {"experts": (layer.mlps.experts.up.grad.norm() / of_rank.norm()).item()}


def compare_with_one_process(sizes, of_model, text, steps=3, samples=8, weight=0.1, rate=0.01):
    """Train on a mesh and in this process alone, in float64, and compare the results.

    of_model  arguments of make_expert_transformer, as a dict
    Returns  the losses of both, and the difference of this rank's weights and gradients from those
             of one process, as a share of the largest number
    """
    torch.set_default_dtype(torch.float64)
    mesh = Mesh(sizes, JOINT)
    alone = make_expert_transformer(**SIZES | of_model | {"parts": dist.get_world_size()})
    training = ExpertTraining(make_expert_transformer(**SIZES | of_model), mesh, adam, weight, rate)
    layers, optimizer, losses = expert_layers(alone), adam(list(alone.parameters())), ([], [])
    for number in range(steps):
        inputs, targets = draw_batch(text, samples, number, SIZES["context"])
        losses[0].append(training.step(inputs, targets))
        loss = mean_loss(alone(inputs), targets)
        losses[1].append(loss.item())
        balance = sum(balancing_loss(layer.scores, layer.experts) for layer in layers)
        optimizer.zero_grad()
        (loss + weight * balance).backward()
        optimizer.step()
        for layer in layers:
            layer.bias = moved_bias(layer.bias, load_of(layer.experts, layer.n), rate)
    return *losses, worst_gap(training, alone)


def worst_gap(training, alone) -> float:
    worst, place, n = 0.0, training.mesh.at["ep"], training.mesh.sizes["ep"]
    for p, whole in zip(training.model.parameters(), alone.parameters(), strict=True):
        for mine, of_all in ((p.detach(), whole.detach()), (p.grad, whole.grad)):
            part = of_all.chunk(n)[place] if hasattr(p, "is_of_expert") else of_all
            worst = max(worst, (mine - part).abs().max().item() / of_all.abs().max().item())
    return worst


# ---- The cost of imbalance ------------------------------------------------------------------


class ConstantShareRouter(nn.Module):
    """A router's replacement: a share of the tokens choose expert 0, the others all the rest."""

    def __init__(self, n, share):
        super().__init__()
        self.n, self.share = n, share

    def forward(self, tokens):
        favoured = round(self.share * len(tokens))
        others = 1 + torch.arange(len(tokens) - favoured) % (self.n - 1)
        chosen = torch.cat([torch.zeros(favoured, dtype=torch.long), others])
        return 5.0 * nn.functional.one_hot(chosen, self.n).to(tokens)


def layer_with_favourite(through_my_experts, width=8) -> ExpertLayer:
    """Make a layer of two experts, one on each of two ranks; all tokens choose rank 0's."""
    layer = ExpertLayer(width, 2)
    layer.router = ConstantShareRouter(2, 1.0)
    layer.mlps = RemoteExperts(layer.mlps, dist.group.WORLD, compute=through_my_experts)
    return layer


def unequal_load(share, flops, tokens=480, width=64) -> int:
    """Send tokens through a layer with one expert per rank; one expert gets a share of all tokens.

    Measured: "layer", and in it "there", "experts" and "back", forward only.

    flops    the emulated speed of products; see SlowProducts
    Returns  how many tokens this rank's expert gets
    """
    from pedagogy_lib import SlowProducts, measure

    n = dist.get_world_size()
    layer = ExpertLayer(width, n)
    layer.router = ConstantShareRouter(n, share)
    layer.mlps = RemoteExperts(layer.mlps, dist.group.WORLD)
    x = torch.randn(tokens, width)
    with torch.no_grad():
        layer(x)  # opens connections
        layer.mlps.watch = partial(measure, memory=False)
        dist.barrier()
        with SlowProducts(flops), measure("layer"):
            layer(x)
    counts = load_of(layer.experts, n)
    dist.all_reduce(counts)
    return counts[dist.get_rank()].item()


# ---- The program ----------------------------------------------------------------------------


def program(text, steps=20) -> tuple[float, float, float]:
    """Train a transformer with two experts per rank, in two copies if the world size is even."""
    ranks = dist.get_world_size()
    copies = 2 if ranks % 2 == 0 else 1
    mesh = Mesh({"edp": copies, "ep": ranks // copies}, JOINT)
    model = make_expert_transformer(2 * mesh.sizes["ep"], **SIZES)
    training, losses, times = ExpertTraining(model, mesh, adam, weight=0.1), [], []
    for number in range(steps):
        batch = draw_batch(text, 4 * ranks, number, SIZES["context"])
        began = now()
        losses.append(training.step(*batch))
        times.append(now() - began)
    return losses[0], losses[-1], median(times)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(), world_size=4)
    if run.rank == 0:
        first, last, seconds = run.values[0]
        print(f"loss {first:.2f} to {last:.2f}, {1e3 * seconds:.0f} ms a step")


if __name__ == "__main__":
    main()
