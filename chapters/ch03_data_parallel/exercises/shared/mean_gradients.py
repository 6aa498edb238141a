"""Gradients that are averaged over all ranks, one at a time or in buckets.

The truth is one process that takes the samples of all ranks.
"""

from functools import partial

import torch

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, Sends, World, never
from coursekit.kit.diagnoses import ratio
from coursekit.kit.observed_calls import NOT_WAITED
from coursekit.kit.rank_exercise import TOO_LONG
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.basics.errors import HangError
from pedagogy_lib.basics.units import format_count

from .gradients_on_ranks import COST, EVERYWHERE, SOME_NONE, TRAINING, average_on_rank
from .gradients_on_ranks_truth import compute_known, list_found
from .large_models_truth import Travels, right_if_large
from .mean_costs_truth import bytes_of_all_reduce, need_calls, why_so_many_bytes
from .state_snapshot_truth import leaves_alone

TRIED = [
    (World(2), EVERYWHERE), (World(2), SOME_NONE), (World(3), SOME_NONE), (World(3), TRAINING),
    (World(1), SOME_NONE), (World(4), COST), (GROUP, SOME_NONE),
]  # fmt: skip


def make_averaging_exercise(name, given, why_other_count, hints, lab) -> RankExercise:
    """Return an exercise that asks for the mean of all ranks' gradients, of each parameter.

    given            takes a model and returns the argument of the answer
    why_other_count  takes the numbers of all-reduces and of gradients and returns what is wrong
                     with them, or ""
    """
    return RankExercise(
        name,
        lab=lab,
        cases=[RankCase(world, (tried,), f", {tried}") for world, tried in TRIED],
        work=partial(average_on_rank, given),
        known=compute_known,
        found=list_found,
        facts=[
            Equals(
                "after",
                lambda trial, place: trial[place].before,
                called="the weight",
                otherwise="the weights are averaged, or written over. They are equal on all "
                "ranks and stay so, if the gradients are: what differs, and is to be averaged, "
                "is `.grad`",
            ),
            never(
                "waiting",
                lambda names: (
                    f"nobody waits for the request of {format_count(len(names), names[0])}"
                ),
                NOT_WAITED,
            ),
            never(
                "nan",
                "nan in the `.grad` of {}",
                "the flat tensor is used while it is still under way. What is in it counts when "
                "the function that waits has returned: wait, then divide, then put it into "
                "`.grad`",
            ),
            Equals("grad", mean_of, mistakes_of_mean, "`.grad`", why_other_gradients),
            Equals(
                "trained",
                lambda trial, place: trial[place].alone,
                called="after training, the weight",
                otherwise="one step is right, several are not: does something of a "
                "step stay for the next one, or does something change besides the gradients?",
            ),
            leaves_alone,
            right_if_large(),
            Travels(bytes_of_all_reduce),
            partial(need_calls, why_other_count),
            Sends(bytes_of_all_reduce, "an all-reduce of all gradients sends", why_so_many_bytes),
        ],
        right=lambda trial: (
            "the weights of one process" if trial.collect_values("trained") else "the mean"
        ),
        errors={
            "non-empty list of Tensors": SKIPPED,
            "leaf Variable": "autograd watches over parameters; and it is their `.grad` that is "
            "averaged",
            "attempting to assign a gradient": "a part of a flat tensor has one dimension: give it "
            "the shape of its parameter, with view_as",
        },
        explain=why_lost,
        on_hang="every rank has to make the same calls, with tensors of the same size",
        hints=hints,
    )


# ---- What is right, and what is not ---

SKIPPED = (
    "a parameter with None is passed over on this rank, and not on the others. A collective is "
    "matched by its turn alone: from there on, gradients of different parameters are mixed up. "
    "Take zeros for it"
)


def totals_of(trial):
    """Return {name: the sum over the ranks that have a gradient}, without those that none has."""
    present = {name: [x for of in trial if (x := of.local[name]) is not None]
               for name in trial[0].local}  # fmt: skip
    return {name: sum(parts) for name, parts in present.items() if parts}


def mean_of(trial, place):
    """Return the means; where all ranks have None, None or, unless frozen, zeros are right."""
    found, totals = trial[place].grad, totals_of(trial)
    zeros = {name: None if x is None or "frozen" in name else torch.zeros_like(x)
             for name, x in found.items()}  # fmt: skip
    return zeros | {name: total / trial.n for name, total in totals.items()}


def mistakes_of_mean(trial, place):
    n, local, mean, totals = trial.n, trial[place].local, mean_of(trial, place), totals_of(trial)

    def each(gradient_of):
        """Replace in the means the gradients that some rank has."""
        return mean | {name: gradient_of(name) for name in totals}

    if trial.case.is_group:
        return {
            "the sum is divided by the size of the world, but it has only the ranks of the group "
            "in it: get_world_size(group)": each(lambda name: totals[name] / trial.case.world.size)
        }
    having = {name: sum(of.local[name] is not None for of in trial) for name in totals}
    frozen = {name: x for name, x in trial[place].before.items() if "frozen" in name}
    own_or_none = lambda x, name: None if local[name] is None else x  # noqa: E731
    return {
        "it is still this rank's own gradient. Was the mean put into a copy, and not into `.grad`? "
        "All have to be averaged, and each result has to be put into `.grad`": each(local.get),
        "every `.grad` is None now: the means are cleared again, or have gone into a copy":
            dict.fromkeys(local),
        "only rank 0 has the mean: this is a reduce. Everybody needs it, an all-reduce gives it "
        "to all": each(local.get) if place else mean,
        "this is the sum. The mean is the sum divided by the number of ranks (of the group), once "
        "the sum is there": each(totals.get),
        "it is divided by the number of ranks twice: before the sum and after it, or by a mean "
        "that is divided again": each(lambda name: mean[name] / n),
        "each rank's own gradient is divided, but nothing is summed up (or too late: what is begun "
        "with async_op=True has to be waited for)":
            each(lambda name: None if local[name] is None else local[name] / n),
        "this is rank 0's gradient, on all ranks: a broadcast. The other ranks' samples count "
        "as well": each(trial[0].local.get),
        "it is divided by how many ranks have a gradient. One that has None counts, too: as "
        "zeros": each(lambda name: totals[name] / having[name]),
        "a rank that had None has None still: it needs the mean as the others do, or its weights "
        "go apart from theirs": each(lambda name: own_or_none(mean[name], name)),
        **keep_distinct({SKIPPED: average_by_turn(trial)[place]}, mean),
        "a frozen parameter has no gradient, and needs none: weight decay would move it, if it had "
        "zeros. Pass over those whose requires_grad is False":
            mean | {name: torch.zeros_like(x) for name, x in frozen.items()},
    }  # fmt: skip


def keep_distinct(mistakes, mean):
    """Keep the mistakes, {sentence: gradients}, with a gradient other than the mean."""
    return {
        sentence: mean | found
        for sentence, found in mistakes.items()
        if any(x is not None and not close(x, mean[name]) for name, x in found.items())
    }


def average_by_turn(trial):
    """Return the result if each rank averages only its gradients, by turn, where shapes match."""
    names = [[name for name, x in of.local.items() if x is not None] for of in trial]
    mixed = [dict.fromkeys(of.local) for of in trial]
    for turn in zip(*names):
        parts = [of.local[name] for of, name in zip(trial, turn)]
        if len({part.shape for part in parts}) == 1:
            for of, name in zip(mixed, turn):
                of[name] = sum(parts) / len(parts)
    return mixed


def why_other_gradients(trial) -> str:
    if all(close(sort_numbers(of.grad), sort_numbers(mean_of(trial, 0))) for of in trial):
        return (
            "the means are right, but they come back to the wrong parameters, or in a wrong order: "
            "cut the flat tensor in the order in which it was put together"
        )
    if divisors := {divisor_in(trial, place) for place in range(trial.n)} - {None}:
        return (
            f"this is the sum divided by {min(divisors)}: what counts is how many ranks there are, "
            "in the world or the group"
        )
    if trial.worlds_passed:
        return (
            "with 2 ranks it was right. Does something of an earlier call stay for the next one? "
            "Or is the number of ranks a fixed one?"
        )
    return ""


def divisor_in(trial, place) -> int | None:
    """Return the whole number by which the sums are divided; None if there is none."""
    totals, found = totals_of(trial), trial[place].grad
    if any(found[name] is None for name in totals):
        return None
    factor = ratio(*(torch.cat([of[name].flatten() for name in totals]) for of in (totals, found)))
    return round(factor) if factor and close(factor, float(round(factor))) else None


def sort_numbers(gradients):
    return torch.cat([x.flatten() for x in gradients.values() if x is not None]).sort().values


def why_lost(case, error) -> str:
    (tried,) = case.args
    if "NoneType" in str(error):
        return (
            "the `.grad` of a frozen parameter is None, on all ranks and always: pass over those "
            "whose requires_grad is False"
            if tried == EVERYWHERE else
            "a parameter took no part in this rank's loss: its `.grad` is None. On another rank it "
            "may have a gradient, and that rank averages it with everybody: here it counts as zeros"
        )  # fmt: skip
    is_lost = isinstance(error, HangError) or "gloo" in str(error)
    known = {} if case.is_group else {SOME_NONE: SKIPPED, COST: TOO_LONG}
    return known.get(tried, "") if is_lost else ""
