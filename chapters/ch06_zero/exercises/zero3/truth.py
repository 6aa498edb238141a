"""The right bytes of a step, and the diagnoses of wrong ones."""

from types import SimpleNamespace

from pedagogy_lib.basics.units import format_count

from ..shared.one_process_reference import Stack
from ..shared.zero3_training import Plan, why_absent
from .cases import LARGE


def compute_expected_bytes(n) -> SimpleNamespace:
    """Return the right bytes of a rank.

    once     bytes sent in one all-gather or reduce-scatter of the model
    at_rest  bytes of parameters after a step
    at_most  peak bytes of parameters
    """
    model = Stack(**LARGE)
    frozen = sum(p.nbytes for p in model.parameters() if not p.requires_grad)
    layers = [sum(p.nbytes for p in layer.parameters() if p.requires_grad)
              for layer in model.layers]  # fmt: skip
    rest = sum(p.nbytes for p in model.parameters()) - frozen - sum(layers)
    *layers, rest = (n * 8 * -(-size // (8 * n)) for size in (*layers, rest))  # with padding
    at_rest = frozen + (rest + sum(layers)) // n
    once = (n - 1) / n * (rest + sum(layers))
    return SimpleNamespace(once=once, at_rest=at_rest, at_most=at_rest + rest + max(layers))


def count_models_sent(of, n) -> list[float]:
    """Return the bytes sent in each phase, as multiples of (n-1)/n of the model."""
    return [nbytes / compute_expected_bytes(n).once for nbytes in of.sent]


def cost_faults(trial):
    right = compute_expected_bytes(trial.n)
    costs = [] if isinstance(trial.case, Plan) else list(trial)
    for place, of in enumerate(costs):
        sent, who = count_models_sent(of, trial.n), trial.name_of_rank(place)
        if abs(sum(sent) - 3) >= 0.03:
            what = "sent, in times (n-1)/n of the model: forward {:.2f}, backward {:.2f}, "
            yield f"{who}: {what}step {{:.2f}}; expected 1, 2 and 0".format(*sent), why_sent(sent)
    for place, of in enumerate(costs):
        parameters, gradients = of.at_rest
        if parameters != right.at_rest or gradients:
            yield (
                f"{trial.name_of_rank(place)}: after a step there are {parameters:,} bytes of "
                f"parameters and {gradients:,} of gradients, expected {right.at_rest:,} and 0",
                "each rank keeps its shards, and nothing else of the parameters",
            )
    for place, of in enumerate(costs):
        if max(of.at_most) > right.at_most:
            yield (
                f"{trial.name_of_rank(place)}: there are up to {max(of.at_most):,} bytes of "
                f"parameters, expected at most {right.at_most:,}: the shards, one layer, and what "
                "is in none",
                "the numbers are right, and more units are whole at a time than there have to be: "
                "one is gathered when its own backward begins, and lets go when its gradients are "
                "reduced",
            )


def describe_result(trial) -> str:
    if isinstance(trial.case, Plan):
        disposed = "" if trial.case.prefetch else ", and nothing stays whole"
        return f"{format_count(trial.case.steps, 'step')} as on one process{disposed}"
    right = compute_expected_bytes(trial.n)
    return (
        f"{3 * right.once / 1e6:.2f} MB in a step from each rank, 3 times half of the model; "
        f"{right.at_rest:,} bytes of parameters, and in a step two units more at most"
    )


def why_sent(sent) -> str:
    forward, backward, step = sent
    if step > 0.01:
        return "nothing travels in step(): each rank changes its shards, the next forward gathers"
    if forward < 0.99 or backward < 1.99:
        return "a unit is gathered for its forward, and again for its backward; then it is reduced"
    return (
        "the numbers are right, and something travels again that is there already: need() knows "
        "what is there, gather() does not"
    )


def why_it_failed(case, error) -> str:
    """Return the diagnosis of a process that died because a backward read freed memory."""
    return why_absent(case, "backward") if "SIGSEGV" in str(error) else ""
