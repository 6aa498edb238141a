"""The right results, and the results of known mistakes."""

from functools import cache

from coursekit.kit import complains, first_true
from coursekit.kit.reference_training import state_of

from ..shared.branches import branches
from ..shared.branches_truth import local_gradients
from ..shared.mean_gradients import mean_of, mistakes_of_mean
from .cases import AFTER, ERRORS, UNDER

NOT_A_MANAGER = (
    "`with` needs a context manager: a function with `yield` becomes one by "
    "@contextlib.contextmanager"
)

SWITCH = {  # {when: (required value of `synchronizing`, diagnosis of another value)}
    "before `with` enters it": (True, "no_sync(ddp) may be made before it is entered: nothing is "
                                "switched until `with` enters it"),
    "under it": (False, "synchronizing decides whether a hook begins a bucket: under no_sync it "
                 "has to be False. To silence all_reduce is not enough: buckets count as begun"),
    "after it": (True, "after the `with`, synchronizing has to be what it was before: True"),
    "under a second one": (False, "synchronizing has to be False under each of them"),
    "after the inner one of two": (False, "the end of the inner no_sync switches on again, and the "
                                   "outer one is not over yet. Put back the value that was there "
                                   "before: it may have been False"),
    "after both": (True, "after the outer one, synchronizing has to be what it was before: True"),
    **{f"after {error.__name__}": (True, "an error under it leaves gradients switched off for "
                                   "good: what follows the `yield` is not run then. What is in "
                                   "finally is run, whatever error it is") for error in ERRORS},
    "after one that began with False": (False, "synchronizing was False before. Put back the value "
                                        "that was there before, whatever it was"),
}  # fmt: skip


@cache
def compute_known(case, place) -> dict:
    """Return a rank's initial state and its own gradients, of all backwards and of some."""
    (model,) = branches()
    orders = [*(of_places[place] for of_places in UNDER), AFTER]
    counted = {"local": orders, "at_last": orders[-1:], "at_first": orders[-2:]}
    found = {name: local_gradients(model, some, place) for name, some in counted.items()}
    return found | {"before": state_of(model)}


def why_called(trial, place) -> str:
    return first_true({
        "finish() sends, and averages what has added up so far: under no_sync nothing is to be "
        "sent. Whoever trains calls it, after the backward that is not under no_sync":
            "finish()" in trial[place].called,
        "start_over() forgets buckets that have begun: nobody would wait for them, and finish() "
        "would send them again. no_sync changes `synchronizing`, and nothing else": True,
    })  # fmt: skip


@complains
def check_synchronizing(trial):
    for place, of in enumerate(trial):
        for when, (wanted, why) in SWITCH.items():
            if of.seen[when] is not wanted:
                what = f"{when}, ddp.synchronizing is {of.seen[when]}, expected {wanted}"
                yield f"{trial.name_of_rank(place)}: {what}", why


@complains
def each_bucket_once(trial):
    for of, calls in zip(trial, trial.calls):
        if len(calls) != of.buckets:
            what = f"{len(calls)} calls in all, for {of.buckets} buckets"
            yield what, "all backwards together send each bucket once"


def mistakes(trial, place):
    lost = (
        "what has added up under no_sync is lost: gradients are set back in it, at its {}. They "
        "are to add up until the optimizer's step"
    )

    def mean_of_those(local):
        parts = {name: [x for of in local if (x := of[name]) is not None] for name in local[0]}
        return {name: x if x is None else sum(parts[name], 0 * x) / trial.n
                for name, x in mean_of(trial, place).items()}  # fmt: skip

    return {
        lost.format("end"): mean_of_those(trial.collect_values("at_last")),
        lost.format("beginning"): mean_of_those(trial.collect_values("at_first")),
    } | mistakes_of_mean(trial, place)
