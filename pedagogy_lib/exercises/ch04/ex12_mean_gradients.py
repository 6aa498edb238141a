"""The gradients of the whole batch on every rank, however many ranks share it out."""

from collections import Counter

import torch

from ...basics.closeness import relative_gap
from ...basics.errors import HangError
from ..kit import (
    GROUP,
    At,
    Equals,
    RankExercise,
    Refused,
    Sends,
    World,
    answering,
    complains,
    first_true,
    never,
)
from ..kit.differences import kind_of
from ..kit.on_ranks import IN_A_GROUP
from ..kit.requests import AllRequests
from ..kit.trials import LARGE, numbers
from ..kit.values import NO_RETURN
from . import gradients_reasons as why

ALIKE = [((4, 3), torch.float64), ((5,), torch.float64), ((), torch.float64)]
MIXED = [((4, 3), torch.float32), ((5,), torch.float64), ((), torch.bfloat16)]
HUGE = [((LARGE,), torch.float64), ((7,), torch.float64)]
PARAMETER = 900  # a salt: no parameter looks like a gradient
ROUNDED = 0.02  # what bfloat16 may be off by, as a share

OF_NOTHING = (  # words of errors of those who add up no gradients
    "division by zero", "index out of range", "NoneType", "UnboundLocalError", "non-empty",
    "'int' object", "got <class 'int'>",
)  # fmt: skip


def gradients(k, kinds) -> list[torch.Tensor]:
    """Whole numbers, so that sums are exact; in float64 with a digit that float32 does not have."""
    found = [numbers(k, shape, dtype, salt=i) for i, (shape, dtype) in enumerate(kinds)]
    return [x * (1 + 2.0**-25) if x.dtype == torch.float64 else x for x in found]


def add_up(answer, group, case):
    m, kinds = case.args
    asked = []

    def gradients_of(k):
        if not isinstance(k, int) or not 0 <= k < m:
            raise Refused(f"gradients_of({k!r:.20}) was called", f"there are 0 to {m - 1}")
        asked.append(k)
        return gradients(k, kinds)

    parameters = gradients(PARAMETER, kinds)
    given = list(parameters)
    with answering(), AllRequests() as requests:
        value = answer(gradients_of, given, m, group)
    found = noted(value, kinds)
    requests.need_waited()
    return {
        "gradients": found,
        "asked": asked,
        "changed": changed_in(given, parameters, gradients(PARAMETER, kinds)),
        "shared": len({x.data_ptr() for x in value}) < len(kinds),
    }


def noted(value, kinds) -> list[torch.Tensor]:
    """Copies of what was returned, as it is now: a request may still bring other numbers."""
    if value is None:
        raise Refused("it returned None", NO_RETURN)
    if not isinstance(value, list | tuple):
        raise Refused(f"it returned {kind_of(value)}", why.LIST)
    if len(value) != len(kinds) or not all(isinstance(x, torch.Tensor) for x in value):
        none = any(x is None or hasattr(x, "is_completed") for x in value)
        told = ", ".join(map(kind_of, value))
        raise Refused(f"it returned [{told}]", why.IN_PLACE if none else why.LIST)
    return [x.detach().clone() for x in value]


def changed_in(given, parameters, before) -> str:
    """What is not as it was in the parameters: their list, or one of them."""
    if len(given) != len(parameters) or any(a is not b for a, b in zip(given, parameters)):
        return "the list `parameters` has other tensors now"
    for k, (x, was) in enumerate(zip(parameters, before)):
        if x.dtype != was.dtype or not torch.equal(x, was):
            return f"parameters[{k}] has other numbers now"
        if x.requires_grad or x.grad is not None:
            name = "requires_grad" if x.requires_grad else "grad"
            return f"parameters[{k}].{name} is set now"
    return ""


def sums(numbers_of, kinds) -> list[torch.Tensor]:
    found = [torch.zeros(shape, dtype=dtype) for shape, dtype in kinds]
    for k in numbers_of:
        found = [total + gradient for total, gradient in zip(found, gradients(k, kinds))]
    return found


def over(tensors, number) -> list[torch.Tensor]:
    return [tensor / number for tensor in tensors]


def truth(trial, place):
    m, kinds = trial.case.args
    return over(sums(range(m), kinds), m)


def mistakes(trial, place):
    (m, kinds), n = trial.case.args, trial.n
    shares, total = trial.of("asked"), sums(range(m), kinds)
    mine = len(shares[place]) or 1
    own, each = sums(shares[place], kinds), [over(sums(k, kinds), len(k) or 1) for k in shares]
    return {
        why.SUM: total,
        why.BY_RANKS: over(total, n),
        why.OF_AVERAGES: over([sum(of_ranks) for of_ranks in zip(*each)], n),
        why.OWN_COUNT: over(total, n * mine),
        why.TWICE_DIVIDED: over(total, m * n),
        why.ALONE: over(own, m),
        why.OWN_MEAN: over(own, mine),
    }


def otherwise(trial) -> str:
    """Why numbers are wrong that no mistake gives."""
    found = [(x, y) for k in range(trial.n) for x, y in zip(trial[k].gradients, truth(trial, k))]
    if any(got.shape != wanted.shape for got, wanted in found):
        return why.SHAPED
    if any(trial.of("shared")):
        return why.SHARED
    if trial.case.args[1] == MIXED and all(relative_gap(*pair) < ROUNDED for pair in found):
        return why.ONE_BUFFER
    return why.SUMMED_AGAIN if max(map(reduced_bytes, trial.calls)) > 1.5 * whole(trial) else ""


def reduced_bytes(calls) -> int:
    return sum(call.tensor_bytes for call in calls if call.name == "all_reduce")


def whole(trial) -> int:
    """Bytes of all gradients."""
    return sum(x.nbytes for x in gradients(0, trial.case.args[1]))


def computed_once(trial):
    (m, _), shares = trial.case.args, trial.of("asked")
    times = Counter(k for mine in shares for k in mine)
    in_a_group = trial.worlds_passed and trial.case.is_group
    told = "the ranks have computed " + ", ".join(map(str, shares))
    twice = next((k for k in times if times[k] > 1), None)
    if twice is not None:
        is_anew = any(mine.count(twice) > 1 for mine in shares)
        reason = first_true({
            IN_A_GROUP: in_a_group,
            why.ANEW: is_anew,
            why.ZEROS: m < trial.n and times.total() <= trial.n,
        })  # fmt: skip
        yield f"{told}: micro-batch {twice} twice", reason or why.TWICE
    missing = next((k for k in range(m) if k not in times), None)
    if missing is not None:
        reason = IN_A_GROUP if in_a_group else why.MISSING
        yield f"{told}: nobody has computed micro-batch {missing}", reason


def why_much(trial, times) -> str:
    if any("gather" in call.name for call in trial.calls[0]):
        return why.GATHERED
    return why.TOO_OFTEN if reduced_bytes(trial.calls[0]) > 1.5 * whole(trial) else why.BY_ONE


def explain(case, error) -> str:
    m, n, text = case.args[0], len(case.ranks), str(error)
    hangs = isinstance(error, HangError)
    return first_true({
        why.NONE_LEFT: hangs and m < n,
        why.IN_LOOP: hangs and m % n > 0 and "all_reduce" in text,
        why.ZEROS: m < n and any(words in text for words in OF_NOTHING),
    })  # fmt: skip


def of_bytes(trial, place):
    return 2 * (1 - 1 / trial.n) * whole(trial) if trial.case.args[1] == HUGE else None


def at(world, m, kinds=ALIKE, what="") -> At:
    return At(world, (m, kinds), f", {m} micro-batches{what}")


EXERCISE = RankExercise(
    "4.12",
    "mean_gradients",
    lab="restart",
    cases=[
        at(World(2), 4),
        at(World(3), 4),
        at(World(4), 7),
        at(World(1), 3),
        at(World(3), 2),
        at(World(3), 5, MIXED, ", parameters of several dtypes"),
        at(GROUP, 4),
        at(World(3), 4, HUGE, ", 2 MB of gradients"),
    ],
    work=add_up,
    facts=[
        complains(computed_once),
        Equals("gradients", truth, mistakes, "the gradients", otherwise),
        never("changed", "{}", why.CHANGED),
        Sends(of_bytes, "an all-reduce sends", why_much),
    ],
    told="the mean over all micro-batches, each computed once",
    needs=("4.11",),
    explain=explain,
    hints=(
        "In one process it would be: add up the gradients of m micro-batches, and divide by m. Who "
        "adds up what now?",
        "Start with torch.zeros_like(parameter) for each parameter, add the gradients of this "
        "rank's micro-batches, and call dist.all_reduce for each, on every rank.",
        "After the all-reduce, a tensor holds the sum over all m micro-batches, whoever computed "
        "them.",
    ),
)  # fmt: skip
