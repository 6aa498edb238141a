"""Ranks that are behind get the state of a rank that is furthest."""

from coursekit.kit import RankCase, RankExercise, World, complains

from .cases import GROUP_OF_3, OLD, catch
from .truth import (
    DTYPES,
    GIVES_NOTHING,
    NO_LIST,
    NO_TENSOR,
    PLACES,
    SHAPES,
    UNKNOWN,
    describe_trial,
    explain,
    faults,
    need_few_bytes,
)

EXERCISE = RankExercise(
    "catch_up",
    lab="keep_training",
    cases=[
        RankCase(World(3), ((7, 7, 7),), ", all equally far"),
        RankCase(World(3), ((5, 0, 5),), ", after 5, 0 and 5 steps"),
        RankCase(World(4), ((0, 6, 7, 0),), ", after 0, 6, 7 and 0 steps"),
        RankCase(World(3), ((0, 0, 9),), ", after 0, 0 and 9 steps"),
        RankCase(World(4), ((4, 5, 4, 5),), ", after 4, 5, 4 and 5 steps"),
        RankCase(World(2), ((OLD, OLD + 1),), f", after {OLD:,} and {OLD + 1:,} steps"),
        RankCase(World(1), ((3,),), ", alone"),
        RankCase(GROUP_OF_3, ((4, 0, 0),), ", its first one is furthest"),
        RankCase(GROUP_OF_3, ((0, 3, 4),), ", its last one is furthest"),
    ],
    work=catch,
    found=lambda case: ("steps", "owners", "weights", "loads"),
    facts=[complains(faults), need_few_bytes],
    right=describe_trial,
    errors={
        "has no attribute": UNKNOWN,
        **dict.fromkeys(("Tensors must have same dtype", "with different dtypes"), DTYPES),
        **dict.fromkeys(("invalid output tensor list", "list assignment index out of"), PLACES),
        "invalid tensor size": SHAPES,
        "type torch.Tensor": NO_TENSOR,
        "'NoneType' has no len()": NO_LIST,
        "'NoneType' object is not": GIVES_NOTHING,
    },
    explain=explain,
    hints=(
        "Who can know which rank is furthest? What does each have to tell the others first?",
        "Gather training.steps from all: as a tensor, or with dist.all_gather_object. All see the "
        "same numbers, so all find the same source, and all know whether a state is needed.",
        "dist.broadcast_object_list([state], group_src=source, group=group) sends a dict; on the "
        "source the list has its state, on the others None. Who was behind loads what has come.",
    ),
)  # fmt: skip
