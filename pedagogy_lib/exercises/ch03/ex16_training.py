"""A whole program for DDP, whose promises are looked at one by one."""

from functools import partial

from ...basics.closeness import close, close_in_float32
from ...course.checking import Wrong
from ..kit import At, Equals, Holds, RankExercise, Sends, World, complains, never
from . import one_program as one
from .program_watched import BFLOAT16, NAME, keep_promises
from .saving_watched import ELSEWHERE, OPENED, REMOVED, RENAMED

FREE, CLIP = 1e9, 0.02  # no gradient is as long as the first, all are longer than the second
SAME = partial(close, steps=9)
OTHERWISE = (
    "which samples does each rank read in which epoch, and what is in `.grad` before each step?"
)


# ---- What is right, and what is not ---


def of(trial, **how):
    return one.trained(trial[0].start, trial.n, *trial.case.args, **how)


def weights(trial, place):
    return of(trial)[0]


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
        {why: of(trial, order=order)[0] for why, order in orders.items()}
        | {why: of(trial, follow=f, place=place)[0] for why, f in follows.items()}
        | {kept: of(trial, keep=True)[0]}
        | {"no step is taken: the weights are those of the start": [trial[0].start] * one.EPOCHS}
    )


def losses(trial, place):
    return of(trial)[1]


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
    return (one.TESTS - len(one.WRONG)) / one.TESTS


def wrong_shares(trial, place):
    n, right = trial.n, one.TESTS - len(one.WRONG)
    own = [[k not in one.WRONG for k in range(rank, one.TESTS, n)] for rank in range(n)]
    mine = [sum(of_rank) / len(of_rank) for of_rank in own]
    padded = -one.TESTS % n
    again = "DistributedSampler has repeated the first test images, so that all ranks have equally "
    return {
        again + f"many: {padded} of them count twice": (right + padded) / (one.TESTS + padded),
        again + "many, and they are counted twice": (right + padded) / one.TESTS,
        "this is the mean of the ranks' shares; ranks have not equally many test images. Add up "
        "how many are right": sum(mine) / n,
        "each rank returns the share of its own test images: add up over the ranks": mine[place],
        "this is what one rank has counted, as a share of all test images: add up over the ranks":
            sum(own[place]) / one.TESTS,
        "this is how many are right; asked is their share": float(right),
        "what is right is counted once for each rank": n * right / one.TESTS,
    }  # fmt: skip


def need_each_test_once(trial):
    seen = trial.of("seen") or ()
    if not any(seen):
        return
    total = sum(map(sum, seen))
    if total != one.TESTS:
        everybody = all(sum(of_rank) == one.TESTS for of_rank in seen)
        why = (
            "each rank computes all test images: it is right, and n times the work. Share them out"
            if everybody and trial.n > 1
            else "each test image is computed by one rank"
        )
        what = f"the ranks compute {total} test images together; there are {one.TESTS}"
        raise Wrong(str(trial.case), f"evaluate(): {what}", why)


@complains
def files_are_right(trial):
    if trial.of("files") is None:
        return
    files, epochs = trial.of("files"), trial[0].epochs
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
    elif epochs[0] != one.EPOCHS:
        yield (f"save(): in the checkpoint is epoch {epochs[0]}, expected {one.EPOCHS}",
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
    again = trial.of("again")
    more = again and of(trial, epochs=one.EPOCHS + 1)[0][-1]
    if again and not all(close(weights, more, steps=12) for weights in again):
        yield ("one more epoch from the checkpoint gives other weights than without a break",
               "the order of an epoch and all else has to follow from what state() holds: the "
               "number of the epoch is self.epoch")  # fmt: skip


def found_on(case):
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


def of_an_epoch(trial, place):
    if not hasattr(trial[place], "bytes"):
        return None
    steps = len(list(one.batches(trial.n, 0)))
    return steps * 2 * (trial.n - 1) / trial.n * trial[place].bytes + 1000  # and the loss


def what_is_right(trial) -> str:
    if len(trial.case.args) > 2:
        return "logits in bfloat16, loss in float32, and the backward outside of autocast"
    return "weights, losses and counts of one process; the checkpoint is whole"


EXERCISE = RankExercise(
    "3.16",
    "Training",
    lab="train_ddp",
    cases=[
        At(World(2), (3, FREE), ", 3 micro-batches, nothing to clip"),
        At(World(2), (2, CLIP), ", 2 micro-batches, clipped"),
        At(World(3), (1, CLIP), ", 1 micro-batch, clipped"),
        At(World(4), (2, CLIP), ", 2 micro-batches, clipped"),
        At(World(2), (2, CLIP, BFLOAT16), ", 2 micro-batches, in bfloat16"),
    ],
    work=keep_promises,
    found=found_on,
    facts=[
        Equals("weights", weights, mistakes, "the weights after epochs", OTHERWISE, same=SAME),
        Equals("losses", losses, wrong_losses, "the loss of an epoch", same=SAME),
        Holds("most", lambda more: more <= 0,
              "backward(): {} samples more than a micro-batch pass through the model at once",
              "the batch of a rank goes through the model in options.parts pieces: this saves the "
              "memory of activations"),
        never("together", "backward(): a forward begins while the activations of {} micro-batches "
              "before are still kept",
              "a backward frees the activations of its forward: let it come before the next one"),
        never("kinds", lambda kinds: f"backward() returns a {kinds[0]}",
              "asked is a tensor. To make a number of it, the CPU has to wait until the GPU has "
              "done all that stands before"),
        never("kept", "what backward() returns has a graph",
              "the loss of a step keeps its activations alive, and the sum over an epoch those of "
              "all steps: detach it"),
        Equals("share", share, wrong_shares, "evaluate()", same=close_in_float32),
        need_each_test_once,
        never("graph", "evaluate() keeps a graph",
              "nothing goes back from there: with torch.no_grad() activations are not kept"),
        never("wrapped", "evaluate() calls ddp",
              "its forward may communicate, as for the buffers of BatchNorm. Ranks have not "
              "equally many test images, and one would wait for the others: call the model"),
        never("trains", "in evaluate() the model is in training mode",
              "with dropout, a part of each image's activations would be missing; BatchNorm would "
              "take the mean of these images. Say before that you evaluate, and afterwards that "
              "you train"),
        never("left", "after evaluate() the model is in evaluation mode",
              "dropout would stay switched off, and BatchNorm would no longer learn its means"),
        never("moved", "evaluate() changes weights", "it only looks"),
        files_are_right,
        goes_on,
        Holds("logits", lambda dtype: dtype == "torch.bfloat16",
              "with --precision bfloat16, backward() computes logits of {}",
              "the option changes self.autocast alone: the forward has to be inside it"),
        Holds("loss_in", lambda dtype: dtype == "torch.float32",
              "with --precision bfloat16, backward() computes a loss of {}",
              "inside self.autocast, the cross-entropy of bfloat16 logits is computed in float32"),
        never("inside", "backward() goes back inside of autocast",
              "autocast is for the forward and the loss; each operation goes back in the precision "
              "in which it went forward"),
        Sends(of_an_epoch, "the gradients of its steps, once each, are", why_so_many_bytes),
    ],
    told=what_is_right,
    errors={
        "'NoneType'": "a method returns None: what it returns stands behind its `return`",
        "element 0 of tensors does not require grad": "the loss that goes back has to come from a "
        "forward with gradients",
    },
    lost="every rank has to make the same calls: what only rank 0 does may not communicate",
    warm=True,
    timeout=40.0,
    hints=(
        "One hole after the other; the check looks at them in the order of the file. Which of them "
        "have you written before? 3.5 (epochs), 3.13 (accumulation).",
        "train_epoch: one line, before the loop. backward: 3.13, with autocast around forward and "
        "loss. update: three lines, and their order matters.",
        "evaluate: self.model in evaluation mode, every n-th test image on each rank; then one "
        "all-reduce of a count. save: rank 0 writes to another name in the same folder, and "
        "os.replace gives it its name.",
    ),
)  # fmt: skip
