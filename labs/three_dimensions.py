# Built from chapters/ch09_three_dimensions/labs/three_dimensions.py by `make build`. Write your answers here.
"""3D parallelism: one transformer in several copies, in stages, and with its matrices cut.

torchrun --nproc-per-node 8 labs/three_dimensions.py
"""

import contextlib
from functools import partial
from statistics import median

import numpy as np
import torch
import torch.distributed as dist
from language_model import Transformer, draw_batch, mean_loss, standard_library
from meshes import Mesh, groups_along, halves, my_group, refuse_ignored
from pipeline_parallel import Pipeline, my_stages, no_context, parameters_of, sum_tied
from schedules import one_f_one_b
from simple_ddp import now
from tensor_parallel import need_finite, parallelize, split_cross_entropy, whole
from torch import Tensor, nn

JOINT = (("pp", "tp"),)  # all ranks that share one copy of the model

# ---- The work of each axis ------------------------------------------------------------------


def share_of_copy(batch: Tensor, mesh) -> Tensor:
    """Return the samples of this rank's copy of the model: see exercise 9.4.

    Copy k gets the k-th of equal parts of the batch, in order.

    Shapes  (samples, …) -> (samples / dp, …)
    Raises  ValueError if dp does not divide the number of samples
    """
    if len(batch) % mesh.sizes["dp"]:
        raise ValueError(f"{len(batch)} samples for {mesh.sizes['dp']} copies of the model")
    return batch.chunk(mesh.sizes["dp"])[mesh.at["dp"]]


@torch.no_grad()
def average_over_copies(parameters, mesh) -> None:
    """Exercise 9.5. Make every `.grad` the mean over all copies of the model.

    It takes one all-reduce. A gradient that is None is None in all copies, and stays None. The sum
    has the gradients' dtype, and may overflow in float16 where the mean would not.

    Cost  each rank sends 2(dp-1)/dp of the bytes of its gradients
    """
    ...  # your code here


@torch.no_grad()
def global_norm(parameters, mesh, counted_elsewhere=()) -> Tensor:
    """Exercise 9.6. Return the norm of the whole model's gradient, on every rank.

    A parameter is cut along "tp" if it has `cut_dim`; all others are the same on all ranks of the
    "tp" group. Ranks along "pp" have different parameters, and along "dp" the same ones.

    counted_elsewhere  parameters that another stage has as well, and counts
    Equals  the norm of real gradients that clip_grad_norm_ finds in one process
    Cost    an all-reduce of one number over mesh["pp", "tp"]
    """
    ...  # your code here


# ---- Dropout that is the same on any mesh ---------------------------------------------------


def seed_of_mask(step, sample, module) -> int:
    """Return a seed per step, sample and module, equal on all ranks: exercise 9.8.

    It mixes the three numbers into 32 bits, because torch's generator on the CPU ignores the others
    """
    return int(np.random.SeedSequence((step, sample, module)).generate_state(1)[0])


class SampleDropout:
    """Dropout whose mask depends on the sample, not on the rank or on the samples next to it.

    It is a hook of modules whose output is (samples, context, width), and whole on every rank. Each
    module has its own number.

    share    of the numbers that become 0
    seed_of  returns the seed of a mask, from the step, the sample, and the number of the module
    step     of training: the caller counts it
    samples  the indices, in the whole batch, of the samples that are being computed now
    """

    def __init__(self, share, seed_of=seed_of_mask):
        self.share, self.seed_of, self.step, self.samples = share, seed_of, 0, range(0)

    def add_to(self, model):
        """Add dropout to the outputs of each block's attention and MLP."""
        for number, block in enumerate(model.blocks):
            block.attention.register_forward_hook(partial(self.drop, 2 * number))
            block.mlp.register_forward_hook(partial(self.drop, 2 * number + 1))

    def drop(self, number, module, inputs, output):
        if not module.training:
            return output
        masks = [self.mask(number, sample, x) for sample, x in zip(self.samples, output)]
        return output * torch.stack(masks) / (1 - self.share)

    def mask(self, number, sample, x) -> Tensor:
        chance = torch.Generator().manual_seed(self.seed_of(self.step, sample, number))
        return (torch.rand(x.shape, generator=chance, device="cpu") >= self.share).to(x)


# ---- Model states on a rank -----------------------------------------------------------------


def state_bytes(parameters, sizes, stage) -> float:
    """Return one rank's bytes of model states: Adam, 16-bit numbers, master weights in float32.

    sizes  of the axes dp, pp and tp;  stage  of ZeRO along dp; 0: nothing is sharded
    """
    part = parameters / (sizes["tp"] * sizes["pp"])
    sharded = (0, 12, 14, 16)[stage]
    return part * (16 - sharded + sharded / sizes["dp"])


# ---- The step -------------------------------------------------------------------------------


class ThreeDimensions:
    """Exercise 9.7. Training of a transformer on a mesh of "dp", "pp" and "tp".

    It has "dp" copies, "pp" stages, and "tp" parts of its matrices.

    model           the whole model, the same on all ranks; this rank keeps its part of it
    microbatches    number of parts into which a copy's share of the batch is divided
    make_optimizer  takes a list of parameters
    longest         norm to which a longer gradient is clipped: see clip_grad_norm_
    dropout         a SampleDropout, or None
    share_of_copy   takes a batch and the mesh; returns the samples of this rank's copy: with
                    dropout, samples that follow each other
    """

    def __init__(
        self, model, mesh, microbatches, make_optimizer, longest=None, dropout=None,
        share_of_copy=share_of_copy,
    ):  # fmt: skip
        self.mesh, self.microbatches, self.longest = mesh, microbatches, longest
        self.dropout, self.share_of_copy, self.watch = dropout, share_of_copy, no_context
        width = model.letters.weight.shape[1]
        is_tied = model.output.weight is model.letters.weight
        if dropout is not None:
            dropout.add_to(model)
        parallelize(model, mesh["tp"])
        self.pipeline = Pipeline(
            my_stages(model, group=mesh["pp"]),
            partial(split_cross_entropy, group=mesh["tp"]),
            width,
            mesh["pp"],
            around=self.enter_action,
        )
        self.parameters = parameters_of(self.pipeline)
        self.optimizer = make_optimizer(self.parameters)
        self.actions = list(one_f_one_b(self.pipeline.rank, self.pipeline.ranks, microbatches))
        self.tied, self.ends = [], None
        if is_tied and mesh.sizes["pp"] > 1:  # two stages have it: the group `ends`
            self.ends = ends_of(mesh)
            at_end = {0: model.letters.weight, mesh.sizes["pp"] - 1: model.output.weight}
            self.tied = [at_end[k] for k in at_end if k == mesh.at["pp"]]

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return its loss, on every rank."""
        ...  # your code here

    def sum_over_ends(self):
        """Complete the gradient of a weight that the first and the last stage both have."""
        for weight in self.tied:
            if weight.requires_grad:
                sum_tied(weight, self.ends)

    def average(self):
        average_over_copies(self.parameters, self.mesh)

    def in_parts(self, batch) -> list[Tensor]:
        """Return this rank's micro-batches, of inputs or targets.

        Raises  ValueError if some of them would be empty, or if targets of several copies are -100
        """
        refuse_ignored(batch, self.mesh.sizes["dp"])
        share = self.share_of_copy(batch, self.mesh)
        if len(share) < self.microbatches:
            raise ValueError(f"{len(share)} samples for {self.microbatches} micro-batches")
        return list(share.tensor_split(self.microbatches))

    def clip(self):
        """Clip the gradient, as clip_grad_norm_ does with error_if_nonfinite=True."""
        if self.longest is not None:
            is_last = self.mesh.at["pp"] == self.mesh.sizes["pp"] - 1
            norm = global_norm(self.parameters, self.mesh, self.tied if is_last else ())
            factor = (self.longest / (need_finite(norm) + 1e-6)).clamp(max=1)
            for p in self.parameters:
                if p.grad is not None:
                    p.grad *= factor

    def mean_of(self, loss) -> float:
        """Return the mean of the last stages' losses, on every rank; other stages pass 0."""
        total = torch.tensor(loss, dtype=torch.float64)
        dist.all_reduce(total)
        return total.item() / (self.mesh.sizes["dp"] * self.mesh.sizes["tp"])

    @contextlib.contextmanager
    def enter_action(self, action):
        """Give dropout the samples of an action while it computes, and watch the action."""
        if self.dropout is not None:
            parts = [len(x) for x in self.pipeline.inputs]
            first = sum(parts) * self.mesh.at["dp"] + sum(parts[: action.microbatch])
            self.dropout.samples = range(first, first + parts[action.microbatch])
        with self.watch("forward" if action.kind == "F" else "backward"):
            yield

    def set_watch(self, watch):
        """Run each part of a step inside watch(name of the part) from now on, and return self.

        watch  returns what is a context manager and a decorator, as `measure` does
        """
        self.watch = watch
        self.sum_over_ends = watch("tied weights")(self.sum_over_ends)
        self.average = watch("average over dp")(self.average)
        self.clip = watch("clip")(self.clip)
        return self


def ends_of(mesh):
    """Make the group of the first and the last stage; all ranks have to call this."""
    along = groups_along("pp", mesh.sizes)
    return my_group([[ranks[0], ranks[-1]] for ranks in along], "ends")


# ---- Comparison with one process ------------------------------------------------------------

SIZES = {"width": 32, "heads": 4, "layers": 4, "context": 32}
SHARE, LONGEST = 0.1, 0.5  # of dropout; norm to clip to: gradients here are longer
adam = partial(torch.optim.AdamW, lr=1e-2, eps=1e-3)  # eps: rounding noise makes no full steps


def whole_model(tied=True, **sizes) -> Transformer:
    """Make the same transformer in every process."""
    torch.manual_seed(0)
    return Transformer(tied=tied, **SIZES | sizes)


class OneProcess:
    """The same training in one process, without any axis, with the step() of ThreeDimensions."""

    def __init__(self, model, longest=None, dropout=None):
        self.model, self.longest, self.dropout = model, longest, dropout
        self.optimizer = adam(model.parameters())
        if dropout is not None:
            dropout.add_to(model)

    def step(self, inputs, targets) -> float:
        if self.dropout is not None:
            self.dropout.samples = range(len(inputs))
        self.optimizer.zero_grad()
        loss = mean_loss(self.model(inputs), targets)
        loss.backward()
        if self.longest is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.longest)
        self.optimizer.step()
        return loss.item()


def compare_with_one_process(
    sizes, text, steps=3, microbatches=2, samples=8
) -> tuple[list, list, float]:
    """Train on a mesh and in this process alone, in float64, and compare the results.

    Both have tied embeddings, clipping and dropout; the mesh accumulates over micro-batches.

    Returns  the losses of both, and the difference of this rank's weights and gradients from those
             of one process, as a share of the largest number
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    mesh, cut, whole_one = Mesh(sizes, JOINT), whole_model(), whole_model()
    drops = SampleDropout(SHARE), SampleDropout(SHARE)
    engine = ThreeDimensions(cut, mesh, microbatches, adam, LONGEST, drops[0])
    alone, losses = OneProcess(whole_one, LONGEST, drops[1]), ([], [])
    for number in range(steps):
        batch = draw_batch(text, samples, number, SIZES["context"])
        for one, dropout, told in zip((engine, alone), drops, losses):
            dropout.step = number
            told.append(one.step(*batch))
    mine, worst = {id(p) for p in engine.parameters}, 0.0
    for p, q in zip(cut.parameters(), whole_one.parameters()):
        if id(p) in mine:
            for part, all_of_it in ((p.detach(), q.detach()), (p.grad, q.grad)):
                worst = max(worst, relative_gap(whole(p, mesh["tp"], part), all_of_it))
    return *losses, worst


# ---- The program ----------------------------------------------------------------------------


def one_step(sizes, text, microbatches=4, samples=16, memory=True, **of_model):
    """Take a step on a mesh, after one that opens connections, and measure it as "step".

    memory   see measure(): with it, the calls are recorded as well
    Returns  the bytes of this rank's parameters
    """
    from pedagogy_lib import measure

    engine = ThreeDimensions(whole_model(**of_model), Mesh(sizes, JOINT), microbatches, adam, 1.0)
    batch = draw_batch(text, samples, 0, (SIZES | of_model)["context"])
    engine.step(*batch)
    engine.set_watch(partial(measure, memory=False))
    dist.barrier()
    with measure("step", memory=memory):
        engine.step(*batch)
    return sum(p.nbytes for p in engine.parameters)


def program(text, steps=20) -> tuple[float, float, float]:
    """Train a small transformer in as many dimensions as there are ranks for."""
    mesh = Mesh(halves(dist.get_world_size()), JOINT)
    return train(ThreeDimensions(whole_model(), mesh, 4, adam, 1.0), text, steps)


def train(engine, text, steps) -> tuple[float, float, float]:
    """Train; return the first and the last loss, and the median of a step's seconds."""
    losses, times = [], []
    for number in range(steps):
        batch = draw_batch(text, 8 * engine.mesh.sizes["dp"], number, SIZES["context"])
        began = now()
        losses.append(engine.step(*batch))
        times.append(now() - began)
    return losses[0], losses[-1], median(times)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, standard_library(), world_size=8)
    if run.rank == 0:
        first, last, seconds = run.values[0]
        sizes = " × ".join(f"{axis} {size}" for axis, size in halves(run.world_size).items())
        print(f"{sizes}: loss {first:.4f} to {last:.4f}, {1e3 * seconds:.0f} ms a step")


if __name__ == "__main__":
    main()
