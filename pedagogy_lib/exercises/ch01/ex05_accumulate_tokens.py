"""The same for sentences, where each token counts the same, and padding nothing."""

from ..kit import RankExercise
from .rows import Case, facts, sentences_of, told, trying

UNFLATTENED = "flatten: logits (n, vocabulary), targets (n)"


def misconceptions(rows):
    ones, last, sentences = rows.ones, rows.last, len(rows.ones)
    return {
        "each micro-batch counts the same: a mean of means. A token among few then counts more "
        "than a token among many": ones / rows.pieces / rows.in_piece,
        "micro-batches count by their number of sentences, as in exercise 1.4; tokens are to "
        "count the same, so count tokens": rows.in_rows / sentences / rows.in_piece,
        "each sentence counts the same: tokens of a short one then count more":
            ones / sentences / rows.counted.clamp(min=1),
        "you divide by all positions, padding included; only targets that are not PADDING count":
            ones / rows.positions.sum(),
        "you count targets above 0; 0 is a token too, and only PADDING does not count":
            ones / rows.above_0,
        "you divide by the number of sentences; divide by the number of tokens that count":
            ones / sentences,
        "this is the gradient of the sum over all tokens; divide by how many count": ones,
        "the means of the micro-batches are summed": ones / rows.in_piece,
        "only the last micro-batch has counted: the gradients are set back in each round":
            last / rows.in_piece,
        "only the last micro-batch has counted, with its right share: the gradients are set back "
        "in each round": last / rows.counted.sum(),
    }  # fmt: skip


EXERCISE = RankExercise(
    "1.5",
    "accumulate_tokens",
    lab="gradient_accumulation",
    cases=[
        Case("sentences of 7 1 4, of 3, of 2 2 tokens", sentences_of([[7, 1, 4], [3], [2, 2]])),
        Case("no padding", sentences_of([[4, 4], [4, 4]])),
        Case("a single micro-batch, with padding", sentences_of([[6, 2, 3]])),
        Case("long sentences, then short ones", sentences_of([[9, 8], [2, 1]])),
        Case("a micro-batch of padding only", sentences_of([[5, 3], [0, 0]])),
        Case("two of them", sentences_of([[5, 1], [2]]), is_stale=True),
        Case("memory, 8 micro-batches", sentences_of([[9, 9]] * 8), with_memory=True),
    ],
    work=trying(),
    facts=facts(misconceptions),
    told=told,
    errors={
        "Expected target size": UNFLATTENED,
        "multi-target not supported": UNFLATTENED,
        "to match target batch_size": UNFLATTENED,
        "Expected floating point type for target with class prob": "cross_entropy takes the logits "
        "first, and then the targets",
    },
    hints=(
        "Which number does the mean divide by? Not sentences, not positions: targets that "
        "are not PADDING, in all micro-batches together.",
        'F.cross_entropy(…, reduction="sum") ignores targets of −100 and does not divide.',
        "It wants logits (n, vocabulary) and targets (n): flatten both, model(tokens)"
        ".flatten(0, 1) and targets.flatten().",
    ),
)
