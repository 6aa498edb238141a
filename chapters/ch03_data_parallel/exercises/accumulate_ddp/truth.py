"""The right results, and the results of known mistakes."""

from coursekit.kit.reference_training import WRONG_LOSSES, model_of, uneven_loss

from ..shared.micro_batches import pieces_of
from ..shared.micro_batches_truth import make_send_reason, shares, sum_weighted, table_of
from .cases import CALLS, name_of

SAMPLES = 4  # per micro-batch

CAUSE = (
    ". DistributedDataParallel averages in a backward whose forward went through `ddp`, and was "
    "not under no_sync()"
)

NOT_AVERAGED = ("nothing is averaged", "the last micro-batch is not averaged")


def tables(trial, loss_fn=uneven_loss):
    """Return {call: gradients of micro-batches, (ranks, micro-batches, parameters)}."""
    return {name_of(number): table_of(model_of(), pieces_of(trial.n, step, number), loss_fn)
            for step, number in enumerate(CALLS)}  # fmt: skip


def mean(trial, place):
    return {call: table.mean((0, 1)) for call, table in tables(trial).items()}


def mistakes(trial, place):
    found = {why: {call: table.mean((0, 1)) for call, table in tables(trial, loss_fn).items()}
             for why, loss_fn in WRONG_LOSSES.items()}  # fmt: skip
    for call, table in tables(trial).items():
        for sentence, share in shares(*table.shape[:2]).items():
            gradient = sum_weighted(table, share, place)
            cause = CAUSE if sentence.startswith(NOT_AVERAGED) else ""
            found.setdefault(sentence + cause, {})[call] = gradient
    return found


why_so_many_bytes = make_send_reason(
    lambda trial: CALLS[0],
    "all {number} backwards have sent theirs: either nothing tells DistributedDataParallel to be "
    "silent, or no_sync() comes too late. When does it prepare for what a backward has to send?",
    "{times} times the bytes of one all-reduce are sent: all micro-batches but the last have to do "
    "without",
)
