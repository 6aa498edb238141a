"""The attention to two sets of keys, merged from the attention to each of them."""

import torch

from coursekit.kit import Formula
from coursekit.kit.results import text_of

from .truth import MISTAKES, truth

INF = float("inf")


def draw_normal(seed, *shape, times=1.0) -> torch.Tensor:
    chance = torch.Generator().manual_seed(seed)
    return times * torch.randn(shape, generator=chance, dtype=torch.float64)


def case(seed, *shape, times=1.0, add=0.0):
    """Return random numbers for (out, lse, more, more_lse)."""
    a, b = (draw_normal(seed + k, *shape[:-1], times=times) + add for k in (2, 3))
    return draw_normal(seed, *shape), a, draw_normal(seed + 1, *shape), b


def make_empty_sets(seed, *shape):
    """Return a case without keys in set 1 for the first query, and in set 2 for the last one."""
    out, lse, more, more_lse = case(seed, *shape)
    out[0], lse[0], more[-1], more_lse[-1] = 0, -INF, 0, -INF
    return out, lse, more, more_lse


def apart(seed, by):
    """Return a case in which the second set's scores are shifted by `by` against the first's."""
    out, lse, more, more_lse = case(seed, 3, 2)
    return out, lse, more, more_lse + by


def spread(seed, queries, size):
    """Return a case in which scores range by query from the negative hundreds to the hundreds."""
    out, lse, more, more_lse = case(seed, queries, size)
    far = torch.linspace(-900, 900, queries, dtype=torch.float64)
    return out, lse + far, more, more_lse + far


def differs(call, wanted, got) -> str:
    if len(got) != 2:
        return f"expected two tensors, got {text_of(got)}"
    for name, w, g in zip(("out", "lse"), wanted, got):
        shapes = [list(torch.tensor(x).shape) for x in (w, g)]
        if shapes[0] != shapes[1]:
            return f"{name} has the shape {shapes[1]}, expected {shapes[0]}"
    flat = [[torch.tensor(x).flatten() for x in of] for of in (wanted, got)]
    for name, w, g in zip(("out", "lse"), *flat):
        off = (~torch.isclose(w.double(), g.double(), rtol=1e-6)).nonzero().flatten()
        if len(off):
            at = off[0].item()
            return f"{name}, number {at}: expected {w[at].item():.6g}, got {g[at].item():.6g}"
    return ""


def has_nan(found, case):
    numbers = [x for value in found[case] for x in flat_list(value)]
    if any(x != x for x in numbers):
        if "one set" in case:
            return (
                "one set may outweigh the other one by far, either of them. Subtract the larger of "
                "the two logarithms: both differences are then 0 or less"
            )
        if "different" in case:
            return (
                "exp of one query's scores is infinite or 0. Subtract something of each query's "
                "own, not one number for all"
            )
        if "negative hundreds" in case:
            return (
                "exp(-900) is 0, and 0 divided by 0 is no number. Subtract the larger of the two "
                "logarithms first, whatever its sign: only their difference counts"
            )
        if "hundreds" in case:
            return (
                "exp of a large number is infinite, and infinite divided by infinite is no number. "
                "Subtract something first: only the difference of the two logarithms counts"
            )
        return (
            "minus infinity minus minus infinity is no number. Where a set has no keys, its weight "
            "is exp(-inf) = 0"
        )
    return ""


def flat_list(value):
    if isinstance(value, list):
        return [x for one in value for x in flat_list(one)]
    return [value] if isinstance(value, float) else []


EXERCISE = Formula(
    "merge",
    lab="long_contexts",
    cases={
        "3 queries, 2 features": [case(0, 3, 2)],
        "2 samples, 2 heads, 4 queries": [case(10, 2, 2, 4, 3)],
        "one set outweighs the other": [case(20, 3, 2, times=30.0)],
        "scores in the hundreds": [case(30, 3, 2, add=900.0)],
        "scores in the negative hundreds": [case(35, 3, 2, add=-900.0)],
        "one set's scores in the hundreds": [apart(70, 900.0), apart(80, -900.0)],
        "queries with very different scores": [spread(60, 4, 3)],
        "a query without keys in a set": [make_empty_sets(40, 3, 2)],
        "one query, one feature": [case(50, 1, 1)],
    },
    truth=truth,
    mistakes=MISTAKES,
    differs=differs,
    explain=has_nan,
    right=lambda calls, values: "as one attention to both",
    asked="two tensors, out and lse",
    errors={
        "must match the size": "lse has one dimension less than out: lse.unsqueeze(-1) has as many",
        "too many values": "return two tensors: out and lse",
    },
    hints=(
        "What comes out of a set is a sum, divided by the sum of exp(score), which is exp(lse). So "
        "exp(lse) × out is the sum that was not divided yet.",
        "torch.logaddexp(a, b) is log(exp(a) + exp(b)), and stays finite. Then the weight of the "
        "first set is exp(lse - both).",
    ),
)  # fmt: skip
