"""Dropout inside and outside of the parallel region.

Masks are read from outside: a feature of `hidden` that is dropped has no gradient, one of y is 0.
"""

from itertools import combinations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...course.checking import Wrong
from ...course.labs import find_lab
from ..kit import At, Equals, RankExercise, World
from ..kit.differences import kind_of
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused

P, CALLS = 0.5, 2
SAMPLES, PART, WIDTH = 16, 64, 64  # so many that equal masks are no chance
COMMON, OWN = 11, 5  # seeds: of what all ranks draw, of `randomness`
PLACES = SAMPLES * PART
MARGIN = 0.1  # of the dropped part of PLACES
Y_DIFFERS = (
    "y is behind the all-reduce, where all ranks have the same: there they have to draw the same "
    "numbers. What is drawn from this rank's own stream, and up to where?"
)
NO_HISTORY = (
    "y has no history: a backward cannot begin there. What is computed from x.detach(), from "
    "x.data, or under no_grad, is a constant for autograd"
)

ARGUMENT = "whoever calls the function still needs it as it was: change a copy, or make a new one"


# ---- On a rank ---


def drop(answer, group, case):
    """What some calls give, and what is drawn next; all ranks have the same seed."""
    place, found = dist.get_rank(), []
    lab = getattr(answer, "__globals__", {}).get("tensor_parallel") or find_lab("tensor_parallel")
    randomness = lab.OwnRandomness(OWN)
    torch.manual_seed(COMMON)
    for number in range(CALLS):
        hidden, weight, slope = inputs(place, number)
        leaves = [hidden.clone().requires_grad_(), weight.clone().requires_grad_()]
        y = answer(*leaves, P, randomness)
        need_like(y, slope)
        (y * slope).sum().backward()
        grads = [leaf.grad for leaf in leaves]
        if any(grad is None for grad in grads):
            raise Refused("hidden or weight has no gradient", NO_HISTORY)
        if not (leaves[0].equal(hidden) and leaves[1].equal(weight)):
            raise Refused("hidden or weight has changed", ARGUMENT)
        found.append((y.detach(), *grads, grads[0] != 0, y.detach() != 0))
    names = ("y", "of_hidden", "of_weight", "kept", "kept_y")
    return dict(zip(names, map(list, zip(*found)))) | {"next": torch.rand(1).item()}


def need_like(y, wanted):
    if not isinstance(y, torch.Tensor):
        what = f"it returned {y!r:.60}; expected a tensor"
        raise Refused(what, NO_RETURN if y is None else "")
    if kind_of(y) != kind_of(wanted):
        raise Refused(f"y is {kind_of(y)}, expected {kind_of(wanted)}", "")
    if not y.requires_grad:
        raise Refused("y.requires_grad is False", NO_HISTORY)


def inputs(place, number):
    """Positive numbers, so that only what is dropped is 0: hidden, weight, and the slope of y."""

    def draw(seed, *shape):
        source = torch.Generator().manual_seed(seed)
        return torch.rand(*shape, generator=source, dtype=torch.float64) + 0.5

    own = 100 * number + place
    return draw(own, SAMPLES, PART), draw(50 + own, WIDTH, PART), draw(999 + number, SAMPLES, WIDTH)


# ---- What is right, and what is not ---


def drops_by_chance(trial):
    none = {
        "kept": "one process drops features here, too. What must not be the same on two ranks has "
        "to be drawn differently; without drawing there is no dropout",
        "kept_y": "there are two dropouts: the second one works on y, behind the all-reduce",
    }
    rate = "each feature is dropped with probability p, on however many ranks the others are"
    for name in none:
        for place, (kept, _) in enumerate(trial.of(name)):
            dropped = 1 - kept.double().mean().item()
            if abs(dropped - P) > MARGIN:
                of = "hidden" if name == "kept" else "y"
                what = f"{trial.who(place)}: of {of} {dropped:.0%} are dropped, expected {P:.0%}"
                raise Wrong(str(trial.case), what, rate if dropped else none[name])


def drops_differently(trial):
    """On each rank, and in each call."""
    seeded = not torch.equal(trial[0].kept_y[0], trial[1].kept_y[0])
    for a, b in combinations(range(trial.n), 2):
        kept = trial[a].kept[0]
        if torch.equal(kept, trial[b].kept[0]):
            what = f"ranks {a} and {b} have dropped the same {(~kept).sum()} of {PLACES} features"
            why = (
                "the features of two ranks are different ones, at the same place of their parts. "
                "In one process each is dropped by a chance of its own. Where do these ranks get "
                "the same chance from?"
            )
            raise Wrong(str(trial.case), what, f"{why} And {Y_DIFFERS}" if seeded else why)
    for place, (now, then) in enumerate(trial.of("kept")):
        if torch.equal(now, then):
            what = f"{trial.who(place)} drops the same features of hidden in a second call"
            why = (
                "a seed set in the function holds for all that is drawn afterwards, behind the "
                "all-reduce as well, and in every call it begins the same numbers again"
                if seeded
                else "whatever begins anew in each call draws the same numbers each time: in "
                "training the same features would be dropped in every step. A stream has to go on "
                "where it ended; `randomness` does, as long as it is the same object"
            )
            raise Wrong(str(trial.case), what, why)


def products(trial, number):
    """Of each rank: what it would add to y."""
    every = [inputs(place, number) for place in range(trial.n)]
    return [(h * of.kept[number] / (1 - P)) @ w.T for of, (h, w, _) in zip(trial, every)]


def y(trial, place, added=sum):
    return [added(products(trial, number)) * trial[place].kept_y[number] / (1 - P)
            for number in range(CALLS)]  # fmt: skip


def gradients(trial, place) -> list[tuple]:
    """Of hidden and weight, in each call."""
    found = []
    for number, (kept, kept_y) in enumerate(zip(trial[place].kept, trial[place].kept_y)):
        hidden, weight, slope = inputs(place, number)
        back = slope * kept_y / (1 - P)
        mask = kept / (1 - P)
        found.append(((back @ weight) * mask, back.T @ (hidden * mask)))
    return found


def of_leaf(name, index) -> Equals:
    return Equals(
        f"of_{name}",
        lambda trial, place: [of_call[index] for of_call in gradients(trial, place)],
        called=f"y is right, the gradient of {name}",
        otherwise="the backward of a dropout passes where the forward has passed. Is y what this "
        "rank has computed, or has it been overwritten? And is it added up by AllReduce?",
    )


def leaves_the_common_stream(trial):
    """It goes on as if y's dropouts alone had drawn."""
    with torch.random.fork_rng():
        torch.manual_seed(COMMON)
        ones = torch.ones(SAMPLES, WIDTH, dtype=torch.float64)
        masks, following = [F.dropout(ones, P) != 0 for _ in range(CALLS)], torch.rand(1).item()
    found = trial[0].kept_y
    if torch.equal(*found):
        why = "the second dropout draws the same numbers in each call: its stream has to go on"
        raise Wrong(str(trial.case), "a second call drops the same places of y", why)
    moved = [k for k in range(CALLS) if not torch.equal(found[k], masks[k])]
    if moved or any(number != following for number in trial.of("next")):
        where = f"in call {moved[0] + 1}, for y's dropout" if moved else "after the last call"
        raise Wrong(
            str(trial.case),
            f"{where}, other numbers are drawn than by a process that draws for y alone",
            "masks and y are right, but the stream that all ranks have in common has moved on by "
            "more than y's dropout, or less: what is drawn for `hidden` has to leave it alone. "
            "`randomness` draws from another stream, and draws no more than this rank's part needs",
        )


def told(trial) -> str:
    alike = int((trial[0].kept[0] == trial[1].kept[0]).sum())
    expected = PLACES * (P**2 + (1 - P) ** 2)
    chance = f"ranks 0 and 1 agree in {alike} of {PLACES} places; {expected:g} are expected"
    return f"{chance} by chance. y is the same on all ranks; the next call has other masks"


EXERCISE = RankExercise(
    "7.13",
    "dropped_mlp",
    needs=("7.3",),
    cases=[At(World(n), (), f", p = {P:g}") for n in (2, 3)],
    work=drop,
    facts=[
        drops_by_chance,
        drops_differently,
        Equals("kept_y", lambda trial, place: trial[0].kept_y, called="what is kept of y",
               otherwise=Y_DIFFERS),
        Equals("y", y, lambda trial, place: {
                   "each rank has what comes from its own features: nobody has added that up":
                       y(trial, place, lambda every: every[place])},
               otherwise="what is kept is divided by 1 - p, once, in both dropouts: F.dropout does "
               "that"),
        of_leaf("hidden", 0),
        of_leaf("weight", 1),
        leaves_the_common_stream,
    ],
    told=told,
    errors={
        "'tensor_parallel' is not defined": "run the cell with tensor_parallel = "
        'lab("tensor_parallel") first',
        "a leaf Variable": "an argument is changed in place: whoever calls the function still "
        "needs it",
        "cannot be multiplied": "a part is multiplied by what it does not fit. Who has which "
        "columns?",
    },
    lost="every rank has to make the same calls in the same order, in the backward as well",
    hints=(
        "All ranks have the same seed, and they have to: for the second dropout. What follows "
        "from that for the first?",
        "Inside of the parallel region, each rank needs random numbers of its own, that go on "
        "from call to call; outside, all need the same. `randomness` is such a stream of "
        "its own.",
        "`with randomness:` around the first dropout, and around nothing else.",
    ),
)  # fmt: skip
