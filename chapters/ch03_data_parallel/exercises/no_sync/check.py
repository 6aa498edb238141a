"""Backwards whose gradients are not sent."""

from coursekit.kit import Equals, RankCase, RankExercise, World, never

from ..shared.mean_gradients import mean_of
from ..shared.state_snapshot_truth import leaves_alone
from .cases import UNDER, send_nothing
from .truth import (
    NOT_A_MANAGER,
    check_synchronizing,
    compute_known,
    each_bucket_once,
    mistakes,
    why_called,
)

EXERCISE = RankExercise(
    "no_sync",
    lab="data_parallel",
    needs=("ddp",),
    cases=[RankCase(World(2))],
    work=send_nothing,
    known=compute_known,
    facts=[
        never("called", lambda names: f"it calls ddp.{names[0]}", why_called),
        check_synchronizing,
        never("under", "{} all-reduces begin under it",
              'synchronizing is False then: check("{{ddp}}") comes first'),
        each_bucket_once,
        Equals("grad", mean_of, mistakes, "`.grad`"),
        leaves_alone,
    ],
    right=f"{len(UNDER)} backwards under it send nothing, the next one sends the sums",
    errors={
        "'NoneType' object is not an iterator": "what is to run under it runs at a `yield`, and "
        "there is none",
        "'no_sync'": "DistributedDataParallel has a method of this name. Ours has `synchronizing`, "
        "and this function is to make use of it",
        "context manager": NOT_A_MANAGER,
        "__enter__": NOT_A_MANAGER,
        "generator didn't stop": "there is a second `yield`: a context manager has exactly one",
        "generator didn't yield": "it ends without having come to its `yield`",
    },
    hints=(
        "DDP has a switch for it already: ddp.synchronizing. What runs under `with` runs at "
        "the `yield`.",
        "Keep the value that is there before, set False, yield, put the value back. And if "
        "what runs under it raises?",
        "try: yield, finally: put it back.",
    ),
)  # fmt: skip
