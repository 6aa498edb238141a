"""A program that gathers a weight in E4M3, with two bugs: ranks disagree, and zeros become nan."""

from coursekit.kit import GROUP, Equals, Holds, RankCase, RankExercise, Sends, World, never
from coursekit.kit.collective_exercise import LARGE
from pedagogy_lib.basics.closeness import close_in_float32

from .cases import ALL_ZERO, ANY, BYTES, DIFFERENT, ONE_ZERO, SMALL, try_gather
from .truth import NOT_A_NUMBER, mistakes, right, why_bytes, why_whole

FINDS_A_BUG = True


def same_in_float32(got, wanted) -> bool:
    return close_in_float32(got, wanted) and got.dtype == wanted.dtype


EXERCISE = RankExercise(
    "gather_weights",
    cases=[
        RankCase(World(2), (DIFFERENT,), f", {DIFFERENT}"),
        RankCase(World(3), (SMALL,), f", {SMALL}"),
        RankCase(World(3), (ONE_ZERO,), f", {ONE_ZERO}"),
        RankCase(World(2), (ALL_ZERO,), f", {ALL_ZERO}"),
        RankCase(World(1), (ANY,), f", {ANY}"),
        RankCase(World(3), (BYTES,), f", {LARGE:,} numbers each"),
        RankCase(GROUP, (DIFFERENT,), ""),
    ],
    work=try_gather,
    facts=[
        never("changed", "the shard has changed", "make new tensors, and leave the shard alone"),
        Holds("nans", lambda count: count == 0, "{} numbers have become nan", NOT_A_NUMBER),
        Equals("whole", right, mistakes, "what is returned", otherwise=why_whole,
               same=same_in_float32),
        Sends(lambda trial, place: trial.case.args == (BYTES,) and (trial.n - 1) * LARGE,
              "a byte per number, to every other rank, is", why_bytes),
    ],
    right=lambda trial: "all ranks have the same weight, the one that a single process computes",
    errors={
        "Invalid scalar type": "Gloo takes no float8: give it .view(torch.uint8), the same bytes "
        "under another dtype",
        "values to unpack": "a shard may have one dimension, or three: shard.shape[0] is the first",
        "not implemented for 'Float8": "PyTorch computes hardly anything with float8 tensors: "
        "compute in float32, before the cast and after the gather",
    },
    on_hang="every rank has to make the same calls, in the same order, also one whose shard is all "
    "zeros",
    hints=(
        "Compare the lines that are printed. By which number does rank 0 divide its shard, and "
        "by which does rank 1 multiply it?",
        "The largest magnitude of the whole weight is the largest of the ranks' largest "
        "magnitudes: dist.all_reduce has an operation for that, dist.ReduceOp.MAX.",
        "Give `group` to this call, too. And where the largest magnitude is 0, use 1 as the scale.",
    ),
)  # fmt: skip
