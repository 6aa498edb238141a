"""An MLP whose first matrix is cut along the wrong dimension: exercise 7.6.

The truth is one process. Work is counted in multiplications of matrices, bytes from the calls.
"""

from functools import partial
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from ...basics.closeness import close, told_gap
from ...basics.torch_private import OperatorMode
from ...course.checking import Exercise, Wrong, try_on_ranks
from ...measuring.recorder import measure
from ..kit.differences import recognise
from ..kit.one_process import why_raised
from ..kit.outcomes import NO_RETURN, plain
from ..kit.trials import kind_of

WORLDS = (1, 2, 4)
SIZES = ((3, 8, 16), (5, 4, 12))  # samples, width, hidden features
ERRORS = {
    "cannot be multiplied": "what stands left has other columns than the matrix right of it has "
    "rows: this rank needs those rows of b that belong to its columns of GELU(x a)",
    "must be contiguous": "a part of the columns has gaps in memory, and cannot be sent like that: "
    ".contiguous() closes them. But what has to be sent at all?",
    "must match the size": "parts of different shapes cannot be added",
}
HANG = "every rank has to make the same calls in the same order"
NUDGE = (
    "with 1 rank it is right. Here every rank has summands of x a, for all hidden features, and "
    "takes their GELU: is GELU(p + q) = GELU(p) + GELU(q)? Which parts of x and a does a rank need "
    "for a few hidden features, complete?"
)
SUM_OF_GELUS = (
    "the GELUs of the ranks' summands have been added up: but GELU(p) + GELU(q) is not GELU(p + q)"
)
NO_GELU = "this is x a b: where is the GELU?"
GELU_LAST = "this is GELU(x a b): the GELU belongs between the two matrices"
OWN_SUMMAND = (
    "this is what the rank's own hidden features give: a summand of y, which nobody has added up"
)
RANK_0 = "rank 0 has y, the others do not: all of them need it"
AVERAGED = "the ranks' results are summands of y: they are to be added, not averaged"
WHOLE_ADDED = "every rank has all of y, and their sum has it n times. Each is to have one summand"
SAME_PART = "all ranks have computed with the same part of a and b: which one is this rank's?"
COLUMNS = "these are some columns of y"
IN_PLACE = "dist.all_reduce works in place, and returns None as well"
CHANGED = "whoever calls the function still needs it as it was"
ALL_WORK = (
    "the numbers are right, but every rank does the work of all: nothing has become less by having "
    "more ranks. Each is to use its own part of a, and of b"
)
SUM_BEFORE = (
    "the numbers are right: GELU needs complete sums, and so this order needs a sum of all hidden "
    "features in the middle. Is there a cut of `a` with which no hidden feature has to be added up?"
)
GATHERED_HIDDEN = (
    "the numbers are right, but hidden features are gathered. Is there a cut of `b` with which "
    "each rank needs its own hidden features alone?"
)
GATHERED_SUMMANDS = (
    "the numbers are right, but everybody gets everybody's summands. An all-reduce sends "
    "2 (n-1) / n of y, an all-gather of summands n-1 times y"
)
TOO_MUCH = "the numbers are right, but more is sent than one all-reduce of y"


LEFT = {"mm": 0, "bmm": 0, "mv": 0, "addmm": 1, "baddbmm": 1, "addmv": 1}  # which argument


class Multiplications(OperatorMode):
    """Counts those of numbers in products of matrices: rows x inner x columns of each."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        name = function.overloadpacket.__name__
        if name in LEFT:
            self.count += result.numel() * args[LEFT[name]].shape[-1]
        return result


def matrices(sizes):
    """x, a and b, the same on every rank."""
    samples, width, hidden = sizes
    source = torch.Generator().manual_seed(hidden)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(samples, width), draw(width, hidden), draw(hidden, width)


def try_split(answer):
    """On a rank: what it gives for each of SIZES, and how much it has multiplied."""
    found = []
    for sizes in SIZES:
        given = matrices(sizes)
        with measure(str(sizes)), Multiplications() as work:
            y = answer(*given)
        same = map(torch.equal, given, matrices(sizes))
        changed = [name for name, is_same in zip("xab", same) if not is_same]
        of = SimpleNamespace(y=plain(y), work=work.count, changed=changed)
        found.append(of)
    return found


def examine_split(answer):
    for n in WORLDS:
        case = f"{n} rank" + "s" * (n > 1)
        run = try_on_ranks(case, try_split, answer, world_size=n,
                           explain=partial(why_raised, ERRORS, HANG))  # fmt: skip
        for number, sizes in enumerate(SIZES):
            where = f"{case}, {sizes[1]} inputs, {sizes[2]} hidden features"
            judge_split(where, [of_rank[number] for of_rank in run.values], sizes)
            work = need_work(where, run, number)
        need_bytes(case, run)
        yield f"{case}: y on every rank; x, a and b as before"
        yield f"{case}: {work}; sent {sent_bytes(run, sizes)} bytes, one all-reduce of y"


def judge_split(case, found, sizes):
    x, a, b = matrices(sizes)
    wanted = F.gelu(x @ a) @ b
    for rank, of in enumerate(found):
        if not isinstance(of.y, torch.Tensor):
            why = f"{NO_RETURN}; {IN_PLACE}" if of.y is None else ""
            raise Wrong(case, f"rank {rank} returned {of.y!r:.60}; expected a tensor", why)
        if kind_of(of.y) != kind_of(wanted):
            why = COLUMNS if of.y.shape[:1] == wanted.shape[:1] else ""
            raise Wrong(case, f"rank {rank}: y is {kind_of(of.y)}, expected {kind_of(wanted)}", why)
        if of.changed:
            raise Wrong(case, f"rank {rank}: {' and '.join(of.changed)} has changed", CHANGED)
    for rank, of in enumerate(found):
        if not close(of.y, wanted):
            what = f"rank {rank}: y is off by up to {told_gap(of.y, wanted)}"
            raise Wrong(case, what, why_split(found, rank, wanted, x, a, b))


def why_split(found, rank, wanted, x, a, b) -> str:
    """Which misconception y comes from; p are summands of x a, s are those of y."""
    n, got = len(found), found[rank].y
    if rank and close(found[0].y, wanted):
        return RANK_0
    p = [x_part @ rows for x_part, rows in zip(x.chunk(n, 1), a.chunk(n))]
    s = [F.gelu(x @ columns) @ rows for columns, rows in zip(a.chunk(n, 1), b.chunk(n))]
    pieces = [F.gelu(part) @ columns for part, columns in zip(p, b.chunk(n, 1))]
    return recognise(got, {
        NUDGE: torch.cat(pieces, 1),
        SUM_OF_GELUS: sum(map(F.gelu, p)) @ b,
        NO_GELU: x @ a @ b,
        GELU_LAST: F.gelu(x @ a @ b),
        OWN_SUMMAND: s[rank],
        AVERAGED: wanted / n,
        WHOLE_ADDED: wanted * n,
    } | {f"{SAME_PART} (part {k}, {n} times)": n * part for k, part in enumerate(s)})  # fmt: skip


def need_work(case, run, number) -> str:
    """Raise `Wrong` if a rank multiplies more than its part; tells how much that is."""
    samples, width, hidden = SIZES[number]
    one = samples * width * hidden  # of each of the two products
    part = 2 * one // run.world_size
    for rank, found in enumerate(run.values):
        work = found[number].work
        if work > part:
            what = f"rank {rank} does {work} multiplications, its part is {part} of {2 * one}"
            raise Wrong(f"work, {case}", what, ALL_WORK)
    return f"{part} of {2 * one} multiplications on each"


def sent_bytes(run, sizes) -> int:
    return max(sum(call.sent_bytes for call in calls) for calls in run[str(sizes)].calls)


def need_bytes(case, run):
    n = run.world_size
    for sizes in SIZES:
        (x, _, b), sent = matrices(sizes), sent_bytes(run, sizes)
        y_bytes = x.nbytes * b.shape[1] // x.shape[1]
        best = 2 * (n - 1) * y_bytes // n
        if sent > best:
            calls = run[str(sizes)].calls[0]
            how = ", ".join(f"{call.name} of {call.tensor_bytes}" for call in calls)
            what = f"each rank sends {sent} bytes ({how}); one all-reduce of y sends {best}"
            raise Wrong(f"cost, {case}", what, why_bytes(calls, n, y_bytes, sizes))


def why_bytes(calls, n, y_bytes, sizes) -> str:
    hidden_bytes = y_bytes * sizes[2] // sizes[1]
    made = {(call.name, call.tensor_bytes) for call in calls}
    if ("all_reduce", hidden_bytes) in made:
        return SUM_BEFORE
    if ("all_gather", hidden_bytes // n) in made:
        return GATHERED_HIDDEN
    return GATHERED_SUMMANDS if made == {("all_gather", y_bytes)} else TOO_MUCH


EXERCISE = Exercise(
    "7.6", "split_mlp", examine_split,
    (
        "Take one hidden feature. Which rows or columns of `a` does it come from? Does a rank "
        "have all of them?",
        "GELU is not linear: it needs complete sums. Only a cut of `a` along its columns gives "
        "complete hidden features, some to each rank, with nothing to send.",
        "And then `b`: hidden feature k is multiplied with row k of b alone. So each rank "
        "needs the rows of its own features, and gets a summand of all of y.",
        "hidden = F.gelu(x @ this rank's columns of a), y = hidden @ this rank's rows of b, "
        "and at the end dist.all_reduce(y), which works in place.",
    ),
)  # fmt: skip
