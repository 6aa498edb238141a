"""A recipe for FSDP2 with three mistakes that raise no error; the truth is one process."""

from coursekit.kit import Equals, Holds, RankCase, RankExercise, World, never
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import BLOCKS, FREE, LIMIT, try_recipe
from .truth import (
    need_pair,
    right_losses,
    train_reference,
    why_gathers,
    wrong_losses,
    wrong_starts,
    wrong_weights,
)

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "prepare",
    cases=[RankCase(World(n), (limit,), how)
           for limit, how in ((FREE, ", nothing to clip"), (LIMIT, ", clipped")) for n in (2, 3)],
    work=try_recipe,
    facts=[
        need_pair,
        Holds("units", lambda count: count == BLOCKS, "{} of 3 blocks are units of FSDP2",
              "a unit for each block: so one block is whole at a time, and not the model. "
              "fully_shard goes from the inside out: the blocks come first"),
        Holds("root", bool, "the model itself is no unit of FSDP2",
              "what is in no block is neither split nor averaged over the ranks then"),
        Equals("start", lambda trial, place: train_reference(trial)[0], wrong_starts,
               "the whole weights at the start",
               "is there a parameter that has other weights than rank 0's?"),
        Equals("weights", lambda trial, place: train_reference(trial)[1], wrong_weights,
               "the weights after steps", same=close_in_float32),  # torch adds 1e-6 to a norm
        Holds("gathers", lambda count: count == 2 * BLOCKS + 1,
              "a step makes {} all-gathers, expected 7", why_gathers),
        never("left", "gradients are left after the step",
              "the next step would add to them: clear them"),
        Equals("losses", right_losses, wrong_losses, "what step() returns", same=close_in_float32),
        never("graph", "what step() returns has a graph",
              "it keeps the activations of the step alive: detach it"),
        never("grows", "after each step {} bytes more are alive than after the step before",
              "something grows with the steps, a list of tensors for example. It would go on like "
              "that for the whole training: keep numbers, loss.item() is one"),
    ],
    right="rank 0's weights at the start, and the steps of one process",
    errors={
        "got mixed torch.Tensor and DTensor": "a parameter is a shard where a whole one is needed. "
        "Either the model itself is no unit: it is sharded last, with all that is left. Or "
        "forward() was called in place of the model, and no hook has gathered its units",
        "'NoneType' object has no attribute 'to_local'": "a parameter has no gradient here: is "
        "this the place, and are these the parameters of the sharded model?",
    },
    on_hang="every rank has to make the same calls: clipping communicates, too",
    warm=True,
    hints=(
        "Three mistakes. The first line of the table: which rank's weights does the model have at "
        "the start? FSDP2 cuts what it finds on each rank.",
        "The third line: each rank has a norm of its own shards, and two ranks have two. Which "
        "call takes the norm of a whole DTensor?",
        "The last line: which unit does the backward need first, and what has it been told?",
    ),
)  # fmt: skip
