"""The right results for workers_in_turn.py, and the results of known mistakes."""

from .workers_in_turn import ENOUGH, MOMENTUM, RATE, gradient_of, model_of, weights_of


def compute_known(plan, place) -> dict:
    return {"first": weights_of(model_of(place))}


def order_of(trial) -> list:
    """Return (worker, number of its push), or None, for each step of the optimizer."""
    pushes = {
        tuple(gradient_of(worker, number).tolist()): (worker, number)
        for worker in trial.case.ranks[1:] for number in range(ENOUGH)
    }  # fmt: skip
    return [None if step is None else pushes.get(tuple(step.tolist())) for step in trial[0].steps]


def versions_of(trial) -> list:
    """Return the first weights, and those after each of these pushes, in one process."""
    versions, velocity = [trial[0].first], 0.0
    for push in order_of(trial):
        velocity = MOMENTUM * velocity + gradient_of(*push)
        versions.append(versions[-1] - RATE * velocity)
    return versions


def version_wanted(order, worker, number) -> int:
    """Return the version of the weights for a worker's push: the one after its previous push."""
    return 1 + order.index((worker, number - 1)) if number else 0


def versions_of_pushes(trial) -> list[int]:
    return [version_wanted(order_of(trial), *push) for push in order_of(trial)]
