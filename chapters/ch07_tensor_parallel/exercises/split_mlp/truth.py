"""The right results, and the results of known mistakes."""

import torch
import torch.nn.functional as F

from coursekit.kit.results import NO_RETURN
from pedagogy_lib.basics.closeness import close

from .cases import matrices


def y_of(trial, place):
    """Return the right y and those of mistakes; `p` are summands of x a, and `s` those of y."""
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
