"""The right results, and the results of known mistakes."""

from itertools import combinations

import torch
import torch.nn.functional as F

from coursekit.kit import Holds, Wrong

from .cases import COMMON, PART, RATES, SAMPLES, WIDTH, P

PLACES = SAMPLES * PART

MARGIN = 0.1  # margin of the dropped share

Y_DIFFERS = (
    "y is behind the all-reduce, where all ranks have the same: there they have to draw the same "
    "numbers. What is drawn from this rank's own stream, and up to where?"
)

KEPT = "p is how probable it is that a feature is dropped, not that it is kept"

RATE = "each feature is dropped with probability p, on however many ranks the others are"

COMMON_MOVED = (
    "masks and y are right, but the stream that all ranks have in common has moved on by more than "
    "y's dropout, or less: what is drawn for `hidden` has to leave it alone. `randomness` draws "
    "from another stream, and draws no more than this rank's part needs"
)


def drops(name, called, none) -> Holds:
    """Return the fact that the right share is dropped."""

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
    """Return whether ranks draw different masks behind the all-reduce."""
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


def common_stream() -> tuple:
    """Return the masks and the next draw of a process that draws only for y's dropouts."""
    with torch.random.fork_rng():
        torch.manual_seed(COMMON)
        ones = torch.ones(SAMPLES, WIDTH, dtype=torch.float64)
        return [F.dropout(ones, p) != 0 for p in RATES], torch.rand(1).item()


def report_masks(trial) -> str:
    alike = int((trial[0].kept[0] == trial[1].kept[0]).sum())
    expected = PLACES * (P**2 + (1 - P) ** 2)
    chance = f"ranks 0 and 1 agree in {alike} of {PLACES} places; {expected:g} are expected"
    return f"{chance} by chance. y is the same on all ranks; the next call has other masks"
