"""The right results, and the results of known mistakes."""

import torch

from coursekit.kit import Equals, Wrong
from coursekit.kit.diagnoses import kind_of, ratio
from coursekit.kit.reference_training import model_of, slopes
from pedagogy_lib.basics.closeness import close

from ..reduce_gradients.cases import part_of
from .cases import pieces_of


def table_of(trial):
    """Return the gradients of each rank's micro-batches, (ranks, micro-batches, elements)."""
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
    sums = table.mean(0) / number  # the contribution of each micro-batch
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
    """An `Equals` that also reports the factor by which all parts are too large."""

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
