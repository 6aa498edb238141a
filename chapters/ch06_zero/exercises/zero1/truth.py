"""The report on a right trial, and the diagnosis of too much traffic."""


def describe_result(trial) -> str:
    if hasattr(trial[0], "models"):
        return f"backwards send nothing, a step {trial[0].models['step']:.2f} models"
    return "as in one process"


STATE_TRAVELS = (
    "too much travels: as much as the optimizer's state of Adam has, which is two models. Nobody "
    "needs the state of others: parameters alone are gathered"
)
