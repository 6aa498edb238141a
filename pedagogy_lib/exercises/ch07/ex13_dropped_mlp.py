"""Dropout inside and outside of the parallel region: exercise 7.13.

Masks are read from outside: a feature of `hidden` that is dropped has no gradient, one of y is 0.
"""

from functools import partial
from itertools import combinations
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close, told_gap
from ...course.checking import Exercise, Wrong, try_on_ranks
from ..kit.one_process import why_raised
from ..kit.outcomes import NO_RETURN, plain
from ..kit.trials import kind_of
from .ex07_row_layer import ARGUMENT, ERRORS, HANG, NO_HISTORY, blaming, lab_fault, lab_of

WORLDS = (2, 3)
P, CALLS = 0.5, 2
SAMPLES, PART, WIDTH = 16, 64, 64  # so many that equal masks are no chance
COMMON, OWN = 11, 5  # seeds: of what all ranks draw, of `randomness`
PLACES = SAMPLES * PART
MARGIN = 0.1  # of the dropped part of PLACES
NUDGE = (
    "the features of two ranks are different ones, at the same place of their parts. In one "
    "process each is dropped by a chance of its own. Where do these ranks get the same chance from?"
)
Y_DIFFERS = (
    "y is behind the all-reduce, where all ranks have the same: there they have to draw the same "
    "numbers. What is drawn from this rank's own stream, and up to where?"
)
SEEDED = (
    "a seed set in the function holds for all that is drawn afterwards, behind the all-reduce as "
    "well, and in every call it begins the same numbers again"
)
REPEATS = (
    "whatever begins anew in each call draws the same numbers each time: in training the same "
    "features would be dropped in every step. A stream has to go on where it ended; `randomness` "
    "does, as long as it is the same object"
)
Y_REPEATS = "the second dropout draws the same numbers in each call: its stream has to go on"
NONE_DROPPED = (
    "one process drops features here, too. What must not be the same on two ranks has to be drawn "
    "differently; without drawing there is no dropout"
)
Y_NOT_DROPPED = "there are two dropouts: the second one works on y, behind the all-reduce"
RATE = "each feature is dropped with probability p, on however many ranks the others are"
COMMON_MOVED = (
    "masks and y are right, but the stream that all ranks have in common has moved on by more than "
    "y's dropout, or less: what is drawn for `hidden` has to leave it alone. `randomness` draws "
    "from another stream, and draws no more than this rank's part needs"
)
SCALED = "what is kept is divided by 1 - p, once, in both dropouts: F.dropout does that"


def try_dropped(answer, lab):
    """On a rank: what some calls give, and what is drawn next; all ranks have the same seed."""
    rank, found = dist.get_rank(), []
    randomness = lab.OwnRandomness(OWN)
    torch.manual_seed(COMMON)
    for number in range(CALLS):
        hidden, weight, slope = (x.clone() for x in dropped_inputs(rank, number))
        leaves = hidden.requires_grad_(), weight.requires_grad_()
        y = answer(*leaves, P, randomness)
        of = SimpleNamespace(y=plain(y), constant=not getattr(y, "requires_grad", False))
        if isinstance(y, torch.Tensor) and y.shape == slope.shape and not of.constant:
            (y * slope).sum().backward()
        of.hidden, of.weight = hidden.grad, weight.grad
        of.changed = [name for name, leaf, was in
                      zip(("hidden", "weight"), leaves, dropped_inputs(rank, number))
                      if not torch.equal(leaf, was)]  # fmt: skip
        found.append(of)
    return found, torch.rand(1).item(), lab_fault(lab, "AllReduce")


def dropped_inputs(rank, number):
    """Positive numbers, so that only what is dropped is 0: hidden, weight, and the slope of y."""
    own = torch.Generator().manual_seed(100 * number + rank)
    common = torch.Generator().manual_seed(1000 + number)
    draw = lambda source, *shape: (  # noqa: E731
        torch.rand(*shape, generator=source, dtype=torch.float64) + 0.5
    )
    return draw(own, SAMPLES, PART), draw(own, WIDTH, PART), draw(common, SAMPLES, WIDTH)


def common_stream():
    """What a process draws for y's dropouts alone: the masks of all calls, and the next number."""
    with torch.random.fork_rng():
        torch.manual_seed(COMMON)
        ones = torch.ones(SAMPLES, WIDTH, dtype=torch.float64)
        return [F.dropout(ones, P) != 0 for _ in range(CALLS)], torch.rand(1).item()


def examine_dropped(answer):
    lab = lab_of(answer)
    for n in WORLDS:
        case = f"{n} ranks, p = {P:g}"
        run = try_on_ranks(case, try_dropped, answer, lab, world_size=n,
                           explain=partial(why_raised, ERRORS, HANG))  # fmt: skip
        calls, nexts, faults = zip(*run.values)
        with blaming(faults[0]):
            by_call = [list(of_ranks) for of_ranks in zip(*calls)]
            for number, found in enumerate(by_call):
                need_masks(case, number, found)
            yield f"{case}: {judge_masks(case, by_call)}"
            for number, found in enumerate(by_call):
                judge_numbers(case, number, found)
            judge_stream(case, by_call, nexts)
        yield f"{case}: y is the same on all ranks; the next call has other masks"


def need_masks(case, number, found):
    """Raise `Wrong` unless there are a y and gradients; notes what each rank has kept."""
    for rank, of in enumerate(found):
        wanted = torch.empty(SAMPLES, WIDTH, dtype=torch.float64)
        if not isinstance(of.y, torch.Tensor):
            why = NO_RETURN if of.y is None else ""
            raise Wrong(case, f"rank {rank} returned {of.y!r:.60}; expected a tensor", why)
        if kind_of(of.y) != kind_of(wanted):
            raise Wrong(case, f"rank {rank}: y is {kind_of(of.y)}, expected {kind_of(wanted)}")
        if of.constant or of.hidden is None or of.weight is None:
            raise Wrong(case, f"rank {rank}: hidden or weight has no gradient", NO_HISTORY)
        if of.changed:
            raise Wrong(case, f"rank {rank}: {' and '.join(of.changed)} has changed", ARGUMENT)
        of.kept, of.kept_y = of.hidden != 0, of.y != 0


def judge_masks(case, by_call) -> str:
    """Raise `Wrong` unless masks are dropped by chance, once and again; tells how many agree."""
    first = by_call[0]
    need_rate(case, first)
    seeded = not torch.equal(first[0].kept_y, first[1].kept_y)
    for a, b in combinations(range(len(first)), 2):
        if torch.equal(first[a].kept, first[b].kept):
            dropped = f"the same {int((~first[a].kept).sum())} of {PLACES} features"
            what = f"ranks {a} and {b} have dropped {dropped}"
            raise Wrong(case, what, f"{NUDGE} And {Y_DIFFERS}" if seeded else NUDGE)
    for rank, (now, then) in enumerate(zip(*by_call[:2])):
        if torch.equal(now.kept, then.kept):
            what = f"rank {rank} drops the same features of hidden in a second call"
            raise Wrong(case, what, SEEDED if seeded else REPEATS)
    alike = PLACES - differ(first[0].kept, first[1].kept)
    expected = PLACES * (P**2 + (1 - P) ** 2)
    return f"ranks 0 and 1 agree in {alike} of {PLACES} places; {expected:g} are expected by chance"


def need_rate(case, found):
    for rank, of in enumerate(found):
        for name, kept, none in (
            ("hidden", of.kept, NONE_DROPPED),
            ("y", of.kept_y, Y_NOT_DROPPED),
        ):
            dropped = 1 - kept.double().mean().item()
            if abs(dropped - P) > MARGIN:
                what = f"rank {rank}: of {name} {dropped:.0%} are dropped, expected {P:.0%}"
                raise Wrong(case, what, RATE if dropped else none)


def judge_numbers(case, number, found):
    """Raise `Wrong` unless y and the gradients are what these masks give."""
    again = ", a second call" * number
    inputs = [dropped_inputs(rank, number) for rank in range(len(found))]
    keep, slope = 1 - P, inputs[0][2]
    whole = sum((h * of.kept / keep) @ w.T for of, (h, w, _) in zip(found, inputs))
    for rank, (of, (hidden, weight, _)) in enumerate(zip(found, inputs)):
        if not close(of.y, found[0].y):
            where = f"ranks 0 and {rank} return y that differ in {differ(of.y, found[0].y)} places"
            raise Wrong(case + again, where, Y_DIFFERS)
        if not close(of.y, whole * of.kept_y / keep):
            what = f"rank {rank}: y is off by up to {told_gap(of.y, whole * of.kept_y / keep)}"
            raise Wrong(case + again, what, SCALED)
        back = slope * of.kept_y / keep
        for name, got, wanted in (
            ("hidden", of.hidden, (back @ weight) * of.kept / keep),
            ("weight", of.weight, back.T @ (hidden * of.kept / keep)),
        ):
            if not close(got, wanted):
                what = f"rank {rank}: y is right, the gradient of {name} is not"
                raise Wrong(case + again, f"{what}: off by up to {told_gap(got, wanted)}", BACKWARD)


BACKWARD = (
    "the backward of a dropout passes where the forward has passed. Is y what this rank has "
    "computed, or has it been overwritten? And is it added up by AllReduce?"
)


def differ(a, b) -> int:
    return int((a != b).sum())


def judge_stream(case, by_call, nexts):
    """Raise `Wrong` unless the common stream goes on as if y's dropouts alone had drawn."""
    masks, following = common_stream()
    first, second = (of_ranks[0].kept_y for of_ranks in by_call[:2])
    if torch.equal(first, second):
        raise Wrong(case, "a second call drops the same places of y", Y_REPEATS)
    moved = [k for k, kept in enumerate((first, second)) if not torch.equal(kept, masks[k])]
    if moved or any(number != following for number in nexts):
        where = f"in call {moved[0] + 1}, for y's dropout" if moved else "after the last call"
        what = f"{where}, other numbers are drawn than by a process that draws for y alone"
        raise Wrong(case, what, COMMON_MOVED)


EXERCISE = Exercise(
    "7.13", "dropped_mlp", examine_dropped,
    (
        "All ranks have the same seed, and they have to: for the second dropout. What follows "
        "from that for the first?",
        "Inside of the parallel region, each rank needs random numbers of its own, that go on "
        "from call to call; outside, all need the same. `randomness` is such a stream of "
        "its own.",
        "`with randomness:` around the first dropout, and around nothing else.",
    ),
)  # fmt: skip
