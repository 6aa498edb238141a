"""Replicas that start equal."""

from coursekit.kit import GROUP, Equals, RankCase, RankExercise, World, never
from coursekit.kit.observed_calls import NOT_WAITED

from ..shared.large_models_truth import Travels, right_if_large
from ..shared.state_snapshot_truth import leaves_alone
from .cases import LAST_WORLD, start_on_rank
from .truth import (
    copies_of_model,
    is_too_long,
    list_found,
    mistakes,
    need_one_broadcast,
    read_first_rank,
    remark,
    start_of,
    why_all_agree,
)

EXERCISE = RankExercise(
    "start_equal",
    lab="simple_ddp",
    cases=[
        RankCase(World(2)),
        RankCase(World(1)),
        RankCase(World(3)),
        RankCase(LAST_WORLD),
        RankCase(GROUP),
    ],
    work=start_on_rank,
    known=start_of,
    found=list_found,
    facts=[
        never("waiting", "nobody waits for {} of the broadcasts", NOT_WAITED),
        Equals("after", read_first_rank, mistakes, "the value", why_all_agree),
        never(
            "replaced",
            lambda names: f"the values are right, but {names[0]} is a new object",
            "an optimizer made before, or a tied layer, still holds the parameter that was "
            "there: write the values into it, and leave the object in its place",
        ),
        never(
            "switched",
            lambda names: f"the values are right, but of {names[0]} requires_grad has changed",
            "a frozen parameter stays frozen, and the others stay trainable: only values are given",
        ),
        leaves_alone,
        right_if_large(lambda trial, place: trial[0].large_own, "the value"),
        Travels(copies_of_model),
        need_one_broadcast,
        remark,
    ],
    right="parameters and buffers are rank 0's",
    errors={
        "not part of group": "rank 0 of the world need not be in a group. The group's first member "
        "is meant, whatever its rank in the world: group_src=0",
        "leaf Variable": "autograd watches over parameters: write into tensor.detach(), which "
        "shares their memory, or under torch.no_grad()",
        "NoneType": "there are no gradients yet, `.grad` is None: the weights themselves are to be "
        "equal",
        "to the desired output type Long": "buffers may hold whole numbers, of which there is no "
        "mean. Nothing is to be averaged: everybody gets what rank 0 has",
    },
    explain=is_too_long,
    on_hang="not all ranks make the same calls, with the same source. The source is one rank for "
    "all, not each rank itself; and whoever only receives makes the call, too",
    hints=(
        "What does a model hold besides its parameters? And does it matter here whether a "
        "parameter is trained?",
        "model.parameters() and model.buffers() give the tensors themselves, each once. "
        "dist.broadcast writes into the tensor that it is given, on all ranks but the source.",
        "For each of them: dist.broadcast(tensor.detach(), group_src=0, group=group). "
        "`group_src` is a rank within the group; `src` would be one of the world.",
    ),
)
