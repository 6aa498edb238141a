"""The right results, and the results of known mistakes."""

from ..shared.meshes import lists_along
from .cases import OF_EXPERTS, gradient_of


def sum_over_axes(trial, place, of_experts, of_others) -> dict:
    """Return sums of gradients; `of_experts` and `of_others` are each (axes, divisor)."""
    sizes, found = trial.case.args[0], {}
    for name in trial.case.args[1]:
        axes, divisor = of_experts if name in OF_EXPERTS else of_others
        ranks = next(r for r in lists_along(axes, sizes) if place in r) if axes else [place]
        found[name] = sum(gradient_of(name, rank) for rank in ranks) / divisor
    return found


def truth(trial, place):
    return sum_over_axes(trial, place, ("edp", trial.n), (("edp", "ep"), trial.n))


def mistakes(trial, place):
    n, sizes = trial.n, trial.case.args[0]
    others, all_axes = (("edp", "ep"), n), ("edp", "ep")
    return {
        "an expert's gradient is divided by the number of its copies. But all ranks of its group "
        "have sent tokens to it, and their gradients are in it already, as a sum: the mean over "
        "all samples is that sum, divided by all ranks": sum_over_axes(
            trial, place, ("edp", sizes["edp"]), others
        ),
        "experts are added up over all ranks. Along ep the ranks have different experts, whose "
        "gradients do not belong together": sum_over_axes(trial, place, (all_axes, n), others),
        "experts are added up along ep. There, ranks have different experts; the copies of one "
        "expert are along edp": sum_over_axes(trial, place, ("ep", n), others),
        "what is on every rank is averaged over its edp group alone: all ranks have samples of "
        "their own": sum_over_axes(trial, place, ("edp", n), ("edp", sizes["edp"])),
        "what is on every rank is added up over its edp group alone: all ranks have samples of "
        "their own": sum_over_axes(trial, place, ("edp", n), ("edp", n)),
        "an expert's gradient is a sum over its copies, and is not divided": sum_over_axes(
            trial, place, ("edp", 1), others
        ),
        "nothing is divided: these are sums": sum_over_axes(
            trial, place, ("edp", 1), (all_axes, 1)
        ),
        "an expert's gradient is divided, but not added up over its copies": sum_over_axes(
            trial, place, ((), n), others
        ),
        "gradients are as they were": sum_over_axes(trial, place, ((), 1), ((), 1)),
        "an expert's gradient is divided by the ranks of its group along ep: in its sum are all "
        "ranks": sum_over_axes(trial, place, ("edp", sizes["ep"]), others),
    }


def faults(trial):
    for place, of in enumerate(trial):
        gone = [name for name, gradient in of.gradients.items() if gradient is None]
        if gone:
            yield (
                f"{trial.name_of_rank(place)}: .grad of {gone[0]} is None",
                "each gradient stays, as a mean",
            )
        if of.changed:
            yield (
                f"{trial.name_of_rank(place)}: the parameters have changed",
                "only p.grad is to change",
            )


def describe_wrong_gradients(trial, place) -> str:
    got, wanted = trial[place].gradients, truth(trial, place)
    wrong = [
        name
        for name in trial.case.args[1]
        if got[name] is None or not got[name].equal(wanted[name])
    ]
    kinds = ["an expert" if name in OF_EXPERTS else "what all ranks have" for name in wrong]
    told = " and of ".join(dict.fromkeys(kinds))
    return f"{trial.name_of_rank(place)}: wrong is the gradient of {told}"
