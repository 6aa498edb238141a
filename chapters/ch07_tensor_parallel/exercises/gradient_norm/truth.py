"""The results of known mistakes, and the limit of the bytes."""

import math

from coursekit.kit import Wrong

from .cases import FROZEN, KINDS, MODELS, flat, gradient_of, length, norm_of

MISSING = {
    "all are cut": "no parameter of this model is whole",
    "all are whole": "no parameter of this model is cut",
    "no gradient at all": "this model has no gradient at all",
    "the first rank has no gradient": "one rank has no gradient here",
}

PLAIN = (  # parts of error messages about a number where a tensor is needed
    "'int' object has no attribute", "'float' object has no attribute",
    "argument 'tensor' must be Tensor",
)  # fmt: skip

OF_NOTHING = {  # {part of an error message about something missing: diagnosis}
    "non-empty": "nothing can be stacked, or put together, then",
    **dict.fromkeys(PLAIN, "sum() of nothing is the number 0, not a tensor. torch.as_tensor makes "
                           "one of it"),
    "EnforceNotMet": "what it brings differs in length from what the others bring. A tensor of its "
    "own, such as torch.zeros(()), is of float32 unless told otherwise: it needs the gradients' "
    "dtype",
}  # fmt: skip

NO_GRADIENT = (
    "a frozen parameter, or one that had no part in the loss, has no gradient: its `.grad` is None"
)


def norm_of_sums(trial) -> float:
    """Return the norm if the different parts of a gradient were added up, number by number."""
    names = [name for name in MODELS[trial.case.args[0]] if KINDS[name][1] is not None]
    of_names = ([gradient_of(name, place) for place in range(trial.n)] for name in names)
    parts = [[part for part in of if part is not None] for of in of_names]
    return norm_of([sum(of) for of in parts if of])


def wrong_lengths(trial, place):
    if trial.case.is_group:
        return {}
    n, together = trial.n, flat(trial, range(trial.n), True)
    rest, own = flat(trial, [0], False), [norm_of(flat(trial, [k], True)) for k in range(n)]
    cut, whole, right = norm_of(together), norm_of(rest), length(trial, place)
    tied = [part for k in range(n) for part in [gradient_of("letters", k)]
            if "letters" in MODELS[trial.case.args[0]]]  # fmt: skip
    of_ranks = [math.hypot(of, whole) for of in own]
    lengths = sum(norm_of([x]) for x in together + rest)
    added = (
        "lengths are not added: the squares are, of all parameters and all ranks, and the root "
        "comes at the very end"
    )

    def count_as_whole(dim):
        """Return the norm if parameters that are cut along this dim counted as whole."""
        cut = flat(trial, range(n), (1 - dim,)) + flat(trial, [place], (dim,))
        return norm_of(cut + rest)

    elements = (
        "the gradients of different parts are added up, number by number. They belong to different "
        "weights: square first, then sum"
    )
    return {
        "the gradient of a parameter that is whole is the same on every rank, and here it counts n "
        "times: only the squares of the cut ones are to be summed over the ranks":
            math.hypot(cut, math.sqrt(n) * whole),
        "the gradient of a parameter that is whole is the same on every rank already, and here it "
        "is added up over the ranks": math.hypot(cut, n * whole),
        "this is what this rank alone can see: of a cut parameter the others have the rest. Each "
        "rank finds another length so, and clips differently": of_ranks[place],
        "what is cut along dimension 0 counts as whole, and of that this rank's part alone is in "
        "it: a cut_dim of 0 is one, though 0 is false in Python": count_as_whole(0),
        "what is cut along dimension 1 counts as whole, and of that this rank's part alone is in "
        "it: a cut_dim may be 0 or 1": count_as_whole(1),
        "a frozen parameter is left out, though it has a gradient: it was frozen after a backward. "
        "What counts is p.grad, not p.requires_grad":
            norm_of(flat(trial, range(n), True, FROZEN) + rest),
        "this is the square of the length: the root is missing": right**2,
        added: sum(own) + whole,
        f"{added} (added are that of all cut ones and that of the whole ones)": cut + whole,
        f"{added} (added are those of the ranks' parts)": math.hypot(sum(own), whole),
        f"{added} (added are those of all that each rank has)": sum(of_ranks),
        f"{added} (added are those of all parameters)": lengths,
        "this is the root of a sum of lengths: lengths are squared before they are added":
            math.sqrt(lengths),
        "each rank has other numbers of the gradient: their squares are summed, there is no mean":
            math.hypot(cut / math.sqrt(n), whole),
        "this is the mean of the lengths that the ranks find alone: squares are summed, there is "
        "no mean": sum(of_ranks) / n,
        "the parameters that are whole are left out: they count, too, once": cut,
        "the parameters that are cut are left out: they count, too": whole,
        "a tied parameter counts twice, under both of its names; model.parameters() has it once":
            norm_of(together + tied + rest),
        "this adds up absolute values; a length is the root of the sum of squares":
            norm_of(together + rest, power=1.0),
        "of each rank's part only the longest counts; all of them are part of one long vector":
            math.hypot(max(own), whole),
        elements: math.hypot(norm_of_sums(trial), whole),
        f"{elements}. (Those of whole parameters are the same on every rank, and are added up, "
        "too)": math.hypot(norm_of_sums(trial), n * whole),
    }  # fmt: skip


def needs_few_bytes(trial):
    for place, calls in enumerate(trial.calls):
        most = max([call.tensor_bytes for call in calls], default=0)
        if most > 16:
            what = f"{trial.name_of_rank(place)} hands in {most} bytes, expected 8"
            why = "of each rank's parts the others need one number alone: the sum of their squares"
        elif len(calls) > 2:
            what = f"{trial.name_of_rank(place)} communicates {len(calls)} times, expected once"
            why = (
                "numbers so small cost no bytes, but a latency each: add up first what this rank "
                "has, then over the ranks once"
            )
        else:
            continue
        raise Wrong(f"cost, {trial.case}", f"the number is right, but {what}", why)


def why_something_is_missing(case, error) -> str:
    known = (why for words, why in OF_NOTHING.items() if words in str(error))
    why = next(known, "") if case.args[0] in MISSING else ""
    return why and f"{MISSING[case.args[0]]}: {why}"
