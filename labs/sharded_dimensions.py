# Built from chapters/ch09_three_dimensions/labs/sharded_dimensions.py by `make build`. Write your answers here.
"""Sharding as one axis among others: ZeRO with tensor parallelism, and inside replicas (HSDP).

torchrun --nproc-per-node 4 labs/sharded_dimensions.py
"""

import torch
import torch.distributed as dist
from language_model import draw_batch, mean_loss, standard_library
from meshes import Mesh, refuse_ignored
from simple_ddp import start_equal
from tensor_parallel import need_finite, parallelize, split_cross_entropy, whole
from three_dimensions import (
    LONGEST,
    SIZES,
    OneProcess,
    adam,
    share_of_copy,
    train,
    whole_model,
)
from zero import Zero1, Zero3, flatten_padded, reduce_gradients
from zero import whole as gathered

# ---- ZeRO × TP ------------------------------------------------------------------------------


class ZeroAndTensor:
    """ZeRO 3 along "dp" for a model whose matrices are cut along "tp"."""

    def __init__(self, model, mesh, make_optimizer, longest=None):
        self.model, self.mesh, self.longest = parallelize(model, mesh["tp"]), mesh, longest
        self.zero = Zero3(model, make_optimizer, list(model.blocks), mesh["dp"])
        self.weights = {unit: counts(unit, mesh) for unit in self.zero.units.values()}

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return the loss of this rank's copy."""
        refuse_ignored(targets, self.mesh.sizes["dp"])
        self.zero.zero_grad()  # which a step that raised has left behind
        inputs, targets = share_of_copy(inputs, self.mesh), share_of_copy(targets, self.mesh)
        loss = split_cross_entropy(self.model(inputs), targets, self.mesh["tp"])
        loss.backward()
        if self.longest is not None:
            self.clip()
        self.zero.step()
        return loss.item()

    @torch.no_grad()
    def clip(self):
        """Clip by the norm of the whole gradient, of which each rank has some numbers.

        Raises  RuntimeError on all ranks, before anything changes, if the norm is not finite
        """
        squares = sum((w * u.shard.grad.double() ** 2).sum() for u, w in self.weights.items())
        dist.all_reduce(squares, group=self.mesh["dp", "tp"])
        norm = need_finite(squares.sqrt())
        for unit in self.weights:
            unit.shard.grad *= (self.longest / (norm + 1e-6)).clamp(max=1)


def counts(unit, mesh):
    """Return 1 per number of a shard, or 1/tp if all ranks along "tp" have the same number."""
    parts = [
        torch.full((size,), 1.0 if hasattr(p, "cut_dim") else 1 / mesh.sizes["tp"])
        for p, size in zip(unit.parameters, unit.sizes)
    ]
    return flatten_padded(parts, unit.n).chunk(unit.n)[unit.rank]


# ---- Sharded inside, replicated across: HSDP ------------------------------------------------


def reduce_hybrid(unit, replicas) -> None:
    """Exercise 9.9. Give every rank its part of the gradient's mean over all ranks.

    A unit is sharded over its own group, `unit.group`. Other groups have the same unit, for other
    samples. `unit.shard.grad` becomes this rank's chunk of the mean over the ranks of all these
    groups. If there is a gradient already, they add up, as in reduce_gradients(unit) of labs/zero.
    Both sums may overflow in float16 where the mean would not.

    replicas  the group of the ranks that have the same chunk
    Cost      a reduce-scatter inside the group and an all-reduce of the shard across groups: each
              rank sends (n-1)/n of flat's bytes, and 2(m-1)/m of the shard's, for m replicas
    Source    Zhao et al. 2023, "PyTorch FSDP", section 3.2.2
    """
    ...  # your code here


class HybridZero1(Zero1):
    """ZeRO stage 1 inside a group; groups average their gradients, as in data parallelism.

    All ranks begin with the parameters of the first rank of their `group` and `replicas`.
    """

    def __init__(self, model, make_optimizer, modules, group, replicas):
        start_equal(model, replicas)
        super().__init__(model, make_optimizer, modules, group)
        self.replicas = replicas

    def step(self):
        for unit in self.units.values():
            reduce_hybrid(unit, self.replicas)
        self.update()


# ---- Comparison with one process ------------------------------------------------------------


def hybrid_step(model, mesh):
    """Make a function that takes a step with HybridZero1, along "replicate" and "shard"."""
    zero = HybridZero1(model, adam, list(model.blocks), mesh["shard"], mesh["replicate"])
    ranks = mesh.sizes["replicate"] * mesh.sizes["shard"]

    def step(inputs, targets):
        place = mesh.at["replicate"] * mesh.sizes["shard"] + mesh.at["shard"]
        mean_loss(model(inputs.chunk(ranks)[place]), targets.chunk(ranks)[place]).backward()
        zero.step()

    return step


def compare_with_one_process(sizes, text, steps=3, samples=8) -> float:
    """Train on a mesh and in this process alone, in float64, and compare the weights.

    sizes    of "dp" and "tp": ZeRO 3 × TP, clipped; or of "replicate" and "shard": HSDP
    Returns  the difference of this rank's weights from those of one process, as a share of the
             largest number
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    model, is_hybrid = whole_model(), "shard" in sizes
    alone = OneProcess(whole_model(), longest=None if is_hybrid else LONGEST)
    mesh = Mesh(sizes, joint=[tuple(sizes)])
    engine = ZeroAndTensor(model, mesh, adam, LONGEST) if not is_hybrid else None
    step = hybrid_step(model, mesh) if is_hybrid else engine.step
    for number in range(steps):
        batch = draw_batch(text, samples, number, SIZES["context"])
        step(*batch)
        alone.step(*batch)
    pairs = list(zip(model.parameters(), alone.model.parameters()))
    if is_hybrid:
        return max(relative_gap(p, q) for p, q in pairs)
    with gathered(engine.zero):
        return max(relative_gap(whole(p, mesh["tp"]), q) for p, q in pairs)


# ---- The program ----------------------------------------------------------------------------


def program(text, steps=20) -> tuple[float, float, float]:
    """Train a small transformer with ZeRO 3 × TP."""
    n = dist.get_world_size()
    tp = 2 if n % 2 == 0 else 1
    mesh = Mesh({"dp": n // tp, "tp": tp}, joint=[("dp", "tp")])
    return train(ZeroAndTensor(whole_model(), mesh, adam, 1.0), text, steps)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(), world_size=4)
    if run.rank == 0:
        first, last, seconds = run.values[0]
        print(f"ZeRO 3 × TP on {run.world_size} ranks: loss {first:.4f} to {last:.4f}, "
              f"{1e3 * seconds:.0f} ms a step")  # fmt: skip


if __name__ == "__main__":
    main()
