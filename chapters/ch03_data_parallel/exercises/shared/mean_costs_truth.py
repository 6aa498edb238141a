"""The right results for mean_costs.py, and the results of known mistakes."""

from functools import cache

from coursekit.kit import Wrong
from coursekit.kit.message_costs import TOLERANCE

from ..start_equal.truth import sizes_of
from .large_models import summarise_tensors
from .mean_costs import large_with_gradients, slopes_of

UNEVEN = 1.2  # times the bytes of another rank


@cache
def compute_known_large(place) -> dict:
    """Return a rank's initial gradients, and sizes; see `known` of RankExercise."""
    large = large_with_gradients(place)
    return {"sizes": sizes_of(large), "large_own": summarise_tensors(slopes_of(large))}


def bytes_of_all_reduce(trial, place):
    n, sizes = trial.n, trial.collect_values("sizes")
    return sizes and 2 * (n - 1) / n * sizes[place].gradients


def why_so_many_bytes(trial, times) -> str:
    names, sizes = {call.name for calls in trial.calls for call in calls}, trial[0].sizes
    if any("reduce_scatter" in name for name in names):
        return (
            "Gloo's reduce-scatter alone sends as much as an all-reduce; NCCL's does not. Asked is "
            "an all-reduce, which is cheap on both"
        )
    if any("all_gather" in name for name in names):
        return (
            "everybody's gradients travel to everybody: an all-gather sends n - 1 times the whole. "
            "An all-reduce sums up on the way"
        )
    by_hand, sent = names & {"send", "isend"}, trial.sent_bytes
    if names & {"reduce", "gather", "broadcast", "scatter"} or (
        by_hand and max(sent) > UNEVEN * min(sent)
    ):
        return (
            "they all go through one rank, and it has more to send than the others: an all-reduce "
            "shares out the load"
        )
    twice = (
        "everything travels twice, or in a dtype of twice the bytes: a gradient of float32 is sent "
        "as float32"
    )
    if len(trial.calls[0]) <= sizes.count and abs(times - 2) < 2 * TOLERANCE * times:
        return twice
    for why, more in {
        "a tied parameter is averaged twice, once under each of its names": sizes.tied,
        "the frozen parameters' gradients travel, too": sizes.frozen,
        twice: sizes.gradients,
    }.items():
        if abs(times - 1 - more / sizes.gradients) < 2 * TOLERANCE * times:
            return why
    return "more is sent than the gradients once"


def need_calls(why_other_count, trial) -> str:
    if trial.collect_values("sizes") is None:
        return ""
    names = [call.name for call in trial.calls[0]]
    by_hand = names.count("send") / (2 * (trial.n - 1))  # messages of a ring
    count = names.count("all_reduce") + by_hand
    told = f"{count:g} all-reduce" + ("" if count == 1 else "s")
    why = why_other_count(count, trial[0].sizes.count)
    if why:
        raise Wrong(f"cost, {trial.case}", f"the numbers are right, and it takes {told}", why)
    return f"cost, {trial.case}: {told}"
