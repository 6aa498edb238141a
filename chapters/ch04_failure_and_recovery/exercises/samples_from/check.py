"""The samples that a rank reads from any position of an endless stream of epochs."""

from dataclasses import replace

from coursekit.kit import Formula
from coursekit.kit.formula import is_raised, value_of
from coursekit.kit.results import outcome_of, plain
from coursekit.protocol import Wrong
from pedagogy_lib.basics.units import format_count

from .cases import MANY, count_many_steps, cut_off
from .truth import ALL_MISTAKES, truth

STREAMS = [  # (position, length, batch, n, seed)
    (0, 10, 4, 2, 0), (24, 10, 4, 2, 0), (6, 10, 4, 2, 0), (12, 10, 6, 3, 0), (12, 10, 6, 1, 0),
    (7, 11, 5, 3, 2), (3, 4, 10, 2, 1), (40, 8, 2, 2, 5),
]  # fmt: skip

CASES = {
    f"position {position} of epochs of {length}, {batch} in a step, {format_count(n, 'rank')}, "
    f"seed {seed}": [(position, length, batch, rank, n, *[seed] * (seed > 0)) for rank in range(n)]
    for position, length, batch, n, seed in STREAMS
}


NESTED = (
    "each step calls the function again, inside the call before it, and Python allows about a "
    "thousand nested calls: a stream that never ends needs a loop"
)
ODD_STEPS = {  # words about what an answer gives: what is asked instead
    "a pair for a step": "pairs come one by one here: a step is a list with all pairs of the rank",
    "for a step": "a step is a list, which can be read more than once",
    "a list with": "each list holds pairs: (epoch, sample)",
    "a pair of": "an epoch and a sample are ints, as order_of gives them: they are keys, and equal "
    "tensors are different keys",
}


class StreamFormula(Formula):
    def examine(self, answer):
        """Judge one case after another: what is wrong in one may run forever in the next."""
        steps, tried = cut_off(answer), {}
        for case, calls in self.cases.items():
            tried[case] = calls
            if not all(self.same(value_of(steps, call), plain(self.truth(*call)))
                       for call in calls):  # fmt: skip
                break
        yield from Formula.examine(replace(self, cases=tried), steps)
        outcome = outcome_of(count_many_steps, answer)
        if outcome.error:
            why = NESTED if outcome.error == "RecursionError" else ""
            raise Wrong(f"{MANY:,} steps", str(outcome), why)

    def why_not_a_value(self, got, found) -> str:
        told = "" if is_raised(got) else got
        odd = (why for words, why in ODD_STEPS.items() if words in str(told))
        return next(odd, "") or super().why_not_a_value(got, found)


def describe_difference(call, wanted, got) -> str:
    step = next((k for k, pair in enumerate(zip(wanted, got)) if pair[0] != pair[1]), len(got))
    if step == len(got):
        return f"rank {call[3]} has only {format_count(step, 'step')}: the stream never ends"
    told = f"got {format_pairs(got[step])}, expected {format_pairs(wanted[step])}"
    return f"rank {call[3]}, step {step + 1}: {told}"


def format_pairs(pairs) -> str:
    return "[" + ", ".join(f"({', '.join(map(str, pair))})" for pair in pairs) + "]"


EXERCISE = StreamFormula(
    "samples_from",
    lab="resumable_data",
    cases=CASES,
    truth=truth,
    mistakes=ALL_MISTAKES,
    right=lambda calls, values: f"{sum(map(len, values[0]))} samples in 4 steps of rank 0",
    differs=describe_difference,
    asked="lists of pairs",
    shape="a function with `yield` is asked: it gives one list of (epoch, sample) for each step, "
    "and never ends.",
    errors={
        "out of range": "a position may lie behind the first epoch, and a step may reach into the "
        "next one: divmod(place, length) gives the epoch of a place, and the place in it",
        "unhashable": "order_of is cached, so that its arguments are numbers: epoch, length, seed",
    },
    slow="it has to yield after each step, so that the caller takes as many steps as it needs",
    hints=(
        "Where in the stream does a step begin that comes after `position` samples? Which places "
        "of it are this rank's?",
        "range(position + rank, position + batch, n) are the rank's places in the stream. Then "
        "position grows by batch.",
        "epoch, k = divmod(place, length) gives the epoch of a place, and its place k in the order "
        "of that epoch; order_of(epoch, length, seed)[k] is the sample.",
    ),
)
