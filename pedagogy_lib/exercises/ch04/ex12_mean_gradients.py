"""The gradients of the whole batch on every rank, however many ranks share it out."""

from collections import Counter

import torch

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
    never,
)
from ..kit.trials import LARGE, numbers

SHAPES, LARGE_SHAPES = ((4, 3), (5,), ()), ((LARGE,), (7,))
PARAMETER = 900  # a salt: no parameter looks like a gradient

LIST = "asked is a list of tensors, one for each parameter, in their order"
SUM = "this is the sum over all micro-batches; asked is the mean: of how many?"
BY_RANKS = (
    "the sum is divided by the number of ranks. But it was added up over all m micro-batches, "
    "whoever computed them: with fewer ranks, the same batch would give another gradient"
)
OF_AVERAGES = (
    "each rank averages its own micro-batches, and these averages are averaged. As long as all "
    "ranks have equally many, that is the same. Here a micro-batch of a rank that has few counts "
    "for more than one of a rank that has many. Add up first, and divide once"
)
OWN_COUNT = (
    "the sum over all ranks is divided by what this rank has computed, times the number of ranks. "
    "Ranks may have different numbers of micro-batches; together they have m"
)
ALONE = "these are this rank's own micro-batches alone: the others' have to be added"
OWN_MEAN = (
    "this is the mean of this rank's own micro-batches; asked is that of all m, on every rank"
)
TWICE_DIVIDED = "it is divided by m, and by the number of ranks as well: once is enough"
NONE_LEFT = (
    "a rank that has no micro-batch takes part all the same: with zeros. Others wait for it in the "
    "all-reduce"
)
ZEROS = (
    "there are more ranks than micro-batches here, so a rank has none. It has no gradient whose "
    "shape it could take: `parameters` have these shapes, torch.zeros_like(parameter)"
)
TWICE = "each micro-batch is computed by one rank alone: microbatches_of(rank, n, m) says by which"
CHANGED = "`parameters` only tell shapes: add up in tensors of your own, torch.zeros_like(…)"
TOO_OFTEN = (
    "add up on this rank first, and call all_reduce once for each parameter, not for each "
    "micro-batch"
)
GATHERED = (
    "the sum is enough: everybody's gradients need not come to every rank. all_reduce adds up"
)


def shapes_of(case):
    return LARGE_SHAPES if case.args[1:] else SHAPES


def gradients(k, shapes) -> list[torch.Tensor]:
    return [numbers(k, shape, torch.float64, salt=i) for i, shape in enumerate(shapes)]


def add_up(answer, group, case):
    m, shapes, asked = case.args[0], shapes_of(case), []

    def gradients_of(k):
        if not isinstance(k, int) or not 0 <= k < m:
            raise Refused(f"gradients_of({k!r:.20}) was called", f"there are 0 to {m - 1}")
        asked.append(k)
        return gradients(k, shapes)

    parameters = gradients(PARAMETER, shapes)
    with answering():
        value = answer(gradients_of, parameters, m, group)
    if not isinstance(value, list | tuple) or len(value) != len(shapes):
        raise Refused(f"it returned {value!r:.40}", LIST)
    changed = any(map(differ, parameters, gradients(PARAMETER, shapes)))
    return {"gradients": list(value), "asked": asked, "changed": changed}


def differ(a, b) -> bool:
    return not torch.equal(a, b)


def sums(numbers_of, shapes) -> list[torch.Tensor]:
    found = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
    for k in numbers_of:
        found = [total + gradient for total, gradient in zip(found, gradients(k, shapes))]
    return found


def over(tensors, number) -> list[torch.Tensor]:
    return [tensor / number for tensor in tensors]


def truth(trial, place):
    m = trial.case.args[0]
    return over(sums(range(m), shapes_of(trial.case)), m)


def mistakes(trial, place):
    m, n, shapes = trial.case.args[0], trial.n, shapes_of(trial.case)
    shares, total = trial.of("asked"), sums(range(m), shapes)
    mine = len(shares[place]) or 1
    own, each = sums(shares[place], shapes), [over(sums(k, shapes), len(k) or 1) for k in shares]
    return {
        SUM: total,
        BY_RANKS: over(total, n),
        OF_AVERAGES: over([sum(of_ranks) for of_ranks in zip(*each)], n),
        OWN_COUNT: over(total, n * mine),
        TWICE_DIVIDED: over(total, m * n),
        ALONE: over(own, m),
        OWN_MEAN: over(own, mine),
    }


def computed_once(trial):
    m, shares = trial.case.args[0], trial.of("asked")
    times = Counter(k for mine in shares for k in mine)
    if any(times[k] != 1 for k in range(m)):
        told = ", ".join(map(str, shares))
        yield f"the ranks have computed {told}", TWICE


def why_much(trial, times) -> str:
    return GATHERED if any("gather" in c.name for c in trial.calls[0]) else TOO_OFTEN


def explain(case, error) -> str:
    has_none = case.args[0] < len(case.ranks)
    if has_none and isinstance(error, HangError):
        return NONE_LEFT
    words = "division by zero", "list index out of range", "NoneType", "UnboundLocalError"
    return ZEROS if has_none and any(word in str(error) for word in words) else ""


def of_bytes(trial, place):
    if not trial.case.args[1:]:
        return None
    return 2 * (1 - 1 / trial.n) * sum(x.nbytes for x in gradients(0, shapes_of(trial.case)))


EXERCISE = RankExercise(
    "4.12",
    "mean_gradients",
    lab="restart",
    cases=[
        At(World(2), (4,), ", 4 micro-batches"),
        At(World(3), (4,), ", 4 micro-batches"),
        At(World(4), (7,), ", 7 micro-batches"),
        At(World(1), (3,), ", 3 micro-batches"),
        At(World(3), (2,), ", 2 micro-batches"),
        At(GROUP, (4,), ", 4 micro-batches"),
        At(World(3), (4, "large"), ", 4 micro-batches, 2 MB of gradients"),
    ],
    work=add_up,
    facts=[
        Equals("gradients", truth, mistakes, "the gradients"),
        complains(computed_once),
        never("changed", "`parameters` have changed", CHANGED),
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
