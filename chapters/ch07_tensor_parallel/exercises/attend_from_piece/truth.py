"""The right results, and the results of known mistakes."""

import math
from functools import cache

import torch

from coursekit.kit import Wrong

from .cases import NAMES, piece_of, whole_inputs

BASE = 10_000.0


def rotate_by(x, places):
    """Rotate (…, places, size) by complex numbers of length 1; each place is a number."""
    first, second = x.chunk(2, -1)
    half = first.shape[-1]
    angles = places.double().unsqueeze(-1) * BASE ** (-torch.arange(half).double() / half)
    turned = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([turned.real, turned.imag], -1)


def attend_to_past(q, k, v, hides):
    """Compute attention in which a query does not see the keys that are hidden from it."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    return scores.masked_fill(hides, float("-inf")).softmax(-1) @ v


def hidden(n, length, which) -> torch.Tensor:
    """Return which keys are hidden from which queries, by the right mask or a wrong one."""
    key = torch.arange(n * length)
    query = key[:, None]
    return {
        "right": key > query, "none": torch.zeros(n * length, n * length, dtype=torch.bool),
        "from 0": key > query % length, "others": (key > query) | (key // length < query // length),
    }[which]  # fmt: skip


def count_places(n, length, heads) -> dict:
    """Return the places of all queries or keys: the right ones, and those of known mistakes."""
    own, rank = torch.arange(length).repeat(n), torch.arange(n).repeat_interleave(length)
    return {
        "right": rank * length + own, "from 0": own, "plus rank": rank + own, "none": 0 * own,
        "from the last rank": (n - 1 - rank) * length + own, "times rank": rank * own,
        "far apart": n * rank * length + own, "one": rank, "heads": rank * heads + own,
    }  # fmt: skip


@cache
def attend_at(n, shape, q_places="right", k_places="right", mask="right"):
    """Return y of one process and the gradients, with queries and keys at these places."""
    inputs = whole_inputs(n, shape)
    slope = inputs.pop("slope")
    leaves = {name: x.requires_grad_() for name, x in inputs.items()}
    places = count_places(n, shape[2], shape[1])
    q, k = rotate_by(leaves["q"], places[q_places]), rotate_by(leaves["k"], places[k_places])
    y = attend_to_past(q, k, leaves["v"], hidden(n, shape[2], mask))
    gradients = torch.autograd.grad((y * slope).sum(), list(leaves.values()))
    return y.detach(), dict(zip(NAMES, gradients))


WRONG = {
    "every rank counts its places from 0, or from one number, so that tokens of two pieces seem "
    "nearer than they are. Inside a piece all distances are right, and rank 0, which sees no other "
    "piece, has no error. At which place of the whole context does this rank's piece begin?": (
        "from 0", "from 0"),
    "the queries have their places in the whole context now, but the keys of each piece are still "
    "counted from 0. Both need them: a score depends on their distance": ("right", "from 0"),
    "the keys have their places in the whole context now, but the queries of each piece are still "
    "counted from 0. Both need them: a score depends on their distance": ("from 0", "right"),
    "each piece begins one place after the previous one. It begins after all places of that "
    "piece: rank * length": ("plus rank", "plus rank"),
    "the pieces are counted from the last rank: rank 0 has the first places": (
        "from the last rank", "from the last rank"),
    "places are multiplied by rank: the piece's beginning is added to them": (
        "times rank", "times rank"),
    "pieces begin too far apart: q.shape[2] is the length of a piece already": (
        "far apart", "far apart"),
    "all tokens of a piece have one place": ("one", "one"),
    "q.shape[1] is the number of heads; the length of a piece is q.shape[2]": ("heads", "heads"),
    "the queries see all keys: a causal mask is needed": ("right", "right", "none"),
    "the mask needs the same beginning: the rank's first query sees all keys of the pieces before "
    "its own": ("right", "right", "from 0"),
    "queries see the keys of their own piece alone: gather those of all ranks": (
        "right", "right", "others"),
    "nothing is rotated any more, so that no score knows how far apart two tokens are": (
        "none", "none"),
    "the queries are not rotated": ("none", "right"),
    "the keys are not rotated": ("right", "none"),
}  # fmt: skip


def y_of(trial, place):
    n, shape = trial.n, trial.case.args
    pieces = lambda *places: attend_at(n, shape, *places)[0].chunk(n, 2)[place]  # noqa: E731
    return pieces(), {why: pieces(*places) for why, places in WRONG.items()}


def gradients_of(trial, place):
    n, (_, whole) = trial.n, attend_at(trial.n, trial.case.args)
    wanted = piece_of(whole, place, n)
    return wanted, {
        "k and v have no gradient. dist.all_gather has no backward: gather_context has one":
            wanted | {"k": None, "v": None},
    } | {
        f"{name} has no gradient: what has it been detached from?": wanted | {name: None}
        for name in wanted
    } | {
        f"{name}'s gradient is n times too large: has it been gathered or summed twice?": wanted
        | {name: n * wanted[name]}
        for name in wanted
    }  # fmt: skip


def need_two_gathers(trial):
    """Raise `Wrong` if more travels than keys and values once, and their gradients back.

    A backward may be an all-reduce, which sends twice as much as a reduce-scatter.
    """
    most = 2 * (trial.n - 1) * 8 * math.prod(trial.case.args)
    for place, found in enumerate(trial):
        for way, limit in {"forward": most, "backward": 2 * most}.items():
            sent = sum(call.sent_bytes for call in getattr(found, way))
            if sent > limit:
                who = trial.name_of_rank(place)
                what = f"the numbers are right, but in the {way} {who} sends {sent:,} bytes"
                raise Wrong(f"cost, {trial.case}", what, TOO_MUCH.format(limit))


TOO_MUCH = (
    "{:,} bytes are enough: keys and values are gathered once, and nothing else is sent. A rank "
    "has its own queries"
)
