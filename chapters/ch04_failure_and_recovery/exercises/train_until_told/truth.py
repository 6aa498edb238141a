"""The right results, and the results of known mistakes."""

from itertools import chain

from coursekit.kit import first_true

from .cases import order_for

BATCH, AHEAD = 4, 16  # samples in a batch; samples that two workers read ahead, at most

AHEAD_OF_TRAINING = (
    "the position is ahead of the training, as the sampler's is, which counts what the workers "
    "have been asked for. What they have read ahead is lost when the process ends: count the "
    "samples that came out of the loader and went into `train`"
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

READERS = (
    "one loader, with two workers that read by turns, serves a whole life: if each batch starts "
    "other workers, nothing is read ahead, and with more workers, more is lost"
)

TOO_FAR = (
    "two workers that are two batches ahead have read 16 samples at most. If all batches are read "
    "before training begins, it waits for them, and memory has to hold them all"
)

ELSEWHERE = (
    "the position says how many samples of `order` have been used, so a life begins with the next "
    "one"
)

OTHER_BATCHES = "the batches stay as they were, of 4 samples: others make another training run"

NO_SHORT = "the last, short batch is never trained on, although its samples count like all others"

UNTRAINED = "every batch that comes out of the loader goes into `train`, once, and in order"

GOES_ON = "when told() is true, training stops after this batch"

ENDS = "training ends although told() is false and samples of `order` are left"

ASKED_ONCE = (
    "told() is asked once after each batch: a batch that is taken before it is asked has to be "
    "trained on, and a second answer may differ from the first"
)


def faults(trial):
    """Yield (what is wrong, why) of each life, until one ends at a wrong position."""
    length, done, stops = trial.case.args
    for number, (life, stop) in enumerate(zip(trial[0].lives, stops), start=1):
        name, given, left = f"life {number}", done, order_for(length)[done:]
        for what, why in faults_of_training(life, left, stop, order_for(length)):
            yield f"{name}, from position {given}, {what}", why
        for what, why in faults_of_reading(life, trial[0].rank):
            yield f"{name}: {what}", why
        batches, position = life["batches"], life["position"]
        done += sum(map(len, batches))
        if position != done:
            told = f"{name} ends after {done} samples, and returns position {position}"
            yield told, why_position(position, given, done, batches, length)


def faults_of_training(life, left, stop, order):
    """Yield what is wrong with the batches of a life that has these samples left."""
    batches, asked, whole = life["batches"], life["asked"], -(-len(left) // BATCH)
    trained = list(chain(*batches))
    if trained and left and trained[0] != left[0]:
        yield f"begins with sample {order.index(trained[0])} of `order`", ELSEWHERE
    if any(len(batch) != BATCH for batch in batches[:-1]):
        yield f"trains on batches of {len(batches[0])} samples", OTHER_BATCHES
    if trained != left[: len(trained)]:
        yield f"trains on {trained!s:.60}", UNTRAINED
    if len(batches) == whole - 1 < stop and len(left) % BATCH:
        yield f"leaves out {left[len(trained) :]}", NO_SHORT
    if len(batches) != min(stop, whole):
        why = GOES_ON if len(batches) > stop else ENDS
        yield f"trains on {len(batches)} batches, expected {min(stop, whole)}", why
    if asked != len(batches):
        yield f"trains on {len(batches)} batches, and asks told() {asked} times", ASKED_ONCE


def faults_of_reading(life, rank):
    """Yield what is wrong with the processes that have read the batches of a life."""
    readers, several = life["readers"], len(life["batches"]) > 1
    if rank in readers:
        yield "the samples were read by the rank's own process", BY_ITSELF
    if several and len(readers) != 2:
        count = len(readers)
        yield f"the batches were read by {count} process{'es' * (count > 1)}, not by 2", READERS
    if life["ahead"] > AHEAD:
        yield f"{life['ahead']} samples had been read ahead when told() was asked", TOO_FAR


def why_position(position, given, done, batches, length) -> str:
    drawn = min(done + AHEAD, length)
    last = len(batches[-1]) if batches else 0
    return first_true({
        STAYS: position == given,
        SUBTRACTED: position == drawn - AHEAD and drawn < done + AHEAD,
        SHORT: position == given + BATCH * len(batches) and 0 < last < BATCH,
        IN_BATCHES: position in (len(batches), given + len(batches)),
        NOT_FROM: position == done - given,
        ONE_BEHIND: position == done - last,
        AHEAD_OF_TRAINING: done < position <= drawn,
    })  # fmt: skip
