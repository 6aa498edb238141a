# Built from chapters/ch10_choosing_a_strategy/labs/uneven_stages.py by `make build`.
"""Training of a chain of layers in stages of different length, number of ranks and shardings.

It runs the plans of labs/small_alpa.py.

torchrun --nproc-per-node 4 labs/uneven_stages.py
"""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import digits
from meshes import my_group, refuse_ignored
from operator_shardings import FEATURES, SAMPLES, SHARDINGS, WHOLE, Cluster, Job, Link, mlp
from pipeline_parallel import Pipeline, Stage, parameters_of, tag_of
from plan_space import pieces, places_of
from schedules import one_f_one_b
from small_alpa import search
from tensor_parallel import ColumnLinear, RowLinear
from torch import Tensor, nn

WIDTH, CLASSES = 64, 10  # pixels of a digit; the first ten numbers of the last layer are its scores

# ---- The whole model ------------------------------------------------------------------------


class Block(nn.Module):
    """Two products with a residual connection."""

    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)))


def whole_model(hiddens, width=WIDTH) -> nn.Sequential:
    """Make the same chain of blocks in every process."""
    torch.manual_seed(0)
    return nn.Sequential(*(Block(width, hidden) for hidden in hiddens))


def loss_of(outputs, targets) -> Tensor:
    return F.cross_entropy(outputs[:, :CLASSES], targets)


def draw_digits(samples) -> tuple[Tensor, Tensor]:
    """Return as many training images as asked for, starting again at the first one if necessary."""
    images, labels, *_ = digits()
    numbers = torch.arange(samples) % len(images)
    return images[numbers].to(torch.get_default_dtype()), labels[numbers]


# ---- Changing the layout --------------------------------------------------------------------


def reshard(x, before, after, group) -> Tensor:
    """Return this rank's part in another layout: exercise 10.15 counts the bytes."""
    if before == after or group is None:
        return x
    n, rank = dist.get_world_size(group), dist.get_rank(group)
    dims = {SAMPLES: 0, FEATURES: 1}
    if before == WHOLE:
        return x.chunk(n, dims[after])[rank].contiguous()
    if after == WHOLE:
        parts = [torch.empty_like(x) for _ in range(n)]
        dist.all_gather(parts, x.contiguous(), group)
        return torch.cat(parts, dims[before])
    outgoing = torch.stack(x.chunk(n, dims[after]))
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing, group=group)
    return torch.cat(list(incoming), dims[before])


class Reshard(torch.autograd.Function):
    """A change of an activation's layout, whose gradient changes the other way."""

    @staticmethod
    def forward(ctx, x, before, after, group):
        ctx.way = after, before, group
        return reshard(x, before, after, group)

    @staticmethod
    def backward(ctx, gradient):
        return reshard(gradient, *ctx.way), None, None, None


# ---- One stage ------------------------------------------------------------------------------


def cut_product(linear, sharding, group) -> nn.Module:
    """Return this rank's part of a product; for "rows", it includes the sum over all ranks."""
    if group is not None and sharding == "columns":
        return ColumnLinear(linear, group)
    if group is not None and sharding == "rows":
        return RowLinear(linear, group)
    return linear


class CutBlock(nn.Module):
    """A block whose products are cut according to a plan.

    shardings  of up, of down, and the layout after the block
    before     the layout before it
    """

    def __init__(self, block, shardings, before, group):
        super().__init__()
        up, down, self.after = shardings
        self.before, self.group, self.shardings = before, group, (up, down)
        self.up, self.down = cut_product(block.up, up, group), cut_product(block.down, down, group)

    def forward(self, x):
        y, layout = x, self.before
        for product, sharding in zip((self.up, self.down), self.shardings):
            before, after = SHARDINGS[sharding]
            y = product(Reshard.apply(y, layout, before, self.group))
            y, layout = (F.relu(y) if product is self.up else y), after
        y = Reshard.apply(y, layout, self.after, self.group)
        return Reshard.apply(x, self.before, self.after, self.group) + y


def cut_stage(blocks, shardings, group) -> nn.Sequential:
    """Cut some blocks into the layouts of a plan, which are by samples at both ends."""
    layouts = [SAMPLES, *(names[-1] for names in shardings)]
    return nn.Sequential(*(
        CutBlock(block, names, before, group)
        for block, names, before in zip(blocks, shardings, layouts)
    ))  # fmt: skip


# ---- All stages -----------------------------------------------------------------------------


class UnevenPipeline(Pipeline):
    """A pipeline whose stages have different numbers of ranks; each rank has its rows.

    places   the ranks of each stage
    rows     of a micro-batch
    options  see Pipeline; dtype among them
    """

    def __init__(self, stage, loss_of, width, places, rows, **options):
        super().__init__([stage], loss_of, width, **options)
        self.places, self.rows = places, rows
        (self.rank,) = (k for k, ranks in enumerate(places) if dist.get_rank() in ranks)
        self.ranks = len(places)  # the schedule counts a stage as one rank
        self.mine = places[self.rank].index(dist.get_rank())

    def own_rows(self) -> range:
        n = len(self.places[self.rank])
        return range(self.mine * self.rows // n, (self.mine + 1) * self.rows // n)

    def find_overlaps(self, other):
        """Yield which of this rank's rows the ranks of a stage have: (rank, first row, end)."""
        begin, n = self.own_rows().start, len(self.places[self.rank])
        for i, j, first, end in pieces(self.rows, n, len(self.places[other])):
            if i == self.mine:
                yield self.places[other][j], first - begin, end - begin

    def shape_of_message(self, microbatch) -> tuple:
        return len(self.own_rows()), self.width

    def receive(self, action) -> Tensor:
        x = torch.empty(self.shape_of_message(action.microbatch), dtype=self.dtype)
        for peer, first, end in self.find_overlaps(self.rank + (-1 if action.kind == "F" else 1)):
            dist.recv(x[first:end], peer, tag=tag_of(action))
        return x

    def send(self, x, action):
        self.refuse_other(x, action)
        for peer, first, end in self.find_overlaps(self.rank + (1 if action.kind == "F" else -1)):
            part = x[first:end].contiguous()
            self.under_way.append((dist.isend(part, peer, tag=tag_of(action)), part))


class UnevenStages:
    """Training of a chain of blocks under a plan.

    model           the whole model, the same on all ranks; this rank keeps its part of it
    plan            stages, as labs/small_alpa.py returns them
    make_optimizer  takes a list of parameters
    around          see Pipeline
    Raises          ValueError if the plan is for another number of ranks, or if a stage's devices
                    do not divide rows or widths
    """

    def __init__(self, model, plan, cluster, rows, microbatches, make_optimizer, around=None):
        need_whole_shares(model, plan, rows)
        self.rows, self.microbatches = rows, microbatches
        self.places = places_of([stage.devices for stage in plan], cluster)
        groups = [ranks for ranks in self.places if len(ranks) > 1]
        self.group = my_group(groups, "stage")
        (mine,) = (k for k, ranks in enumerate(self.places) if dist.get_rank() in ranks)
        stage, n = plan[mine], plan[mine].devices
        width = model[0].up.in_features
        piece = cut_stage(model[stage.first : stage.end], stage.shardings, self.group)
        self.pipeline = UnevenPipeline(Stage(piece), lambda y, t: loss_of(y, t) / n, width,
                                       self.places, rows)  # fmt: skip
        if around is not None:
            self.pipeline.around = around
        self.parameters = parameters_of(self.pipeline)
        self.by_samples = [
            p for block in piece
            for product, name in zip((block.up, block.down), block.shardings)
            if name == "samples" for p in product.parameters()
        ]  # fmt: skip
        self.optimizer = make_optimizer(self.parameters)
        self.actions = list(one_f_one_b(mine, len(plan), microbatches))

    def step(self, inputs, targets) -> float:
        """Take a step with a batch, the same on all ranks; return its loss on the last stage.

        Each rank of that stage returns its part of the loss, and all other ranks 0.

        Raises  ValueError if the batch has another number of samples, or if some targets are -100
        """
        if len(inputs) != self.rows * self.microbatches:
            raise ValueError(f"{len(inputs)} samples, not {self.rows} × {self.microbatches}")
        refuse_ignored(targets, dist.get_world_size() * self.microbatches)
        self.optimizer.zero_grad()
        loss = self.pipeline.step(self.actions, self.in_parts(inputs), self.in_parts(targets))
        self.sum_gradients()
        self.optimizer.step()
        return loss

    def in_parts(self, batch) -> list[Tensor]:
        """Return this rank's rows of each micro-batch."""
        own = self.pipeline.own_rows()
        return [part[own.start : own.stop] for part in batch.split(self.rows)]

    @torch.no_grad()
    def sum_gradients(self):
        """Sum the gradients of products split by samples, in one all-reduce of the stage."""
        if self.group is None or not self.by_samples:
            return
        flat = torch.cat([p.grad.flatten() for p in self.by_samples])
        dist.all_reduce(flat, group=self.group)
        for p, part in zip(self.by_samples, flat.split([p.numel() for p in self.by_samples])):
            p.grad.copy_(part.view_as(p))


def need_whole_shares(model, plan, rows):
    if sum(stage.devices for stage in plan) != dist.get_world_size():
        told = " + ".join(str(stage.devices) for stage in plan)
        raise ValueError(f"the plan is for {told} ranks, and there are {dist.get_world_size()}")
    for stage in plan:
        blocks = model[stage.first : stage.end]
        sizes = {rows, *(size for b in blocks for size in b.up.weight.shape)}
        for size in sorted(sizes):
            if size % stage.devices:
                raise ValueError(f"{size} rows or columns do not go up in {stage.devices} ranks")


# ---- The program ----------------------------------------------------------------------------


def program(steps=60) -> tuple[float, float]:
    """Train under the plan of the search; return the first and the last loss."""
    ranks = dist.get_world_size()
    cluster = Cluster(1, ranks, 1e9, Link(1e-4, 1e9), Link(1e-4, 1e9))
    hiddens, job = [64, 64, 128, 512], Job(cluster, 32, 4)
    plan = search([mlp(WIDTH, hidden) for hidden in hiddens], job)
    sgd = partial(torch.optim.SGD, lr=0.05)
    engine = UnevenStages(whole_model(hiddens), plan, cluster, job.rows, job.microbatches, sgd)
    batch = draw_digits(job.rows * job.microbatches)
    losses = []
    for _ in range(steps):
        loss = torch.tensor(engine.step(*batch))
        dist.all_reduce(loss)
        losses.append(loss.item())
    return losses[0], losses[-1]


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=4)
    if run.rank == 0:
        first, last = run.values[0]
        print(f"uneven stages on {run.world_size} ranks: loss {first:.3f} to {last:.3f}")


if __name__ == "__main__":
    main()
