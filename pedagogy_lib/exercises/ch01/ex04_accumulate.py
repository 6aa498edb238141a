"""The gradient of a batch whose micro-batches differ in size."""

from ..kit import RankExercise
from .rows import Case, facts, mean_loss, samples_of, told, trying


def misconceptions(rows):
    ones, last = rows.ones, rows.last
    return {
        "each micro-batch counts the same, instead of each sample: a mean of means. A sample of "
        "a small micro-batch then counts too much": ones / rows.pieces / rows.in_piece,
        "the means of the micro-batches are summed: that is larger than their mean, about as "
        "many times as there are micro-batches": ones / rows.in_piece,
        "this is the gradient of the sum over all samples; divide by how many they are": ones,
        "you divide by the number of micro-batches where the number of samples belongs":
            ones / rows.pieces,
        "only the last micro-batch has counted: the gradients are set back in each round":
            last / rows.in_piece,
        "only the last micro-batch has counted, with its right share: the gradients are set back "
        "in each round": last / len(ones),
        "you take all micro-batches to be as large as the first; count all samples":
            ones / rows.in_piece[0] / rows.pieces,
        "all is divided by the size of the last micro-batch": ones / rows.in_piece[-1],
        "all is divided by the size of the first micro-batch": ones / rows.in_piece[0],
    }  # fmt: skip


EXERCISE = RankExercise(
    "1.4",
    "accumulate",
    lab="gradient_accumulation",
    cases=[
        Case("micro-batches of 8 8 5 samples", samples_of([8, 8, 5])),
        Case("of 4 4 4 4", samples_of([4, 4, 4, 4])),
        Case("of 9 and a single one", samples_of([9, 1])),
        Case("a single micro-batch", samples_of([6])),
        Case("of 5 2", samples_of([5, 2]), is_stale=True),
        Case("memory, 8 micro-batches", samples_of([8] * 8), with_memory=True),
    ],
    work=trying(mean_loss),
    facts=facts(misconceptions),
    told=told,
    hints=(
        "Exercise 1.3 is inside: how much does each micro-batch's mean count?",
        "Count all samples first, before the loop. Inside it: forward, loss times its share, "
        "backward.",
        "Call backward() in each round, so that its graph can go; keep only loss.item(). And "
        "begin with model.zero_grad().",
    ),
)
