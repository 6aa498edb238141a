"""Backwards whose gradients are not sent."""

from functools import cache

import torch.distributed as dist

from ..kit import At, Equals, RankExercise, World, answering, complains, first_true, never
from ..kit.models import state_of
from ..kit.refused import Refused
from .branches import branches, bytes_of_branch, local_gradients, loss_along
from .gradients_on_ranks import gradients_of
from .left_alone import LeftAlone, leaves_alone
from .mean_gradients import mean_of, mistakes_of_mean

# The branches of some backwards at each place. Gradients of c and d come from those under it alone.
UNDER, AFTER = [("abc", "abcd"), ("cab",) * 2, ("cb",) * 2], "ba"
NOT_A_MANAGER = (
    "`with` needs a context manager: a function with `yield` becomes one by "
    "@contextlib.contextmanager"
)
ERRORS = (KeyError, RuntimeError, KeyboardInterrupt)  # the last one is no Exception
SWITCH = {  # when: what `synchronizing` has to be, and why it may not be
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


# ---- On a rank ---


def send_nothing(answer, group, case):
    """What becomes of `synchronizing`; then what is sent, and gradients, of backwards under it."""
    place, begun, (model,) = dist.get_rank(), [], branches()

    def all_reduce(x, group=None):
        begun.append(x.numel())
        return dist.all_reduce(x, group=group, async_op=True).wait

    ddp = answer.lab.DDP(model, bucket_bytes=bytes_of_branch(model), all_reduce=all_reduce)
    found = switched(answer, ddp) | {"buckets": len(ddp.buckets)}
    if found["seen"]["under it"] is not False:
        return found  # told by that; what its backwards would do is not
    with answering():
        for order in (of_places[place] for of_places in UNDER):
            with answer(ddp):
                loss_along(ddp, order, place).backward()
        found["under"] = len(begun)
        loss_along(ddp, AFTER, place).backward()
        ddp.finish()
    return found | {"grad": gradients_of(model)}


@cache
def known_of(case, place) -> dict:
    """What a rank begins with, and its own gradients: all of them, and some."""
    (model,) = branches()
    orders = [*(of_places[place] for of_places in UNDER), AFTER]
    counted = {"local": orders, "at_last": orders[-1:], "at_first": orders[-2:]}
    found = {name: local_gradients(model, some, place) for name, some in counted.items()}
    return found | {"before": state_of(model)}


def switched(answer, ddp):
    """{when: what synchronizing is}, and which methods no_sync has called."""
    seen, called = {}, []
    ddp.finish = lambda: called.append("finish()")
    ddp.start_over = lambda: called.append("start_over()")
    alone = LeftAlone(ddp, weights=True)
    see = lambda when: seen.setdefault(when, ddp.synchronizing)  # noqa: E731
    manager = answer(ddp)
    see("before `with` enters it")
    with manager:
        see("under it")
    see("after it")
    ddp.synchronizing = True
    with answer(ddp):
        with answer(ddp):
            see("under a second one")
        see("after the inner one of two")
    see("after both")
    ddp.synchronizing = True
    for error in ERRORS:
        raise_under(answer, ddp, error)
        see(f"after {error.__name__}")
        ddp.synchronizing = True
    ddp.synchronizing = False
    with answer(ddp):
        pass
    see("after one that began with False")
    ddp.synchronizing = True
    del ddp.finish, ddp.start_over
    return {"seen": seen, "called": called, "touched": alone.changed()}


def raise_under(answer, ddp, error):
    try:
        with answer(ddp):
            raise error("an error under no_sync")
    except error:
        return
    raise Refused(
        "an error was raised under it, and has not come out", "an error under it is lost: whoever "
        "wrote `with no_sync(ddp):` never hears of it. With try … finally it goes on after the "
        "cleaning up; with except, only if it is raised again",
    )  # fmt: skip


# ---- What is right, and what is not ---


def why_called(trial, place) -> str:
    return first_true({
        "finish() sends, and averages what has added up so far: under no_sync nothing is to be "
        "sent. Whoever trains calls it, after the backward that is not under no_sync":
            "finish()" in trial[place].called,
        "start_over() forgets buckets that have begun: nobody would wait for them, and finish() "
        "would send them again. no_sync changes `synchronizing`, and nothing else": True,
    })  # fmt: skip


@complains
def synchronizing_is_right(trial):
    for place, of in enumerate(trial):
        for when, (wanted, why) in SWITCH.items():
            if of.seen[when] is not wanted:
                what = f"{when}, ddp.synchronizing is {of.seen[when]}, expected {wanted}"
                yield f"{trial.who(place)}: {what}", why


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
        lost.format("end"): mean_of_those(trial.of("at_last")),
        lost.format("beginning"): mean_of_those(trial.of("at_first")),
    } | mistakes_of_mean(trial, place)


EXERCISE = RankExercise(
    "3.11",
    "no_sync",
    lab="data_parallel",
    needs=("3.9",),
    cases=[At(World(2))],
    work=send_nothing,
    known=known_of,
    facts=[
        never("called", lambda names: f"it calls ddp.{names[0]}", why_called),
        synchronizing_is_right,
        never("under", "{} all-reduces begin under it",
              'synchronizing is False then: check("3.9") comes first'),
        each_bucket_once,
        Equals("grad", mean_of, mistakes, "`.grad`"),
        leaves_alone,
    ],
    told=f"{len(UNDER)} backwards under it send nothing, the next one sends the sums",
    errors={
        "'NoneType' object is not an iterator": "what is to run under it runs at a `yield`, and "
        "there is none",
        "'no_sync'": "DistributedDataParallel has a method of this name. Ours has `synchronizing`, "
        "and this function is to make use of it",
        "context manager": NOT_A_MANAGER,
        "__enter__": NOT_A_MANAGER,
        "generator didn't stop": "there is a second `yield`: a context manager has exactly one",
        "generator didn't yield": "it ends without having come to its `yield`",
    },
    hints=(
        "DDP has a switch for it already: ddp.synchronizing. What runs under `with` runs at "
        "the `yield`.",
        "Keep the value that is there before, set False, yield, put the value back. And if "
        "what runs under it raises?",
        "try: yield, finally: put it back.",
    ),
)  # fmt: skip
