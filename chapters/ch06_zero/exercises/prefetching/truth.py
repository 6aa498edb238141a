"""The right weights, and the report on a right trial."""

from ..shared.one_process_reference import Stack
from ..shared.one_process_reference_truth import weights_alone
from .cases import STEPS


def weights_of(trial, place):
    """Return the right values of the trained parameters after each step."""
    trained = [name for name, p in Stack().named_parameters() if p.requires_grad]
    steps = weights_alone(Stack, tuple(STEPS[: trial.case.steps]), first=1)
    return {step: {name: of[name].flatten() for name in trained} for step, of in steps.items()}


def describe_result(trial) -> str:
    plan = trial.case
    if plan.thread:
        return "as one process"
    return f"as one process; {plan.depth} ahead, and reductions travel behind the computing"
