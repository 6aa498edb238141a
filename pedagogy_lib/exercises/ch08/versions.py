"""One stage, or a pipeline, whose weights change while micro-batches are under way; and the truth.

The truth is a list of versions, and a function of weights and input.
"""

import gc
import warnings
import weakref
from dataclasses import dataclass
from types import SimpleNamespace
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn

from ..kit.refused import Refused

LR, WIDTH, LETTERS, SHAPE = 0.5, 3, 7, (2, 4)  # SHAPE: samples and letters of a micro-batch


class Action(NamedTuple):
    """What lab("schedules").Action is; that lab has exercises of its own."""

    kind: str
    microbatch: int
    chunk: int = 0


@dataclass(frozen=True)
class Script:
    """What one stage does: a place in the model, "first", "middle" or "last", and actions."""

    title: str
    place: str
    text: str

    @property
    def actions(self) -> list[Action]:
        return actions_of(self.text)

    def __str__(self):
        return f"{self.title}, {self.text}"


SCRIPTS = (
    Script("last stage", "last", "F0 B0 F1 B1"),
    Script("first stage", "first", "F0 F1 B0 F2 B1 B2"),
    Script("middle stage", "middle", "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4"),
)
ROWS = {  # of a pipeline that never stops: ranks: what each does
    2: ("F0 F1 B0 F2 B1 F3 B2 F4 B3 B4", "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"),
    3: ("F0 F1 F2 B0 F3 B1 F4 B2 B3 B4", "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4",
        "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4"),
}  # fmt: skip
BATCHES = 5  # micro-batches of a pipeline


def actions_of(text) -> list[Action]:
    return [Action(word[0], int(word[1:])) for word in text.split()]


# ---- The truth -------------------------------------------------------------------------------


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def piece_of(place) -> nn.Sequential:
    """A stage's layers, other weights for each place; the first one takes letters."""
    first = nn.Embedding(LETTERS, WIDTH) if place == "first" else nn.Linear(WIDTH, WIDTH)
    piece = nn.Sequential(first, nn.Tanh(), nn.Linear(WIDTH, WIDTH)).double()
    for seed, parameter in enumerate(piece.parameters(), 10 * len(place)):
        parameter.data = draw(seed, *parameter.shape)
    return piece


def weights_of(place) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in piece_of(place).named_parameters()}


def input_of(place, i):
    if place == "first":
        chance = torch.Generator().manual_seed(i)
        return torch.randint(LETTERS, SHAPE, generator=chance)
    return draw(100 + i, *SHAPE, WIDTH)


def slope_of(i):
    """The gradient of micro-batch i's output, where its stage is not the last one."""
    return draw(200 + i, *SHAPE, WIDTH)


def target_of(i):
    return torch.full(SHAPE, i + 1.0, dtype=torch.float64)[..., None]


def output_of(weights, x):
    """What a piece makes of its input, with these weights."""
    if "0.bias" in weights:
        hidden = x @ weights["0.weight"].T + weights["0.bias"]
    else:
        hidden = weights["0.weight"][x]
    return torch.tanh(hidden) @ weights["2.weight"].T + weights["2.bias"]


def loss_of(y, target=1.0):
    return (y - target).square().mean()


def both_ways(place, weights, i):
    """Of micro-batch i: output, gradient of the input (None of letters), those of the weights."""
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    x = input_of(place, i)
    inputs = [x.requires_grad_()] if x.is_floating_point() else []
    y = output_of(leaves, x)
    y = loss_of(y) if place == "last" else y
    total = y if place == "last" else (y * slope_of(i)).sum()
    found = torch.autograd.grad(total, [*leaves.values(), *inputs])
    return y.detach(), found[-1] if inputs else None, dict(zip(leaves, found))


def by_hand(script, back="began", adds=False, step=-LR) -> SimpleNamespace:
    """What should come of a script; or what a misconception makes of it.

    back  whose weights a backward takes: those that its micro-batch "began" with, or the "newest"
    adds  whether the gradients of one version's micro-batches add up
    """
    versions, began, sums = [weights_of(script.place)], {}, {}
    found = SimpleNamespace(outputs={}, slopes={}, weights=[], delays=[], most_versions=1)
    for kind, i, _ in script.actions:
        newest = len(versions) - 1
        if kind == "F":
            began[i] = newest
            found.outputs[i] = both_ways(script.place, versions[newest], i)[0]
            in_use = {newest, *began.values()}
            found.most_versions = max(found.most_versions, len(in_use))
            continue
        version = began.pop(i)
        through = versions[version if back == "began" else newest]
        _, found.slopes[i], gradients = both_ways(script.place, through, i)
        if adds:
            gradients = sums[version] = plus(
                gradients, sums.get(version, gradients), version in sums
            )
        versions.append(plus(versions[newest], gradients, step))
        found.weights.append(versions[-1])
        found.delays.append(newest - version)
    return found


def plus(a, b, factor=1) -> dict[str, torch.Tensor]:
    return {name: a[name] + factor * b[name] for name in a}


def pipeline_by_hand(n) -> list[SimpleNamespace]:
    """Of each stage of a pipeline that never stops: its last weights, delays and versions.

    On stage s micro-batch i goes through the version that i - (n - 1 - s) micro-batches have made.
    """
    places = places_of(n)
    stages = [[weights_of(place)] for place in places]
    losses = []
    for i in range(BATCHES):
        late = [min(i, n - 1 - s) for s in range(n)]
        used = [{name: w.clone().requires_grad_() for name, w in versions[i - d].items()}
                for versions, d in zip(stages, late)]  # fmt: skip
        x = input_of("first", i)
        for weights in used:
            x = output_of(weights, x)
        loss = loss_of(x, target_of(i))
        losses.append(loss.item())
        found = iter(torch.autograd.grad(loss, [w for weights in used for w in weights.values()]))
        for versions, weights in zip(stages, used):
            versions.append(plus(versions[-1], {name: next(found) for name in weights}, -LR))
    return [
        SimpleNamespace(weights=versions[-1], delays=[min(i, n - 1 - s) for i in range(BATCHES)],
                        most_versions=n - s, losses=losses if s == n - 1 else [])
        for s, versions in enumerate(stages)
    ]  # fmt: skip


def places_of(n) -> list[str]:
    return ["first", *["middle"] * (n - 2), "last"]


# ---- On a rank -------------------------------------------------------------------------------


def try_scripts(answer, scripts=SCRIPTS):
    found = []
    for script in scripts:
        try:
            found.append(try_script(answer, script))
        except Exception as error:
            error.case, error.before = script, found
            raise
    return found


def backward_of(stage, i, slope):
    """Of a gradient that is not there a check tells more than PyTorch's warning about leaves."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor that is not")
        return stage.backward(i, slope)


def try_script(answer, script) -> SimpleNamespace:
    stage = answer(piece_of(script.place), lr=LR)
    found = SimpleNamespace(outputs={}, slopes={}, weights=[], sources={}, old=[])
    for kind, i, _ in script.actions:
        if kind == "F":
            go_forward(stage, script.place, i, found)
            continue
        old = [weakref.ref(w) for w in stage.weights[stage.version].values()]
        slope, stashed = None if script.place == "last" else slope_of(i), stage.stash[i]
        try:
            found.slopes[i] = backward_of(stage, i, slope)
        except Exception as error:
            raise (why_no_backward(error, stage, i, stashed) or error) from None
        del stashed
        found.old.append(old)
        found.weights.append(newest_of(stage))
    found.sources = {i: x.grad is not None for i, x in found.sources.items()}
    return end_of(stage, found)


def go_forward(stage, place, i, found):
    """The input has a history, unless it is letters; that of the source tells if it is used."""
    x = input_of(place, i)
    if x.is_floating_point():
        found.sources[i] = x.requires_grad_()
        x = x.clone()
    y = stage.forward(i, x, *([loss_of] if place == "last" else []))
    found.outputs[i] = y.detach().clone()
    stashed = stage.stash.get(i)
    if not isinstance(stashed, dict):
        what = "nothing" if stashed is None else f"{stashed!r:.30}"
        why = NOT_STASHED if stashed is None else NOT_THERE
        raise Refused(f"after F{i}, self.stash has {what} for micro-batch {i}", why)


def newest_of(stage) -> dict[str, torch.Tensor] | None:
    newest = stage.weights.get(stage.version)
    return newest and {name: w.detach().clone() for name, w in newest.items()}


def end_of(stage, found) -> SimpleNamespace:
    """What is left when all micro-batches are through."""
    gc.collect()  # graphs may hold each other
    found.old = sum(any(ref() is not None for ref in refs) for refs in found.old)
    found.left = [name for name in ("stash", "kept", "began_at") if getattr(stage, name)]
    found.delays, found.most_versions = stage.delays, stage.most_versions
    found.kept_versions = sorted(stage.weights)
    return found


def why_no_backward(error, stage, i, stashed):
    """A `Refused` for what an error in a backward means; None if nothing is known of it."""
    if not (isinstance(error, TypeError) and "unsupported operand" in str(error)):
        return None
    if any(p.grad is not None for p in stage.piece.parameters()):
        return Refused(f"in B{i}, the gradients are in self.piece's own parameters", OWN_WEIGHTS)
    if not all(w.requires_grad for w in stashed.values()):
        return Refused(
            f"after B{i}, the weights have no gradient, nor do they require one", NOT_REQUIRED
        )
    if not all(w.is_leaf for w in stashed.values()):
        return Refused(f"after B{i}, the weights have no gradient: they have a history", NO_LEAVES)
    return Refused(f"in B{i}, the gradients are None: {error}", NOT_THESE)


def try_pipeline(answer, lab) -> SimpleNamespace:
    """This rank's stage in a pipeline without a flush, after the rows that are written above."""
    torch.set_default_dtype(torch.float64)  # of what Pipeline receives into
    rank, n = dist.get_rank(), dist.get_world_size()
    stage = answer(piece_of(places_of(n)[rank]), lr=LR)
    pipeline = lab.Unflushed([stage], loss_of, WIDTH)
    batches = [input_of("first", i) for i in range(BATCHES)], list(map(target_of, range(BATCHES)))
    pipeline.step(actions_of(ROWS[n][rank]), *batches)
    found = SimpleNamespace(old=[], sources={}, weights=newest_of(stage))
    found.losses = [loss.item() for loss in pipeline.losses]
    return end_of(stage, found)


# ---- What errors mean ------------------------------------------------------------------------

NOT_STASHED = (
    "when its backward comes the newest weights are others: the forward notes in self.stash[i] "
    "which ones it has gone through"
)
OWN_WEIGHTS = (
    "the forward has gone through self.piece as it is, with the weights that it began with, and "
    "nothing ever changes these. functional_call(self.piece, weights, (x,)) takes others"
)
NOT_REQUIRED = "a new version's tensors are asked for gradients: .requires_grad_()"
NO_LEAVES = (
    "the new tensors were computed from the old ones under the eyes of autograd, so each has a "
    "history, and the gradient goes on into it. Begin with weight.detach()"
)
NOT_THESE = (
    "gradients are where the forward's weights are: asked of the newest version, or after they "
    "have been cleared, there are none. What has this micro-batch stashed?"
)
NOT_THERE = (
    "self.weights has the newest version alone: one that somebody still needs is kept by its "
    "micro-batch, in self.stash"
)
