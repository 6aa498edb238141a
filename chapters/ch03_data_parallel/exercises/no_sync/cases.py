"""The cases, and the code that runs next to the answer."""

import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer

from ..shared.branches import branches, bytes_of_branch, loss_along
from ..shared.gradients_on_ranks import gradients_of
from ..shared.state_snapshot import StateSnapshot

# The branches of some backwards at each place. Only those under no_sync give c and d gradients.
UNDER, AFTER = [("abc", "abcd"), ("cab",) * 2, ("cb",) * 2], "ba"

ERRORS = (KeyError, RuntimeError, KeyboardInterrupt)  # the last one is not an Exception


def send_nothing(answer, group, case):
    """Return the values of `synchronizing`, and the sends and gradients of backwards under it."""
    place, begun, (model,) = dist.get_rank(), [], branches()

    def all_reduce(x, group=None):
        begun.append(x.numel())
        return dist.all_reduce(x, group=group, async_op=True).wait

    ddp = answer.lab.DDP(model, bucket_bytes=bytes_of_branch(model), all_reduce=all_reduce)
    found = observe_switch(answer, ddp) | {"buckets": len(ddp.buckets)}
    if found["seen"]["under it"] is not False:
        return found  # reported by that; its backwards are not tried
    with measure_answer():
        for order in (of_places[place] for of_places in UNDER):
            with answer(ddp):
                loss_along(ddp, order, place).backward()
        found["under"] = len(begun)
        loss_along(ddp, AFTER, place).backward()
        ddp.finish()
    return found | {"grad": gradients_of(model)}


def observe_switch(answer, ddp):
    """Return {when: value of `synchronizing`}, and the methods that no_sync has called."""
    seen, called = {}, []
    ddp.finish = lambda: called.append("finish()")
    ddp.start_over = lambda: called.append("start_over()")
    alone = StateSnapshot(ddp, weights=True)
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
    return {"seen": seen, "called": called, "touched": alone.find_changes()}


def raise_under(answer, ddp, error):
    try:
        with answer(ddp):
            raise error("an error under no_sync")
    except error:
        return
    raise Rejection(
        "an error was raised under it, and has not come out", "an error under it is lost: whoever "
        "wrote `with no_sync(ddp):` never hears of it. With try … finally it goes on after the "
        "cleaning up; with except, only if it is raised again",
    )  # fmt: skip
