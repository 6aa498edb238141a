"""Dropout inside and outside of the parallel region.

Masks are read from outside: a feature of `hidden` that is dropped has no gradient, one of y is 0.
"""

from itertools import combinations

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...course.checking import Wrong
from ...course.labs import find_lab
from ..kit import At, Equals, Holds, RankExercise, World, never
from ..kit.differences import kind_of
from ..kit.outcomes import NO_RETURN
from ..kit.refused import Refused

FINDS_A_BUG = True

P = 0.5
RATES = (P, P, 0.25)  # p in each call; the last one tells what is dropped from what is kept
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
KEPT = "p is how probable it is that a feature is dropped, not that it is kept"
RATE = "each feature is dropped with probability p, on however many ranks the others are"
COMMON_MOVED = (
    "masks and y are right, but the stream that all ranks have in common has moved on by more than "
    "y's dropout, or less: what is drawn for `hidden` has to leave it alone. `randomness` draws "
    "from another stream, and draws no more than this rank's part needs"
)


# ---- On a rank ---


def drop(answer, group, case):
    """What some calls give, and what is drawn next; all ranks have the same seed."""
    lab = getattr(answer, "__globals__", {}).get("tensor_parallel") or find_lab("tensor_parallel")
    randomness = lab.OwnRandomness(OWN)
    torch.manual_seed(COMMON)
    calls = [of_call(answer, p, randomness, *inputs(dist.get_rank(), k))
             for k, p in enumerate(RATES)]  # fmt: skip
    found = {name: [of[name] for of in calls] for name in calls[0]}
    return found | {
        "repeats": torch.equal(*found["kept"][:2]), "y_repeats": torch.equal(*found["kept_y"][:2]),
        "next": torch.rand(1).item(),
    }  # fmt: skip


def of_call(answer, p, randomness, hidden, weight, slope) -> dict:
    leaves = {"hidden": hidden.clone().requires_grad_(), "weight": weight.clone().requires_grad_()}
    y = answer(*leaves.values(), p, randomness)
    need_like(y, slope)
    (y * slope).sum().backward()
    gradients = {name: leaf.grad for name, leaf in leaves.items()}
    if any(gradient is None for gradient in gradients.values()):
        raise Refused("hidden or weight has no gradient", NO_HISTORY)
    if not close(list(leaves.values()), [hidden, weight]):
        raise Refused("hidden or weight has changed", ARGUMENT)
    kept, kept_y = gradients["hidden"] != 0, y.detach() != 0
    return {"y": y.detach(), "gradients": gradients, "kept": kept, "kept_y": kept_y}


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


def drops(name, called, none) -> Holds:
    """As many as are to be dropped."""

    def wrong(kept) -> tuple[float, float]:
        dropped = [1 - of.double().mean().item() for of in kept]
        off = ((share, p) for share, p in zip(dropped, RATES) if abs(share - p) > MARGIN)
        return next(off, (0.0, 0.0))

    def why(trial, place) -> str:
        share, p = wrong(getattr(trial[place], name))
        return KEPT if p != P and abs(share + p - 1) <= MARGIN else RATE if share else none

    return Holds(
        name,
        lambda found: wrong(found) == (0.0, 0.0),
        lambda found: "of {} {:.0%} are dropped, expected {:.0%}".format(called, *wrong(found)),
        why,
    )


def is_seeded(trial) -> bool:
    """Whether ranks draw others behind the all-reduce."""
    return not torch.equal(trial[0].kept_y[0], trial[1].kept_y[0])


def drops_differently(trial):
    for a, b in combinations(range(trial.n), 2):
        kept = trial[a].kept[0]
        if torch.equal(kept, trial[b].kept[0]):
            what = f"ranks {a} and {b} have dropped the same {(~kept).sum()} of {PLACES} features"
            why = (
                "the features of two ranks are different ones, at the same place of their parts. "
                "In one process each is dropped by a chance of its own. Where do these ranks get "
                "the same chance from?"
            )
            also = f" And {Y_DIFFERS}" if is_seeded(trial) else ""
            raise Wrong(str(trial.case), what, why + also)


def why_again(trial, place) -> str:
    if is_seeded(trial):
        return (
            "a seed set in the function holds for all that is drawn afterwards, behind the "
            "all-reduce as well, and in every call it begins the same numbers again"
        )
    return (
        "whatever begins anew in each call draws the same numbers each time: in training the same "
        "features would be dropped in every step. A stream has to go on where it ended; "
        "`randomness` does, as long as it is the same object"
    )


def summand(trial, place, number, hidden, weight):
    """What a rank adds to y, with the mask that has been found."""
    return F.linear(hidden * trial[place].kept[number] / (1 - RATES[number]), weight)


def y(trial, place, added=sum):
    found = []
    for number, kept in enumerate(trial[place].kept_y):
        every = [summand(trial, k, number, *inputs(k, number)[:2]) for k in range(trial.n)]
        found.append(added(every) * kept / (1 - RATES[number]))
    return found


def gradients(trial, place):
    """As autograd finds them: through y, a rank's own summand alone leads to its tensors."""
    found = []
    for number, kept in enumerate(trial[place].kept_y):
        *leaves, slope = (x.requires_grad_() for x in inputs(place, number))
        y = summand(trial, place, number, *leaves) * kept / (1 - RATES[number])
        (y * slope).sum().backward()
        found.append({name: leaf.grad for name, leaf in zip(("hidden", "weight"), leaves)})
    return found


def common_stream() -> tuple:
    """What a process draws for y's dropouts alone: the masks of all calls, and the next number."""
    with torch.random.fork_rng():
        torch.manual_seed(COMMON)
        ones = torch.ones(SAMPLES, WIDTH, dtype=torch.float64)
        return [F.dropout(ones, p) != 0 for p in RATES], torch.rand(1).item()


def told(trial) -> str:
    alike = int((trial[0].kept[0] == trial[1].kept[0]).sum())
    expected = PLACES * (P**2 + (1 - P) ** 2)
    chance = f"ranks 0 and 1 agree in {alike} of {PLACES} places; {expected:g} are expected"
    return f"{chance} by chance. y is the same on all ranks; the next call has other masks"


EXERCISE = RankExercise(
    "7.14",
    "dropped_mlp",
    needs=("7.3",),
    cases=[At(World(n), (), f", p = {P:g}") for n in (2, 3)],
    work=drop,
    facts=[
        drops("kept", "hidden",
              "one process drops features here, too. What must not be the same on two ranks has to "
              "be drawn differently; without drawing there is no dropout"),
        drops("kept_y", "y",
              "there are two dropouts: the second one works on y, behind the all-reduce"),
        drops_differently,
        never("repeats", "it drops the same features of hidden in a second call", why_again),
        Equals("kept_y", lambda trial, place: trial[0].kept_y, called="what is kept of y",
               otherwise=Y_DIFFERS),
        Equals("y", y, lambda trial, place: {
                   "each rank has what comes from its own features: nobody has added that up":
                       y(trial, place, lambda every: every[place])},
               otherwise="what is kept is divided by 1 - p, once, in both dropouts: F.dropout does "
               "that"),
        Equals("gradients", gradients, called="y is right, the gradient",
               otherwise="the backward of a dropout passes where the forward has passed. Is y what "
               "this rank has computed, or has it been overwritten? And is it added up by "
               "AllReduce?"),
        never("y_repeats", "a second call drops the same places of y",
              "the second dropout draws the same numbers in each call: its stream has to go on"),
        Equals("kept_y", lambda trial, place: common_stream()[0], otherwise=COMMON_MOVED,
               called="what a process that draws for y alone keeps of y"),
        Equals("next", lambda trial, place: common_stream()[1], otherwise=COMMON_MOVED,
               called="what is drawn after the last call"),
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
