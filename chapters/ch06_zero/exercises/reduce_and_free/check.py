"""A program of ZeRO stage 2 with two bugs: memory that is not freed."""

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from .cases import try_reduce
from .truth import mistakes, need_freed, right

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "reduce_and_free",
    cases=[
        RankCase(World(4), ((3, 4), (5,), (2, 1)), ", 19 numbers"),
        RankCase(World(3), ((2, 3), (4,), (8,)), ", 18 numbers"),
        RankCase(World(3), ((2,),), ", 2 numbers"),
    ],
    work=try_reduce,
    facts=[
        never("changed", "the parameters themselves have changed"),
        Equals("part", right, mistakes, "what is returned"),
        need_freed,
    ],
    right=lambda trial: f"each has its part of the mean, {trial[0].part.nbytes} bytes, and no "
    "gradient is left",
    errors={
        "'NoneType' object has no attribute": "a gradient that has been freed is read: first copy "
        "all of them into the flat tensor",
        "sizes().vec()": "the chunks and the tensor that receives have to be equally long",
    },
    on_hang="every rank has to make the same calls, in the same order",
    hints=(
        "Which tensors can still be reached when the function has returned? How large is the "
        "memory behind each of them?",
        "zero_() writes zeros into memory, and frees none. And a chunk is a view: as long as "
        "it lives, the whole flat tensor lives.",
        "Receive into a tensor of its own, torch.empty_like(chunks[rank]), and set each p.grad "
        "to None.",
    ),
)  # fmt: skip
