"""The right results, and the results of known mistakes."""

from functools import cache
from types import SimpleNamespace

import torch
import torch.nn.functional as F

from .cases import CUT, WIDTH, block_inputs, cut_for_rank

SHARED = ("norm.weight", "norm.bias", "x")
RESIDUAL = (
    "the residual goes around the parallel part: its gradient is whole on every rank already. It "
    "has been added up with the rest, and counts n times"
)
MIXED = (
    "each rank has hidden features of its own, and each its own gradient. Added up over the ranks, "
    "the gradients of different features are mixed: here it is done behind"
)
TWICE = (
    "behind the all-reduce all ranks compute the same: the gradient there is complete on each. "
    "Added up over the ranks it is n times too large"
)
SHARE = (
    "{0} / n in the sum makes y right, but each rank's {0} has 1/n of the gradient that comes {1}. "
    "Add all of it, once, behind the sum"
)
ONE_RANK = (
    "one rank alone has brought {0} into the sum: y is right, but on the others no gradient comes "
    "{1}. Add it on every rank, behind the sum"
)
PAST = "to x past the MLP"


@cache
def one_process(n):
    """Return y, all gradients, and the gradients that come through each rank's features alone."""
    leaves = {name: x.requires_grad_() for name, x in block_inputs(n).items()}
    slope, x, bias = leaves.pop("slope").detach(), leaves["x"], leaves["bias"]
    parts = list(zip(leaves["up"].chunk(n), leaves["down"].chunk(n, 1)))
    h = F.layer_norm(x, (WIDTH,), leaves["norm.weight"], leaves["norm.bias"])
    behind_up = [h @ up.T for up, _ in parts]
    hidden = [F.gelu(features) for features in behind_up]
    through = [features @ down.T for features, (_, down) in zip(hidden, parts)]
    y = x + bias + sum(through)

    def back(y, slope) -> dict:
        found = torch.autograd.grad((y * slope).sum(), list(leaves.values()), retain_graph=True,
                                    materialize_grads=True)  # fmt: skip
        return dict(zip(leaves, found))

    def mix_features(places) -> list[dict]:
        """Return each rank's gradients if the feature gradients at these places are summed."""
        slopes = sum(torch.autograd.grad((y * slope).sum(), places, retain_graph=True))
        return [back(features, slopes) for features in places]

    return SimpleNamespace(
        slope=slope, y=y.detach(), x=x.detach(), bias=bias.detach(),
        own=[(x + bias + part).detach() for part in through],
        of_many=sum(F.gelu(n * h @ up.T) @ down.T for up, down in parts).detach(),
        gradients=back(y, slope), through=[back(part, slope) for part in through],
        mixed={"gelu": mix_features(hidden), "the product with up": mix_features(behind_up)},
    )  # fmt: skip


def y_of(trial, place):
    n, of = trial.n, one_process(trial.n)
    return of.y, {
        "norm(x) has been added up over the ranks in the forward, where all have the same":
            of.x + of.bias + of.of_many,
        "this is what the rank's own features give: nobody has added up the ranks'": of.own[place],
        "there is no residual in y any more": of.y - of.x,
        "the residual is in y n times: it goes around the sum": of.y + (n - 1) * of.x,
        "the bias is in y n times: each rank has brought it into the sum": of.y + (n - 1) * of.bias,
        "only a share of the bias is in y: behind the sum it is added once":
            of.y - of.bias + of.bias / n,
    }  # fmt: skip


def gradients_of(trial, place):
    n, of = trial.n, one_process(trial.n)
    wanted = cut_for_rank(of.gradients, place, n)
    own = of.through[place]
    whole = {name: sum(part[name] for part in of.through) for name in SHARED}
    twice = {name: n * wanted[name] for name in CUT}

    def combine_gradients(x, norm, factor=1, times=1, residual=1):
        """Return `wanted` with other gradients of x and of the norm's parameters.

        x, norm   gradients that come through the MLP, with those for x and for the norm
        factor    multiplies both
        times     multiplies that of x once more
        residual  multiplies the gradient of x that comes around the MLP
        """
        found = {name: factor * norm[name] for name in SHARED}
        return wanted | found | {"x": factor * times * x["x"] + residual * of.slope}

    def mix_gradients(behind):
        found = cut_for_rank(of.mixed[behind][place], place, n)
        return combine_gradients(found, found) | {"up": found["up"]}

    return wanted, {
        f"{name} has no gradient: what has it been detached from?": wanted | {name: None}
        for name in wanted
    } | {
        "the same x and the same norm are on all ranks, so their gradients should be the same, "
        "too. These are not: from step to step the ranks' norms drift apart, and no error tells of "
        "it. Whose hidden features does this rank's gradient come from?": combine_gradients(
            own, own
        ),
        "x's gradient is complete now, that of the norm's own parameters is not: it was taken "
        "before the ranks' gradients are added up. Where does what is the same on all ranks "
        "end?": combine_gradients(whole, own),
        "the norm's parameters have the whole gradient now, but what goes on through the norm, to "
        "x and to all blocks before, still comes from this rank's features "
        "alone": combine_gradients(own, whole),
        "x has the gradient of the residual alone: what goes through the norm has been detached "
        "from it": wanted | {"x": of.slope},
        RESIDUAL: combine_gradients(whole, whole, residual=n),
        f"{RESIDUAL}. And the norm's parameters still have what comes from this rank's features "
        "alone": combine_gradients(whole, own, residual=n),
        "x's gradient has been summed already behind the norm; a Copy before it sums once more: "
        "what comes through the norm is n times too large. One of them is "
        "enough": combine_gradients(whole, whole, times=n),
        "x's gradient is n times too large: it has been added up over the ranks "
        "twice": combine_gradients(whole, whole, times=n, residual=n),
        "the ranks' gradients are parts of a sum: they are to be added, not "
        "averaged": combine_gradients(whole, whole, factor=1 / n),
        **{f"{MIXED} {behind}": mix_gradients(behind) for behind in of.mixed},
        TWICE: combine_gradients(whole, whole, factor=n) | twice,
        SHARE.format("x", PAST): combine_gradients(whole, whole, residual=1 / n),
        ONE_RANK.format("x", PAST): combine_gradients(whole, whole, residual=float(place == 0)),
        SHARE.format("bias", "to it"): wanted | {"bias": wanted["bias"] / n},
        ONE_RANK.format("the bias", "to it"): wanted | {"bias": None if place else wanted["bias"]},
        "the bias stands behind the all-reduce, where each rank has all of its gradient already. "
        "Added up over the ranks, as behind a Copy, it is n times too large": wanted
        | {"bias": n * wanted["bias"]},
        f"{TWICE}. And what comes through the norm is still that of this rank's hidden features "
        "alone": combine_gradients(own, own, factor=n) | twice,
    }
