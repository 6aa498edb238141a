"""Accumulation in parts: a program of stage 2 with a bug."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...course.checking import Wrong
from ..kit import At, Equals, RankExercise, World, never
from ..kit.differences import kind_of, ratio
from ..kit.one_process import batch_of, flat, model_of, slopes
from ..kit.outcomes import plain
from .ex03_reduce_gradients import part_of

FINDS_A_BUG = True


def pieces_of(rank, case):
    return [batch_of(rank, 0, piece) for piece in range(case.args[0])]


def try_part(answer, group, case):
    model = model_of()
    weights = flat(model.parameters())
    part = plain(answer(model, F.mse_loss, pieces_of(dist.get_rank(), case)))
    left = [p.grad.nbytes for p in model.parameters() if p.grad is not None]
    return {"part": part, "left": left, "changed": not close(flat(model.parameters()), weights)}


def table_of(trial):
    """The gradients of each rank's micro-batches: (ranks, micro-batches, elements)."""
    model = model_of()
    return torch.stack([
        torch.stack([slopes(model, piece) for piece in pieces_of(rank, trial.case)])
        for rank in trial.case.ranks
    ])  # fmt: skip


def mean_part(trial, place):
    return part_of(table_of(trial).mean((0, 1)), trial.n, place)


def mistakes(trial, place):
    n, (number,), table = trial.n, trial.case.args, table_of(trial)
    mean, part = table.mean((0, 1)), mean_part(trial, place)
    padded = torch.cat([part_of(mean, n, k) for k in range(n)])
    own, times = table[place], torch.arange(number, 0, -1.0).double()
    sums = table.mean(0) / number  # what each micro-batch brings
    of = lambda whole: part_of(whole, n, place)  # noqa: E731
    sizes = [p.numel() for p in model_of().parameters()]
    return {
        "what is summed over, and what is divided by? Follow one micro-batch's gradient through "
        "all lines": part / n,
        "nothing is divided by the number of ranks: what reduce_scatter gives is a sum": n * part,
        "the micro-batches are summed up: nothing is divided by how many there are": number * part,
        "this is the sum over all micro-batches of all ranks; asked is the mean": n * number * part,
        "it is divided by the number of ranks three times (ReduceOp.AVG divides, too)":
            part / n**2,
        "it is divided by the number of micro-batches twice": part / number,
        "it is divided by the number of ranks twice, and by that of micro-batches twice":
            part / (n * number),
        "it is divided by the number of ranks twice, and not by that of micro-batches":
            part * number / n,
        "only the last micro-batch counts: what the others gave has been overwritten":
            of(table[:, -1].mean(0) / number),
        "only the last micro-batch counts, as if it were all: what the others gave has been "
        "overwritten": of(table[:, -1].mean(0)),
        "the first micro-batch is lost, and the second counts twice: `total` is the very tensor "
        "that the next reduce_scatter writes into": of(sums[:2][-1] + sums[1:].sum(0)),
        "only the last micro-batch counts, and twice: what the others gave has been overwritten. "
        "Is `total` the very tensor that reduce_scatter writes into?":
            of(sums[-1] + sums[1:][-1:].sum(0)),
        "only the first micro-batch counts": of(table[:, 0].mean(0) / number),
        "only the first micro-batch counts, as if it were all": of(table[:, 0].mean(0)),
        "this is the gradient of the rank's own micro-batches: those of the others count, too":
            of(own.mean(0)),
        "this is the gradient of the rank's own micro-batches, divided by n: those of the others "
        "count, too": of(own.mean(0) / n),
        "an early micro-batch counts several times: what has added up is sent, and added, again":
            of((table.mean(0) * times[:, None]).mean(0)),
        "each gradient is padded, and cut into parts, by itself: a part of all together is "
        "ceil(numbers / n) long, and has its padding at the end of the last":
            torch.cat([of(gradient) for gradient in mean.split(sizes)]),
        "that is all of it, with padding: return this rank's part": padded,
        "that is all of it: return this rank's part": mean,
        "with padding all parts are equally long; leave it there":
            mean[place * len(part) : (place + 1) * len(part)],
        **{f"this is rank {k}'s part": part_of(mean, n, k) for k in range(n) if k != place},
    }  # fmt: skip


class Part(Equals):
    """It also tells how many times too large all parts are."""

    def __call__(self, trial):
        try:
            super().__call__(trial)
        except Wrong as wrong:
            pairs = [(of.part, mean_part(trial, place)) for place, of in enumerate(trial)]
            alike = all(kind_of(got) == kind_of(wanted) for got, wanted in pairs)
            times = [ratio(*pair) if alike else None for pair in pairs]
            if None in times or not close(times, times[:1] * trial.n):
                raise
            what = f"{wrong.what}: it is {times[0]:.4g} times what it should be, in every element"
            raise Wrong(wrong.case, what, wrong.why) from None


EXERCISE = RankExercise(
    "6.16",
    "accumulate_part",
    cases=[
        At(World(2), (3,), ", 3 micro-batches each"),
        At(World(3), (4,), ", 4 micro-batches each"),
        At(World(4), (1,), ", 1 micro-batch each"),
    ],
    work=try_part,
    facts=[
        never("changed", "the model's weights have changed"),
        Part("part", mean_part, mistakes, "the part"),
        never("left", lambda left: f"`.grad` of {len(left)} parameters has {sum(left)} bytes",
              "the part is right, but behind it the whole gradient stays, on every rank: that is "
              "not stage 2. torch.autograd.grad leaves nothing in `.grad`"),
    ],
    told=lambda trial: f"each has its part of the mean over all {trial.n * trial.case.args[0]}",
    errors={
        "sizes().vec()": "the chunks have to be as long as the tensor that receives: pad the flat "
        "gradient until n divides it",
        "'NoneType' object has no attribute": "torch.autograd.grad returns the gradients, and "
        "leaves nothing in `.grad`; backward() does the opposite",
    },
    lost="every rank has to make the same calls, for each of its micro-batches",
    hints=(
        "The result is a fixed number of times the right one. Which, with 2 ranks, with 3?",
        "Two sums need two divisions: over micro-batches, and over ranks. Count how often each "
        "gradient is divided by n.",
        "What reduce_scatter has summed up is divided by n at the end. The loss needs the "
        "number of micro-batches alone.",
    ),
)  # fmt: skip
