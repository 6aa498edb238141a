"""The report on a right trial."""

from ..shared.stages import BACKWARDS


def describe_result(trial) -> str:
    if hasattr(trial[0], "models"):
        models = trial[0].models
        each = models["backward"] / BACKWARDS
        return f"a backward sends {each:.2f} models, a step {models['step']:.2f}"
    return "units in turn, as in one process"
