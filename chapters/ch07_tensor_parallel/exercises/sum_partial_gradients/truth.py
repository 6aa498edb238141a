"""The right results, and the results of known mistakes."""

from pedagogy_lib.basics.closeness import close

from .cases import WITHOUT, ToyModel, gradient_of, is_turned

CUT_DIMS = {name: getattr(p, "cut_dim", None) for name, p in ToyModel().named_parameters()}


def is_whole(name) -> bool:
    return CUT_DIMS[name] is None


def sums(trial, place, is_meant=is_whole, result=sum) -> dict:
    """Return a rank's gradients, where `result` replaces those that is_meant(name) selects.

    result  takes the gradients of all ranks
    """
    every = {name: [gradient_of(name, k, trial.case) for k in range(trial.n)] for name in CUT_DIMS}
    return {name: result(of) if is_meant(name) and name not in WITHOUT else of[place]
            for name, of in every.items()}  # fmt: skip


def wrong_sums(trial, place):
    if trial.case.is_group:
        return {}
    n, right = trial.n, sums(trial, place)
    own = {name: gradient_of(name, place, trial.case) for name in CUT_DIMS}
    of_rank_0 = trial[place].after if place and not close(trial[place].after, right) else own
    return {
        "nothing has changed. dist.all_reduce adds up in place; a function that returns the sum "
        "leaves p.grad as it is": own,
        "a mean is not what is missing: each rank has seen a piece of the context, and the loss of "
        "all of it is one. Its gradient is the sum":
            sums(trial, place, is_whole, lambda every: sum(every) / n),
        "the gradients of parameters that are cut are added up, too. Each rank has its own part of "
        'these, and the gradient of it is complete: not hasattr(p, "cut_dim")':
            sums(trial, place, lambda name: True),
        "parameters that are cut along dim 0 are added up, too: 0 counts as False. Ask for the "
        'attribute: hasattr(p, "cut_dim")': sums(trial, place, lambda name: not CUT_DIMS[name]),
        "it is the other way round: the cut ones are complete, and the whole ones are added up":
            sums(trial, place, lambda name: not is_whole(name)),
        "places.weight is summed twice: two modules have it, and model.parameters() gives it once":
            right | {"places.weight": n * right["places.weight"]},
        "these are rank 0's gradients: a broadcast copies, and does not add up":
            sums(trial, place, is_whole, lambda every: every[0]),
        "what comes after a parameter without a gradient is not summed: pass over that one alone":
            sums(trial, place, lambda name: is_whole(name) and name in list_before_unused()),
        "rank 0 alone has the sums. All ranks go on with them: an all-reduce is needed":
            of_rank_0 if place else right,
    } | forgotten(trial, place, own, right) | find_left_out(trial, place, own, right)  # fmt: skip


def forgotten(trial, place, own, right) -> dict:
    """Return the mistake of a sum left in a copy, for cases with non-contiguous gradients."""
    names = [name for name in CUT_DIMS if is_whole(name) and is_turned(trial.case, name)
             and name not in WITHOUT]  # fmt: skip
    return {
        f"the gradient of {', '.join(names)} is not contiguous, so contiguous() or flatten() "
        "returns a copy. The sum is in that copy, and has to go back into p.grad":
            right | {name: own[name] for name in names},
    } if names else {}  # fmt: skip


def list_before_unused() -> list[str]:
    return list(CUT_DIMS)[: list(CUT_DIMS).index("unused.weight")]


def find_left_out(trial, place, own, right) -> dict:
    """Return the diagnosis if gradients are not summed, or those of cut parameters changed."""
    wrong = [name for name in CUT_DIMS
             if not all(close(of.after[name], sums(trial, k)[name])
                        for k, of in enumerate(trial))]  # fmt: skip
    names = ", ".join(wrong)
    if not all(map(is_whole, wrong)):
        return {f"wrong are {names}: the cut ones are to stay as they are": trial[place].after}
    return {
        f"not added up are {names}. Neither names nor kinds of layers tell what is whole: norms "
        "are, biases after a sum, the positions' embedding. What is cut has cut_dim":
            right | {name: own[name] for name in wrong},
    } if wrong else {}  # fmt: skip


def bytes_of_sums(trial):
    """Return the bytes of the sums, in which zeros may travel for missing gradients."""
    each = {name: p.nbytes for name, p in ToyModel().named_parameters() if is_whole(name)}
    return 2 * (trial.n - 1) * sum(each.values()) / trial.n
