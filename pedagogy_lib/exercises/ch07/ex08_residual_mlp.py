"""Half a block of a transformer, without a sum in its backward: exercise 7.8."""

from functools import partial

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, told_gap
from ...basics.units import counted
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.differences import ratio, recognise
from ..kit.groups import need_known
from ..kit.one_process import why_raised
from .ex07_row_layer import (
    AGAIN,
    ERRORS,
    HANG,
    PASSES,
    WORLDS,
    blaming,
    both_ways,
    lab_fault,
    lab_of,
    need_plausible,
    told_calls,
    told_gradients,
    wrong_gradients,
)

WIDTH, HIDDEN, LEAD = 4, 3, (2, 3)  # hidden features of each rank
FORWARD = "the forward was right as it was"
BLOCK_NUDGE = (
    "the same x and the same norm are on all ranks, so their gradients should be the same, too. "
    "These are not: from step to step the ranks' norms drift apart, and no error tells of it. "
    "Whose hidden features does this rank's gradient come from?"
)
NORM_PARTIAL = (
    "x's gradient is complete now, that of the norm's own parameters is not: it was taken before "
    "the ranks' gradients are added up. Where does what is the same on all ranks end?"
)
X_PARTIAL = (
    "the norm's parameters have the whole gradient now, but what goes on through the norm, to x "
    "and to all blocks before, still comes from this rank's features alone"
)
RESIDUAL = (
    "the residual goes around the parallel part: its gradient is whole on every rank already. It "
    "has been added up with the rest, and counts n times"
)
RESIDUAL_AND_NORM = (
    f"{RESIDUAL}. And the norm's parameters still have what comes from this rank's features alone"
)
COPIED_AGAIN = (
    "x's gradient has been summed already behind the norm; a Copy before it sums once more: what "
    "comes through the norm is n times too large. One of them is enough"
)
TWICE = "x's gradient is n times too large: it has been added up over the ranks twice"
MEAN = "the ranks' gradients are parts of a sum: they are to be added, not averaged"
SPLIT_SUMMED = (
    "here each rank has hidden features of its own, and each its own gradient. Added up over the "
    "ranks, the gradients of different features are mixed"
)
COMPLETE = (
    "behind the all-reduce all ranks compute the same: the gradient there is complete on each. "
    "Added up over the ranks it is n times too large"
)
NOT_ADDED = "this is what the rank's own features give: nobody has added up the ranks'"
NO_RESIDUAL = "there is no residual in y any more"
ENTERED_BY_SUM = "norm(x) has been added up over the ranks in the forward, where all have the same"
BLOCK_WHY = {  # by what x's gradient is, and the norm's parameters'
    ("own", "own"): BLOCK_NUDGE, ("right", "own"): NORM_PARTIAL, ("own", "right"): X_PARTIAL,
    ("residual", "own"): RESIDUAL_AND_NORM, ("residual", "right"): RESIDUAL,
    ("again", "right"): COPIED_AGAIN, ("twice", "right"): TWICE, ("mean", "mean"): MEAN,
}  # fmt: skip


def block_inputs(n) -> dict:
    """What one process has: x, the norm's and the MLP's parameters, and y's slope."""
    source = torch.Generator().manual_seed(7)
    draw = lambda *shape: torch.randn(*shape, generator=source, dtype=torch.float64)  # noqa: E731
    return {
        "x": draw(*LEAD, WIDTH), "norm.weight": draw(WIDTH), "norm.bias": draw(WIDTH),
        "bias": draw(WIDTH), "slope": draw(*LEAD, WIDTH),
        "up": draw(n * HIDDEN, WIDTH), "down": draw(WIDTH, n * HIDDEN),
    }  # fmt: skip


def try_block(answer, lab):
    """On a rank: what two passes give; and the lab's fault."""
    rank, n = dist.get_rank(), dist.get_world_size()
    inputs, norm = block_inputs(n), nn.LayerNorm(WIDTH, dtype=torch.float64)
    norm.load_state_dict({name: inputs[f"norm.{name}"] for name in ("weight", "bias")})
    leaves = {
        "x": inputs["x"], "norm.weight": norm.weight, "norm.bias": norm.bias,
        "up": inputs["up"].chunk(n)[rank].clone(),
        "down": inputs["down"].chunk(n, 1)[rank].clone(), "bias": inputs["bias"],
    }  # fmt: skip
    for leaf in leaves.values():
        leaf.requires_grad_()
    call = lambda: answer(leaves["x"], norm, leaves["up"], leaves["down"], leaves["bias"])  # noqa: E731
    found = [both_ways(call, leaves, inputs["slope"]) for _ in range(PASSES)]
    return found, lab_fault(lab, "Copy", "AllReduce")


def examine_block(answer):
    lab = lab_of(answer)
    for n in WORLDS:
        run = try_on_ranks(counted(n, "rank"), try_block, answer, lab, world_size=n,
                           explain=partial(why_raised, ERRORS, HANG))  # fmt: skip
        passes, faults = zip(*run.values)
        for number, found in enumerate(zip(*passes)):
            with blaming(faults[0]):
                judge_block(counted(n, "rank"), found, ", a second time" * number)
        yield f"{counted(n, 'rank')}: y and 6 gradients are those of one process; {told_calls(run)}"


class Truth:
    """One process: y, and gradients by name; of each rank's features alone in `through`."""

    def __init__(self, n):
        inputs = block_inputs(n)
        self.slope, self.n = inputs.pop("slope"), n
        self.leaves = {name: leaf.requires_grad_() for name, leaf in inputs.items()}
        self.y = self.residual() + self.mlp(slice(None))
        self.whole = self.gradients(self.y)
        self.through = [self.gradients(self.mlp(slice(k * HIDDEN, (k + 1) * HIDDEN)))
                        for k in range(n)]  # fmt: skip

    def residual(self):
        return self.leaves["x"] + self.leaves["bias"]

    def mlp(self, part, times=1):
        """What some of the hidden features add; of so many times norm(x)."""
        of = self.leaves
        h = times * F.layer_norm(of["x"], (WIDTH,), of["norm.weight"], of["norm.bias"])
        return F.gelu(h @ of["up"][part].T) @ of["down"][:, part].T

    def gradients(self, y) -> dict:
        loss, leaves = (y * self.slope).sum(), list(self.leaves.values())
        found = torch.autograd.grad(loss, leaves, retain_graph=True, materialize_grads=True)
        return dict(zip(self.leaves, found))

    def of_rank(self, rank) -> dict:
        """The gradients that a rank should have."""
        cuts = {"up": self.whole["up"].chunk(self.n), "down": self.whole["down"].chunk(self.n, 1)}
        return self.whole | {name: parts[rank] for name, parts in cuts.items()}


def judge_block(case, found, again):
    case, truth = case + again, Truth(len(found))
    need_plausible(case, found, truth.y)
    for rank, of in enumerate(found):
        if not close(of.y, truth.y):
            what = f"rank {rank}: y is off by up to {told_gap(of.y, truth.y)}"
            raise Wrong(case, what, why_forward(of.y, truth, rank))
    right = [truth.of_rank(rank) for rank in range(truth.n)]
    off = wrong_gradients(found, right)
    if off:
        what = told_gradients(off, right) + told_apart(found, off)
        raise Wrong(case, what, AGAIN if again else why_block(found, off, truth, right))
    need_known(case, [of.passed for of in found])


def told_apart(found, off) -> str:
    """How far ranks differ in the gradient of what they all have."""
    name = next((name for name in off if name not in ("up", "down")), None)
    got = [of.gradients[name] for of in found] if name else []
    if len(got) < 2 or any(x is None for x in got) or close(got[0], got[1]):
        return ""
    return f". Ranks 0 and 1 differ in that of {name} by up to {told_gap(got[0], got[1])}"


def why_forward(y, truth, rank) -> str:
    n, features = truth.n, slice(rank * HIDDEN, (rank + 1) * HIDDEN)
    parts = [truth.mlp(slice(k * HIDDEN, (k + 1) * HIDDEN), times=n) for k in range(n)]
    return recognise(y, {
        ENTERED_BY_SUM: truth.residual() + sum(parts),
        NOT_ADDED: truth.residual() + truth.mlp(features),
        NO_RESIDUAL: truth.y - truth.leaves["x"],
        f"the residual is in y {n} times": truth.y + (n - 1) * truth.leaves["x"],
    }) or FORWARD  # fmt: skip


def why_block(found, off, truth, right) -> str:
    """Begins behind the all-reduce: what is wrong there is wrong before it, too."""
    rank = next(iter(off.values()))[0]
    got = found[rank].gradients
    missing = [name for name in off if got[name] is None]
    if missing:
        return f"{missing[0]} has no gradient: what has it been detached from?"
    for name in ("bias", "down"):
        factor = ratio(got[name].flatten(), right[rank][name].flatten()) if name in off else None
        if factor and factor > 1:
            return COMPLETE
    if "up" in off:
        return SPLIT_SUMMED
    states = {state_of(name, got[name], rank, truth) for name in ("norm.weight", "norm.bias")}
    of_norm = "own" if "own" in states else next(iter(states))
    return BLOCK_WHY.get((state_of("x", got["x"], rank, truth), of_norm), "")


def state_of(name, got, rank, truth) -> str:
    """What has gone into the gradient of x, or of a parameter of the norm; "" if nobody knows."""
    through = [of[name] for of in truth.through]
    around = truth.slope if name == "x" else torch.zeros_like(got)
    return recognise(got, {
        "right": around + sum(through),
        "own": around + through[rank],
        "residual": truth.n * around + sum(through),
        "again": around + truth.n * sum(through),
        "twice": truth.n * (around + sum(through)),
        "mean": around + sum(through) / truth.n,
    })  # fmt: skip


EXERCISE = Exercise(
    "7.8", "residual_mlp", examine_block,
    (
        "Follow the gradient backwards from y. Where does it come to what is cut, and where "
        "does it come back to what all ranks have?",
        "On its way back through `up` each rank's gradient comes through its own features. The "
        "sum of all ranks' is missing: for x, and for the norm's parameters. The residual's "
        "gradient is whole already.",
        "Copy is what stands at the entry of the parallel region: forward nothing, backward "
        "the sum. Everything that is on all ranks has to be before it: the norm, too.",
    ),
)  # fmt: skip
