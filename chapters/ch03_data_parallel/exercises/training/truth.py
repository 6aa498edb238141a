"""The right results, and the results of known mistakes."""

from functools import partial

from coursekit.kit import Wrong, complains
from pedagogy_lib.basics.closeness import close

from . import one_program_truth as one
from .one_program import EPOCHS, TESTS, WRONG
from .program_watch import NAME
from .save_watch import ELSEWHERE, OPENED, REMOVED, RENAMED

SAME = partial(close, steps=9)

OTHERWISE = (
    "which samples does each rank read in which epoch, and what is in `.grad` before each step?"
)


def replay_training(trial, **how):
    return one.train_one_program(trial[0].start, trial.n, *trial.case.args, **how)


def weights(trial, place):
    return replay_training(trial)[0]


def mistakes(trial, place):
    orders = {
        "every epoch has the same order: the sampler shuffles by a seed and the number of the "
        "epoch, and nobody has told it that number": lambda e: 0,
        "the order of an epoch is that of the epoch before: the loader asks the sampler when the "
        "loop begins, and what is said later counts in the next one": lambda e: max(e - 1, 0),
        "the order of an epoch is that of the next one: the first epoch has the number 0":
            lambda e: e + 1,
    }  # fmt: skip
    follows = {
        "nothing is averaged over the ranks: each follows its own gradient. DDP communicates in a "
        "backward whose forward went through it, and not under no_sync()": one.own_alone,
        "nothing is clipped: clipping changes gradients, so it has to come before the step":
            one.never_clip,
        "each rank clips its own gradient, before the mean over the ranks is taken. The mean of "
        "clipped gradients is not the clipped mean": one.clip_ranks_first,
        "gradients are clipped after each micro-batch: what is to be clipped is the gradient of "
        "the whole batch, once": one.clip_in_each_piece,
        "gradients are clipped after each micro-batch, and once more before the step: what is to "
        "be clipped is the gradient of the whole batch, once": one.clip_in_each_piece_and_again,
        "each number is clipped by itself; asked is the norm of the whole gradient":
            one.clip_numbers,
        "the losses of the micro-batches are added up: divide by their number, as the batch's loss "
        "is a mean": one.sum_of_pieces,
        "the gradient is multiplied by the number of ranks: DDP has averaged already, and the "
        "learning rate is that of one process": one.sum_over_ranks,
        "the gradient is divided by the number of ranks once more: DDP has averaged already":
            one.mean_over_ranks_twice,
        "only the last micro-batch counts: what the others gave is set back": one.last_piece,
        "only the last micro-batch is averaged over the ranks": one.last_piece_averaged,
    }  # fmt: skip
    kept = "nothing sets the gradients back: each step follows those of all steps before it, too"
    return (
        {why: replay_training(trial, order=order)[0] for why, order in orders.items()}
        | {why: replay_training(trial, follow=f, place=place)[0] for why, f in follows.items()}
        | {kept: replay_training(trial, keep=True)[0]}
        | {"no step is taken: the weights are those of the start": [trial[0].start] * EPOCHS}
    )


def losses(trial, place):
    return replay_training(trial)[1]


def wrong_losses(trial, place):
    right, parts = losses(trial, place), trial.case.args[0]
    return {
        "what backward() returns is the sum over the micro-batches: their mean is asked":
            [loss * parts for loss in right],
        "what backward() returns is divided by the number of micro-batches twice":
            [loss / parts for loss in right],
        "backward() returns no loss": [0.0] * len(right),
    }  # fmt: skip


def share(trial, place):
    return (TESTS - len(WRONG)) / TESTS


def wrong_shares(trial, place):
    n, right = trial.n, TESTS - len(WRONG)
    own = [[k not in WRONG for k in range(rank, TESTS, n)] for rank in range(n)]
    mine = [sum(of_rank) / len(of_rank) for of_rank in own]
    padded = -TESTS % n
    again = "DistributedSampler has repeated the first test images, so that all ranks have equally "
    return {
        again + f"many: {padded} of them count twice": (right + padded) / (TESTS + padded),
        again + "many, and they are counted twice": (right + padded) / TESTS,
        "this is the mean of the ranks' shares; ranks have not equally many test images. Add up "
        "how many are right": sum(mine) / n,
        "each rank returns the share of its own test images: add up over the ranks": mine[place],
        "this is what one rank has counted, as a share of all test images: add up over the ranks":
            sum(own[place]) / TESTS,
        "this is how many are right; asked is their share": float(right),
        "what is right is counted once for each rank": n * right / TESTS,
    }  # fmt: skip


def need_each_test_once(trial):
    seen = trial.collect_values("seen") or ()
    if not any(seen):
        return
    total = sum(map(sum, seen))
    if total != TESTS:
        everybody = all(sum(of_rank) == TESTS for of_rank in seen)
        why = (
            "each rank computes all test images: it is right, and n times the work. Share them out"
            if everybody and trial.n > 1
            else "each test image is computed by one rank"
        )
        what = f"the ranks compute {total} test images together; there are {TESTS}"
        raise Wrong(str(trial.case), f"evaluate(): {what}", why)


@complains
def files_are_right(trial):
    if trial.collect_values("files") is None:
        return
    files, epochs = trial.collect_values("files"), trial[0].epochs
    writers = [place for place in range(trial.n) if trial[place].writes]
    if not writers:
        yield "save() has written nothing", "one rank has to write the state to options.file"
    elif writers != [0]:
        named = ", ".join(map(str, writers))
        yield (f"save(): files are written by ranks {named}",
               "all ranks have the same state. If all write the same file, one overwrites the "
               "other, at best. If each writes its own, that is work for nothing: rank 0 writes, "
               "and the others do not")  # fmt: skip
    elif NAME not in files[0]:
        yield f"save() leaves {', '.join(files[0])}", "the checkpoint has the name options.file"
    elif epochs[0] != EPOCHS:
        yield (f"save(): in the checkpoint is epoch {epochs[0]}, expected {EPOCHS}",
               "what is to be written is what state() returns")  # fmt: skip
    elif isinstance(epochs[1], str):
        yield ("save() was broken off in the middle, and options.file cannot be read any more: "
               f"{epochs[1]}",
               "the old checkpoint was overwritten before the new one was whole. Write under "
               "another name first")  # fmt: skip
    else:
        yield from (HARMS[harm] for harm in trial[0].harms)


KILLED = "if the program is killed after that, there is no whole checkpoint of this name. "

HARMS = {
    OPENED: (
        "save() opens the old checkpoint to write into it",
        KILLED + "Write under another name, and let the whole file take the place of the old one",
    ),
    REMOVED: (
        "save() removes the old checkpoint before the new one has its name",
        KILLED + "Which call gives a file a name, and removes the old file of this name, at once?",
    ),
    RENAMED: (
        "save() gives the old checkpoint another name, and then writes the new one",
        KILLED + "Which call gives a file a name, and removes the old file of this name, at once?",
    ),
    ELSEWHERE: (
        "save() writes the new file into another folder",
        "there may be another file system, and a file cannot be renamed into another one: write "
        "beside options.file",
    ),
}


@complains
def goes_on(trial):
    again = trial.collect_values("again")
    more = again and replay_training(trial, epochs=EPOCHS + 1)[0][-1]
    if again and not all(close(weights, more, steps=12) for weights in again):
        yield ("one more epoch from the checkpoint gives other weights than without a break",
               "the order of an epoch and all else has to follow from what state() holds: the "
               "number of the epoch is self.epoch")  # fmt: skip


def list_found(case):
    if len(case.args) > 2:
        return "logits", "loss_in"
    return "weights", "losses", "share", "files", "again"


def why_so_many_bytes(trial, times) -> str:
    if round(times) == trial.case.args[0]:
        return (
            "gradients travel once for each micro-batch. DDP decides in the forward whether the "
            "backward will communicate: all but the last have to know it by then"
        )
    return "in a step, gradients have to travel once"


def count_epoch_bytes(trial, place):
    if not hasattr(trial[place], "bytes"):
        return None
    steps = len(list(one.batches(trial.n, 0)))
    return steps * 2 * (trial.n - 1) / trial.n * trial[place].bytes + 1000  # bytes for the loss


def what_is_right(trial) -> str:
    if len(trial.case.args) > 2:
        return "logits in bfloat16, loss in float32, and the backward outside of autocast"
    return "weights, losses and counts of one process; the checkpoint is whole"
