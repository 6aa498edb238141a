"""A whole program for DDP, whose promises are checked one by one."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, Sends, World, never
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import CLIP, FREE
from .program_watch import keep_promises
from .program_watch_truth import BFLOAT16
from .truth import (
    OTHERWISE,
    SAME,
    count_epoch_bytes,
    files_are_right,
    goes_on,
    list_found,
    losses,
    mistakes,
    need_each_test_once,
    share,
    weights,
    what_is_right,
    why_so_many_bytes,
    wrong_losses,
    wrong_shares,
)

EXERCISE = RankExercise(
    "Training",
    lab="train_ddp",
    cases=[
        RankCase(World(2), (3, FREE), ", 3 micro-batches, nothing to clip"),
        RankCase(World(2), (2, CLIP), ", 2 micro-batches, clipped"),
        RankCase(World(3), (1, CLIP), ", 1 micro-batch, clipped"),
        RankCase(World(4), (2, CLIP), ", 2 micro-batches, clipped"),
        RankCase(World(2), (2, CLIP, BFLOAT16), ", 2 micro-batches, in bfloat16"),
    ],
    work=keep_promises,
    found=list_found,
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
        Sends(count_epoch_bytes, "the gradients of its steps, once each, are", why_so_many_bytes),
    ],
    right=what_is_right,
    errors={
        "'NoneType'": "a method returns None: what it returns stands behind its `return`",
        "element 0 of tensors does not require grad": "the loss that goes back has to come from a "
        "forward with gradients",
    },
    on_hang="every rank has to make the same calls: what only rank 0 does may not communicate",
    warm=True,
    timeout=40.0,
    hints=(
        "One hole after the other; the check looks at them in the order of the file. Which of them "
        "have you written before? {{train_epochs}} (epochs), {{accumulate_ddp}} (accumulation).",
        "train_epoch: one line, before the loop. backward: 3.13, with autocast around forward and "
        "loss. update: three lines, and their order matters.",
        "evaluate: self.model in evaluation mode, every n-th test image on each rank; then one "
        "all-reduce of a count. save: rank 0 writes to another name in the same folder, and "
        "os.replace gives it its name.",
    ),
)  # fmt: skip
