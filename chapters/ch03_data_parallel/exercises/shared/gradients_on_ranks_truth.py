"""The right results for gradients_on_ranks.py, and the results of known mistakes."""

from functools import cache

from coursekit.kit.reference_training import SAMPLES, EveryKind, equal_models, state_of

from ..start_equal.cases import fill
from .gradients_on_ranks import COST, EVERYWHERE, TRAINING, give_gradients, gradients_of, train
from .mean_costs_truth import compute_known_large


@cache
def compute_known(case, place) -> dict:
    """Return a rank's initial state, or the weights of one process that trains with all samples."""
    (tried,) = case.args
    if tried == TRAINING:
        (alone,) = equal_models(1)
        train(alone, slice(None), 1 / SAMPLES, lambda: None)
        return {"alone": state_of(alone)}
    model = fill(EveryKind(), place)
    give_gradients(model, place, tried != EVERYWHERE)
    found = {"before": state_of(model), "local": gradients_of(model)}
    return found | (compute_known_large(place) if tried == COST else {})


def list_found(case):
    (tried,) = case.args
    if tried == TRAINING:
        return ("trained",)
    return ("after", "grad", "large") if tried == COST else ("after", "grad")
