"""The right results, and the results of known mistakes."""

from coursekit.kit import Wrong
from coursekit.kit.results import number_in
from coursekit.kit.tables import tabulate
from pedagogy_lib.basics.errors import HangError

from .cases import TASKS


@tabulate(lambda: TASKS)
def fewest(batch, limit, fixed, each) -> int | None:
    """Return the right number of micro-batches, or None if not even one sample fits.

    It tries micro-batches from the largest size downwards.
    """
    sizes = (size for size in range(batch, 0, -1) if batch % size == 0)
    return next((batch // size for size in sizes if fixed + size * each <= limit), None)


def refuses_what_does_not_fit(trial):
    """Raise `Wrong` unless only batches that cannot fit are refused and others get a number."""
    if trial.collect_values("count") and fewest(*trial.case.args):
        return
    batch, limit, fixed, each = task = trial.case.args
    outcome, right = trial[0].outcome, fewest(*task)
    if right is None and "ValueError" not in outcome.kinds:
        why = "Say so: raise ValueError(…), with a message that tells what a sample needs"
        if outcome.error == "ZeroDivisionError":
            why = f"`fixed` leaves nothing of `limit`: no sample fits beside it. {why}"
        what = f"{outcome}\nexpected a ValueError: one sample needs {fixed + each} bytes"
        raise Wrong(str(trial.case), what, why)
    if right is not None and not outcome.error:
        try:
            number_in(str(trial.case), outcome)
        except Wrong as wrong:
            why = wrong.why or "asked is one number: how many micro-batches"
            raise Wrong(wrong.case, wrong.what, why) from None
    if right is not None:
        why = "what takes exactly `limit` bytes fits" if right > 1 else "all at once fits"
        if right > 1 and fixed + each * (batch // right) < limit:
            why = (
                f"has {right} been tried? Every divisor of `batch` counts, and not powers of two "
                "alone"
            )
        if right == batch:
            why = (
                "one sample at a time fits: range(1, batch) ends before batch itself, or what fits "
                "exactly is refused"
            )
        what = f"{outcome}\n{right} micro-batches of {batch // right} fit"
        raise Wrong(str(trial.case), what, why if "ValueError" in outcome.kinds else "")


def mistakes(trial, place):
    right, got = fewest(*trial.case.args), float(trial[place].count)
    found = wrong_counts(*trial.case.args)
    passed = TASKS[: TASKS.index(trial.case.args)]
    for task in passed:  # the answer was right for them, unlike some mistakes
        others = wrong_counts(*task)
        found = {why: n for why, n in found.items() if others[why] == fewest(*task)}
    if got != right:
        found[why_other(got, right, *trial.case.args)] = got
    return {why: count for why, count in found.items() if count is not None}


@tabulate(lambda: TASKS)
def wrong_counts(batch, limit, fixed, each) -> dict:
    """Return {misconception: the number of micro-batches that it gives, or None}."""
    right = fewest(batch, limit, fixed, each) or batch

    def first(fits):
        """Return the first divisor of `batch` for which `fits(count, samples of each)`."""
        counts = (count for count in range(1, batch + 1) if batch % count == 0)
        return next((count for count in counts if fits(count, batch // count)), None)

    return {
        "this is how many samples a micro-batch has; asked is how many micro-batches":
            batch // right,
        "what takes exactly `limit` bytes fits: <=":
            first(lambda n, size: fixed + each * size < limit),
        "`fixed` is forgotten: it is in memory beside the samples":
            first(lambda n, size: each * size <= limit),
        "`fixed` is divided by the number of micro-batches, too: parameters and their like are "
        "there as a whole, whatever the size of a micro-batch":
            first(lambda n, size: (fixed + each * batch) / n <= limit),
        "`fixed` is counted for every sample; it is there once":
            first(lambda n, size: (fixed + each) * size <= limit),
        "one sample of a micro-batch is counted; all of its samples are in memory at once":
            first(lambda n, size: fixed + each <= limit),
        "the number is doubled until it fits; any divisor of `batch` will do":
            next((2**k for k in range(40) if fixed + each * batch / 2**k <= limit), None),
    }  # fmt: skip


def why_other(got, right, batch, limit, fixed, each) -> str:
    if not got.is_integer() or got < 1:
        return "a number of micro-batches is whole, and at least 1"
    if batch % got:
        return (
            f"{got:g} micro-batches of a batch of {batch} cannot be equally large: {got:g} does "
            "not divide it"
        )
    if got > right:
        if right == 1:
            return "it fits, and so does the whole batch at once"
        return f"it fits, and so do {right} micro-batches, which are fewer"
    size = batch / got
    return f"a micro-batch of {size:g} samples needs {fixed + each * size:,.0f} bytes: too many"


def why_endless(case, error) -> str:
    if isinstance(error, HangError) and fewest(*case.args) is None:
        return (
            "not even one sample fits, and the loop looks for more and more micro-batches. More "
            "than `batch` there cannot be: with that many, each has one sample"
        )
    return ""


def describe_result(trial) -> str:
    right = fewest(*trial.case.args)
    return f"{right} of {trial.case.args[0] // right}" if right else "refused"
