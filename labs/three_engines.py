# Built from chapters/ch09_three_dimensions/labs/three_engines.py by `make build`.
"""PyTorch's engines composed: fully_shard × parallelize_module × PipelineStage on a DeviceMesh.

torchrun --nproc-per-node 8 labs/three_engines.py
"""

import contextlib
from statistics import median

import torch
import torch.distributed as dist
from language_model import draw_batch, mean_loss, standard_library
from meshes import Mesh, halves, refuse_ignored
from pipeline_parallel import even_sizes, layers_of, pieces_of
from simple_ddp import now
from tensor_engines import tensor_plan
from tensor_parallel import need_finite, whole
from three_dimensions import JOINT, SIZES, OneProcess, ThreeDimensions, adam, whole_model


class TorchThreeDimensions:
    """A counterpart of ThreeDimensions made of PyTorch's engines, on a mesh of "dp", "pp" and "tp".

    Along "dp" fully_shard works: ZeRO 3. The axes of the mesh have the order of `sizes`, in which
    "dp" has to come before "tp". All micro-batches have to be equally large.

    keep    whether a layer's parameters stay gathered from its first forward to its last backward
    Raises  ValueError if embedding and output are tied: two stages would each have their own
    """

    def __init__(self, model, sizes, microbatches, make_optimizer, longest=None, keep=False):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.tensor.parallel import parallelize_module

        if model.output.weight is model.letters.weight:
            raise ValueError(
                "this engine does not sum the gradient of a weight that two stages have"
            )
        device = torch.get_default_device()
        mesh = init_device_mesh(device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        self.mesh, self.longest, self.parts = mesh, longest, sizes["dp"] * microbatches
        parallelize_module(model, mesh["tp"], tensor_plan(model))
        layers, stage = layers_of(model), mesh.get_local_rank("pp")
        piece = pieces_of(layers, even_sizes(len(layers), sizes["pp"]))[stage]
        for layer in piece:
            fully_shard(layer, mesh=mesh["dp"], reshard_after_forward=not keep)
        fully_shard(piece, mesh=mesh["dp"])
        self.parameters = list(piece.parameters())
        self.optimizer = make_optimizer(self.parameters)
        self.schedule = make_schedule(piece, stage, mesh, microbatches)
        self.is_first, self.is_last = stage == 0, stage == sizes["pp"] - 1

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return its loss, on every rank.

        Raises  ValueError if micro-batches are not equally large, or if targets of several are -100
        """
        from torch.distributed.tensor.parallel import loss_parallel

        refuse_ignored(targets, self.parts)
        if len(inputs) % self.parts:
            raise ValueError(f"{len(inputs)} samples for {self.parts} equal micro-batches")
        self.optimizer.zero_grad()
        dp, losses = self.mesh["dp"], []
        inputs, targets = (x.chunk(dp.size())[dp.get_local_rank()] for x in (inputs, targets))
        of_last = {"target": targets, "losses": losses} if self.is_last else {}
        with loss_parallel():
            self.schedule.step(*([inputs] if self.is_first else []), **of_last)
        if self.longest is not None:
            self.clip()
        self.optimizer.step()
        total = torch.tensor(sum(loss.item() for loss in losses) / max(1, len(losses)))
        dist.all_reduce(total)
        return total.item() / (dp.size() * self.mesh["tp"].size())

    @torch.no_grad()
    def clip(self):
        trained = [p for p in self.parameters if p.grad is not None]
        with quiet():  # in float64, because in float16 the square of 300 is infinite
            squares = [p.grad.double().pow(2).sum().full_tensor() for p in trained]
        total = sum(squares, torch.zeros((), dtype=torch.float64))
        dist.all_reduce(total, group=self.mesh.get_group("pp"))
        factor = (self.longest / (need_finite(total.sqrt()) + 1e-6)).clamp(max=1)
        for p in trained:
            p.grad.mul_(factor)


def make_schedule(piece, stage, mesh, microbatches):
    """Make the 1F1B schedule of one stage."""
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    device, group = torch.get_default_device(), mesh.get_group("pp")
    made = PipelineStage(piece, stage, mesh["pp"].size(), device, group=group)
    return Schedule1F1B(made, n_microbatches=microbatches, loss_fn=mean_loss)


# ---- Both engines, compared with one process ------------------------------------------------


def ready(whose, model, sizes, microbatches, longest=None):
    """Make the engine named by whose: "by hand", "PyTorch's", or "PyTorch's, kept" (gathered)."""
    if whose == "by hand":
        return ThreeDimensions(model, Mesh(sizes, JOINT), microbatches, adam, longest)
    return TorchThreeDimensions(
        model, sizes, microbatches, adam, longest, keep=whose.endswith("kept")
    )


def whole_of(p, engine, of):
    """Put a parameter or its gradient together from the parts on all ranks."""
    with quiet():
        if hasattr(of, "full_tensor"):
            return of.full_tensor()
        return whole(p, engine.mesh["tp"], of)


@contextlib.contextmanager
def quiet():
    """Hide DTensor's advice to flatten a mesh: here one call or two makes no difference."""
    import logging

    log = logging.getLogger("torch.distributed.tensor")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def compare_with_one_process(whose, sizes, text, steps=3, microbatches=2, samples=8) -> tuple:
    """Train with one of the engines and in this process alone, in float64, and compare them.

    Gradients are clipped, and nothing is tied.

    Returns  the losses of both, and the difference of this rank's weights and gradients from those
             of one process, as a share of the largest number
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    cut, alone, losses = whole_model(tied=False), OneProcess(whole_model(tied=False), 0.5), ([], [])
    engine = ready(whose, cut, sizes, microbatches, 0.5)
    for number in range(steps):
        batch = draw_batch(text, samples, number, SIZES["context"])
        for one, told in zip((engine, alone), losses):
            told.append(one.step(*batch))
    mine, worst = {id(p) for p in engine.parameters}, 0.0
    for p, q in zip(cut.parameters(), alone.model.parameters()):
        if id(p) in mine:
            for part, all_of_it in ((p.detach(), q.detach()), (p.grad, q.grad)):
                worst = max(worst, relative_gap(whole_of(p, engine, part), all_of_it))
    return *losses, worst


# ---- The program ----------------------------------------------------------------------------


def program(whose, text, sizes=None, steps=4, microbatches=4, samples=16, **of_model):
    """Take some steps, and one more that is measured as "step".

    Returns  the last loss before it, and the median of a step's seconds, without the first step
    """
    from pedagogy_lib import measure

    sizes = sizes or halves(dist.get_world_size())
    engine = ready(whose, whole_model(tied=False, **of_model), sizes, microbatches)
    batch, times = draw_batch(text, samples, 0, (SIZES | of_model)["context"]), []
    for _ in range(steps):
        began = now()
        loss = engine.step(*batch)
        times.append(now() - began)
    dist.barrier()
    with measure("step", memory=False):
        engine.step(*batch)
    return loss, median(times[1:])


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    for whose in ("by hand", "PyTorch's"):
        run = launch(program, whose, text, world_size=8)
        if run.rank == 0:
            loss, seconds = run.values[0]
            print(f"{whose}: loss {loss:.4f}, {1e3 * seconds:.0f} ms a step")


if __name__ == "__main__":
    main()
