"""The right results, and the results of known mistakes."""

from ..shared.accumulation import merge_pieces
from .cases import regression, walk


def right(trial, place):
    number, every = trial.case.args
    pieces = regression(number)
    return walk([merge_pieces(pieces[i : i + every])] for i in range(0, number, every))


def mistakes(trial, place):
    number, every = trial.case.args
    pieces, share = regression(number), 1 / every
    groups = [pieces[i : i + every] for i in range(0, number, every)]
    one_by_one = [[piece] for piece in pieces]
    last_ones = [[group[-1]] for group in groups]
    early = [pieces[:1], *(pieces[i - every + 1 : i + 1] for i in range(every, number, every))]
    always, within = lambda number: True, lambda number: number % every
    on = "you step after each micro-batch, and clear only after every `every`"
    return {
        "the gradients are summed, and the batch asks for their mean: this step is `every` times "
        "as long; divide each loss by `every`": walk(groups),
        "you step after each micro-batch: that is training with small batches": walk(one_by_one),
        "you step after each micro-batch, with a fraction of its gradient: from the second one "
        "on, gradients come from weights that have moved": walk(one_by_one, share),
        "only the last micro-batch of each batch counts: zero_grad() before each backward "
        "throws away what was to be accumulated": walk(last_ones),
        "only the last micro-batch of each batch counts, divided by `every`: zero_grad() in each "
        "round throws away what was to be accumulated": walk(last_ones, share),
        "the gradients are never cleared: each step goes along those of all batches "
        "before, too; zero_grad() belongs after step()": walk(groups, share, always),
        "the gradients are neither cleared after a step nor divided by `every`":
            walk(groups, 1.0, always),
        "the last micro-batches never come to a step: a batch is complete after its last "
        "micro-batch, not when the next one begins": walk(groups[:-1], share),
        "you step only once, at the end of all micro-batches": walk([pieces], share),
        "you step after the first micro-batch already: a count from 0 is divisible by `every` "
        "at once; count from 1": walk(early, share),
        "all is divided by the number of all micro-batches: divide by `every`, "
        "not by all": walk(groups, 1 / number),
        "all is divided by the number of samples in a micro-batch, which a mean loss has done: "
        "divide by `every`": walk(groups, 1 / len(pieces[0][0])),
        "earlier micro-batches count less than later ones: with each new one, what is in `.grad` "
        "already is divided again. Divide each loss, or `.grad` once, before the step":
            walk(groups, share=lambda place: share ** (every - place)),
        "nothing has moved: is there a backward(), and does optimizer.step() run?": walk([]),
        f"{on}: step() and zero_grad() belong together": walk(one_by_one, share, within),
        f"{on}; and nothing is divided by `every`": walk(one_by_one, 1.0, within),
    }  # fmt: skip
