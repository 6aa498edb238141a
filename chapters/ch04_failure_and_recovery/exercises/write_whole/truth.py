"""The right results, and the results of known mistakes."""

from coursekit.kit import complains

from .cases import DIRECTLY, NEW, OLD, checksum

EITHER = {checksum(OLD), checksum(NEW)}  # after an interruption, it may still be the old one

HELD = {
    "left alone": [{checksum(NEW)}] * 3,
    "killed while it writes": [EITHER] * 3,
    "killed between two calls": [EITHER, {checksum(NEW)}],  # repeated for each moment
    "a full disk": [EITHER],
    "several at once": [{checksum(NEW)}],
    "the power fails": [{checksum(NEW)}, {checksum(NEW[:100])}],
}


@complains
def files_are_whole(trial):
    held, wanted = trial[0].held, HELD[trial.case.what]
    rounds = max(1, len(held) // len(wanted))
    if len(held) != rounds * len(wanted) or any(
        one not in allowed for one, allowed in zip(held, wanted * rounds)
    ):
        yield "a file holds neither the old data nor the new", DIRECTLY
