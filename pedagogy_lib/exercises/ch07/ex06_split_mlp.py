"""An MLP whose first matrix is cut along the wrong dimension: exercise 7.6.

The truth is one process. Work is counted in multiplications of matrices, bytes from the calls.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...basics.torch_private import OperatorMode
from ..kit import At, Holds, RankExercise, World, never
from ..kit.both_ways import right, ring_bytes
from ..kit.counted import Counted
from ..kit.outcomes import plain
from ..kit.requests import all_waited
from ..kit.values import NO_RETURN

FINDS_A_BUG = True

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
        elif name == "mul" and result.dim() > 2:  # a product written out, to be added up
            self.count += result.numel()
        return result


def matrices(samples, width, hidden):
    """x, a and b, the same on every rank."""
    source = torch.Generator().manual_seed(hidden)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return draw(samples, width), draw(width, hidden), draw(hidden, width)


def try_split(answer, group, case):
    given, (samples, width, hidden) = matrices(*case.args), case.args
    with all_waited() as calls, Multiplications() as work:
        y = answer(*given)
    same = map(torch.equal, given, matrices(*case.args))
    changed = [name for name, is_same in zip("xab", same) if not is_same]
    share = work.count * dist.get_world_size() / (2 * samples * width * hidden)  # of both products
    return {"y": plain(y), "share": share, "changed": changed, "calls": calls.made}


def y_of(trial, place):
    """p are summands of x a, s are those of y."""
    n, (x, a, b), got = trial.n, matrices(*trial.case.args), [of.y for of in trial]
    y = F.gelu(x @ a) @ b
    p = [x_part @ rows for x_part, rows in zip(x.chunk(n, 1), a.chunk(n))]
    s = [F.gelu(x @ columns) @ rows for columns, rows in zip(a.chunk(n, 1), b.chunk(n))]
    pieces = [F.gelu(part) @ columns for part, columns in zip(p, b.chunk(n, 1))]
    own_features = [F.gelu(part).chunk(n, 1)[k] @ b.chunk(n)[k] for k, part in enumerate(p)]
    on_rank_0 = {} if close(got[place], y) or not close(got[0], y) else {
        "rank 0 has y, the others do not: all of them need it": got[place]
    }  # fmt: skip
    return y, on_rank_0 | {
        "with 1 rank it is right. Here every rank has summands of x a, for all hidden features, "
        "and takes their GELU: is GELU(p + q) = GELU(p) + GELU(q)? Which parts of x and a does a "
        "rank need for a few hidden features, complete?": torch.cat(pieces, 1),
        "the GELUs of the ranks' summands have been added up: but GELU(p) + GELU(q) is not "
        "GELU(p + q)": sum(map(F.gelu, p)) @ b,
        "every rank has taken the GELU of its own summands of x a, and then some of their columns: "
        "but GELU(p) is not a part of GELU(p + q)": sum(own_features),
        "this is x a b: where is the GELU?": x @ a @ b,
        "this is a ReLU; asked is the GELU": F.relu(x @ a) @ b,
        "this is the GELU's approximation with tanh; asked is F.gelu as it is":
            F.gelu(x @ a, approximate="tanh") @ b,
        "this is GELU(x a b): the GELU belongs between the two matrices": F.gelu(x @ a @ b),
        "this is what the rank's own hidden features give: a summand of y, which nobody has added "
        "up": s[place],
        "the ranks' results are summands of y: they are to be added, not averaged": y / n,
        "every rank has all of y, and their sum has it n times. Each is to have one summand": y * n,
        "these are some columns of y: every rank needs all of them": y.chunk(n, 1)[place],
        "the columns of a and the rows of b do not belong to the same hidden features: column j of "
        "a makes what row j of b is for":
            sum(F.gelu(x @ a[:, k::n]) @ rows for k, rows in enumerate(b.chunk(n))),
        "the rows of b and the columns of a do not belong to the same hidden features: row j of b "
        "is for what column j of a makes":
            sum(F.gelu(x @ part) @ b[k::n] for k, part in enumerate(a.chunk(n, 1))),
        f"{NO_RETURN}; dist.all_reduce works in place, and returns None as well": None,
    } | {
        f"all ranks have computed with the same part of a and b, number {k}: which one is this "
        "rank's?": n * part for k, part in enumerate(s)
    }  # fmt: skip


def y_bytes(trial) -> int:
    samples, width, _ = trial.case.args
    return 8 * samples * width


def why_sent(trial, sent) -> str:
    _, width, hidden = trial.case.args
    hidden_bytes = y_bytes(trial) * hidden // width
    made = {(call.name, call.tensor_bytes) for call in trial[0].calls}
    told = {
        "GELU needs complete sums, and so this order needs a sum of all hidden features in the "
        "middle. Is there a cut of `a` with which no hidden feature has to be added up?":
            made & {("all_reduce", hidden_bytes), ("reduce_scatter", hidden_bytes // trial.n),
                    ("reduce_scatter", hidden_bytes)},
        "hidden features are gathered. Is there a cut of `b` with which each rank needs its own "
        "hidden features alone?": ("all_gather", hidden_bytes // trial.n) in made,
        "everybody gets everybody's summands. An all-reduce sends 2 (n-1) / n of y, an all-gather "
        "of summands n-1 times y": made == {("all_gather", y_bytes(trial))},
    }  # fmt: skip
    return next(
        (why for why, holds in told.items() if holds), "more is sent than one all-reduce of y"
    )


EXERCISE = RankExercise(
    "7.6", "split_mlp",
    cases=[
        At(World(n), sizes, f", {sizes[1]} inputs, {sizes[2]} hidden features")
        for n, sizes in [(1, (3, 8, 16)), (2, (3, 8, 16)), (2, (5, 4, 12)), (4, (5, 4, 12))]
    ],
    work=try_split,
    facts=[
        never("changed", "{0[0]} has changed",
              "whoever calls the function still needs it as it was"),
        right("y", y_of),
        Holds("share", lambda share: share <= 1, "it multiplies {:.3g} times its part",
              "the numbers are right, but every rank does the work of all: nothing has become less "
              "by having more ranks. Each is to use its own part of a, and of b"),
        Counted(lambda trial: ring_bytes(y_bytes(trial), trial.n), "one all-reduce of y sends",
                why_sent, "calls"),
    ],
    told="y on every rank; each does its part of the work; x, a and b are as before",
    errors={
        "cannot be multiplied": "what stands left has other columns than the matrix right of it "
        "has rows: this rank needs those rows of b that belong to its columns of GELU(x a)",
        "must be contiguous": "a part of the columns has gaps in memory, and cannot be sent like "
        "that: .contiguous() closes them. But what has to be sent at all?",
        "must match the size": "parts of different shapes cannot be added",
    },
    lost="every rank has to make the same calls in the same order",
    hints=(
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
