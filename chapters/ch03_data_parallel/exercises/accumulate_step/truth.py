"""The right results, and the results of known mistakes."""

from torch import nn

from coursekit.kit import complains
from coursekit.kit.reference_training import RATE, WRONG_LOSSES, flat, model_of, uneven_loss
from pedagogy_lib.basics.closeness import close, format_gap

from ..shared.large_models_truth import compute_known_layers
from ..shared.micro_batches import pieces_of
from ..shared.micro_batches_truth import make_send_reason, shares, sum_weighted, table_of
from .cases import LEFT, STEPS


def compute_known_large(case, place) -> dict:
    return compute_known_layers(place, uneven_loss, *case.args) if case.world.size == 3 else {}


def list_found(case):
    return ("followed", "weights") + ("large",) * (case.world.size == 3)


def steps_alone(trial) -> list:
    """Return one process's steps: gradients (ranks, micro-batches, parameters), mean, weights."""
    model, found = model_of(), []
    for step in range(STEPS):
        table = table_of(model, pieces_of(trial.n, step, *trial.case.args))
        mean = table.mean((0, 1))
        weights = flat(model.parameters()) - RATE * mean
        nn.utils.vector_to_parameters(weights, model.parameters())
        found.append((table, mean, weights))
    return found


def means(trial, place):
    return [mean for _, mean, _ in steps_alone(trial)]


def mistakes(trial, place):
    tables, right = [table for table, _, _ in steps_alone(trial)], means(trial, place)
    n, number = tables[0].shape[:2]
    return {
        why: [sum_weighted(table, share, place) for table in tables]
        for why, share in shares(n, number).items()
    } | {
        why: [table_of(model_of(), pieces_of(n, 0, number), loss_fn).mean((0, 1)), *right[1:]]
        for why, loss_fn in WRONG_LOSSES.items()  # only the first step is looked at
    } | {
        "all ranks follow rank 0's gradient: the samples of the others count nothing":
            [table[0].mean(0) for table in tables],
        "what was in `.grad` before the call is still in it. Set gradients back before the "
        "micro-batches, or put new ones in their place":
            [mine + before for mine, before in zip(right, [0 * right[0] + LEFT, *right])],
    }  # fmt: skip


def describe_replica_gap(trial, place=0) -> str:
    """Describe how far the replicas are from each other or, if they agree, from one process."""
    for step, (_, _, alone) in enumerate(steps_alone(trial)):
        after = [of.weights[step] for of in trial]
        apart = next((rank for rank in range(trial.n) if not close(after[rank], after[0])), None)
        if apart:
            off = format_gap(after[0], after[apart])
            return f"after step {step} the weights of ranks 0 and {apart} differ by up to {off}"
        if not close(after[0], alone):
            off = format_gap(after[0], alone)
            return f"after step {step} the weights are off by up to {off} on every rank"
    return "the weights are right, but the steps follow other gradients than the mean"


@complains
def weights_follow_gradients(trial):
    agree = all(close(of.weights, trial[0].weights) for of in trial)
    if agree and not all(close(of.followed, trial[0].followed) for of in trial):
        why = (
            "the replicas agree, and each step has followed the rank's own gradients: the weights "
            "are averaged instead. With plain SGD that comes to the same, and with most optimizers "
            "it does not"
        )
        yield describe_replica_gap(trial), why
    for step, (_, mean, weights) in enumerate(steps_alone(trial)):
        if not all(close(of.followed[step], mean) for of in trial):
            return
        if not all(close(of.weights[step], weights) for of in trial):
            why = "the gradients that optimizer.step() finds are right, and something else changes "
            yield describe_replica_gap(trial), why + "the weights"


why_so_many_bytes = make_send_reason(
    lambda trial: trial.case.args[0],
    "of {number} micro-batches of a large model the gradients are sent {number} times: once for "
    "each. A mean of sums is the sum of means: which of them is cheaper to send?",
    "{times} times the bytes of one all-reduce are sent. Accumulate first; then each gradient has "
    "to travel once",
)
