"""The right results, and the results of known mistakes."""

from itertools import chain

from coursekit.kit import first_true

from .cases import order_for

BATCH, AHEAD = 4, 16  # samples in a batch; samples that two workers read ahead, at most

AHEAD_OF_TRAINING = (
    "that is what the sampler has been asked for. The workers read ahead, and what they have read "
    "is lost when the process ends: count the samples that came out of the loader and went into "
    "`train`"
)

SUBTRACTED = (
    "near the end of the order, fewer batches are read ahead than the workers could: the number "
    "that is subtracted is not always the same. Count the samples that were trained on instead"
)

SHORT = "the last batch may be shorter than the others: it has len(batch) samples"

IN_BATCHES = "that is a number of batches; a position in `order` counts samples"

NOT_FROM = "the count begins at 0 in each life: it begins at the position that was given"

ONE_BEHIND = (
    "the last batch was trained on, but is not in the count, and will be trained on again: count "
    "a batch before the loop is left"
)

STAYS = "the position that was given is returned: all of this life will be trained on again"

BY_ITSELF = (
    "no worker has read anything: the rank reads by itself now, and waits for each sample. Workers "
    "that read ahead are no mistake; counting what they read is one"
)

UNTRAINED = "every batch that comes out of the loader goes into `train`, once, and in order"

GOES_ON = "when told() is true, training stops after this batch; until then, it goes on"


def faults(trial):
    of, (length, stops) = trial[0], trial.case.args
    order, done = order_for(length), 0
    if of.alone:
        yield "all samples were read by the rank's own process", BY_ITSELF
    found = zip(of.lives, of.positions, of.asked, stops)
    for life, (batches, position, asked, stop) in enumerate(found, start=1):
        trained, given = list(chain(*batches)), done
        if trained != order[given : given + len(trained)] or asked > len(batches):
            yield f"life {life} trained on {trained!s:.60}", UNTRAINED
        whole = -(-(length - given) // BATCH)
        if len(batches) != min(stop, whole):
            told = f"life {life} trained on {len(batches)} batches, expected {min(stop, whole)}"
            yield told, GOES_ON
        done += len(trained)
        if position != done:
            told = f"life {life} ends after {done} samples, and returns position {position}"
            yield told, why(position, given, done, batches, length)


def why(position, given, done, batches, length) -> str:
    drawn = min(done + AHEAD, length)
    return first_true({
        STAYS: position == given,
        SUBTRACTED: position == drawn - AHEAD and drawn < done + AHEAD,
        SHORT: position == given + BATCH * len(batches) and len(batches[-1]) < BATCH,
        IN_BATCHES: position in (len(batches), given + len(batches)),
        NOT_FROM: position == done - given,
        ONE_BEHIND: position == done - len(batches[-1]),
        AHEAD_OF_TRAINING: position == drawn,
    })  # fmt: skip
