"""The right results for zero3_training.py, and the results of known mistakes."""

from .one_process_reference_truth import weights_alone
from .zero3_training import STEPS


def weights_of(trial, place):
    """Return the right weights after each step."""
    return weights_alone(trial.case.make, tuple(STEPS[: trial.case.steps]))
