"""The right results, and the results of known mistakes."""

from ..shared.unflushed import NOT_THERE
from ..shared.versions_truth import replay_script

BY_NAMES = "gradients_of returns a dictionary {name: gradient}, with the names of the weights"

KEEP_NEXT = "self.keep comes next, and needs them: y, and x as a leaf"


def mistakes(place):
    return {
        "the gradients are those at the newest weights. This micro-batch went forward through "
        "older ones, and goes back through the very same": replay_script(
            place, back="newest"
        ).weights,
        "the gradients of one version add up: backward() adds to what is in `.grad`, and another "
        "micro-batch has gone through the same tensors. Each begins without "
        "gradients": replay_script(place, adds=True).weights,
        "no weight has moved: zero_() clears the very tensors that gradients_of hands out. A "
        "weight whose `.grad` becomes None only lets go of them": replay_script(
            place, step=0.0
        ).weights,
    }


def why_no_key(case, error) -> str:
    cause = getattr(error, "exception", None)
    if not isinstance(cause, KeyError):
        return ""
    return BY_NAMES if cause.args and isinstance(cause.args[0], str) else NOT_THERE
