"""The length of a gradient of which each rank has a part: exercise 7.14.

The truth is what torch finds in one process that has all of it.
"""

import math
from functools import partial

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close, close_in_float32
from ...course.checking import Exercise, Wrong
from ..kit.groups import WORLDS, Calls, name_of, try_groups
from ..kit.on_ranks import IN_A_GROUP
from ..kit.outcomes import NO_RETURN
from ..kit.trials import numbers
from ..kit.worlds import explain_by

# {name: its shape on a rank, along which dim it is cut}; None: every rank has all of it
KINDS = {
    "letters": ((3, 2), 0), "up": ((4, 2), 0), "up_bias": ((4,), 0), "down": ((2, 4), 1),
    "unused": ((5,), 0), "seldom": ((2, 3), 0),
    "norm": ((2,), None), "down_bias": ((2,), None), "scale": ((), None), "frozen": ((3,), None),
}  # fmt: skip
WITHOUT = ("unused", "frozen")  # have never a gradient; `seldom` has none on rank 0
# {case: the names that the model has}
MODELS = {
    "cut and whole parameters": list(KINDS),
    "all are cut": ["letters", "up", "down"],
    "all are whole": ["norm", "down_bias"],
    "no gradient at all": list(WITHOUT),
}
PLAIN = (  # words of an error: a number where a tensor is needed
    "'int' object has no attribute", "'float' object has no attribute",
    "argument 'tensor' must be Tensor",
)  # fmt: skip
NORM_ERRORS = {
    "'NoneType' object": "a frozen parameter, or one that had no part in the loss, has no "
    "gradient: its `.grad` is None",
    "'NoneType'": "a frozen parameter, or one that had no part in the loss, has no gradient: its "
    "`.grad` is None",
    "has no attribute 'cut_dim'": "a parameter that is not cut has no such attribute: hasattr",
    **dict.fromkeys(PLAIN, "summed and sqrt() need a tensor, and this is a plain number: "
                           "torch.as_tensor makes one of it"),
}  # fmt: skip
MISSING = {
    "all are cut": "no parameter of this model is whole",
    "all are whole": "no parameter of this model is cut",
    "no gradient at all": "this model has no gradient at all",
}
OF_NOTHING = {  # {words of an error where something is missing: what they mean}
    "non-empty": "nothing can be stacked, or put together, then",
    **dict.fromkeys(PLAIN, "sum() of nothing is the number 0, not a tensor. torch.as_tensor makes "
                           "one of it"),
}  # fmt: skip
SAME_CALLS = (
    "every rank makes the same calls. Here one rank has no gradient where the others have one: "
    "with a call for each parameter they lose each other. Add up first, then a single call"
)


class Part(nn.Module):
    """What a rank has of a model, with gradients. `output` is tied to `letters`."""

    def __init__(self, names, place, n):
        super().__init__()
        for name in names:
            self.register_parameter(name, parameter_of(name, place, n))
        if "letters" in names:
            self.output = self.letters


def parameter_of(name, place, n):
    """A parameter that is cut has the marks that the lab's part_of leaves."""
    shape, dim = KINDS[name]
    parameter = nn.Parameter(torch.ones(shape, dtype=torch.float64), name != "frozen")
    parameter.grad = gradient_of(name, place)
    if dim is not None:
        parameter.cut_dim, parameter.cut_sizes = dim, [shape[dim]] * n
    return parameter


def gradient_of(name, place) -> torch.Tensor | None:
    """Whole numbers: of a cut parameter others on each rank."""
    if name in WITHOUT or (name == "seldom" and place == 0):
        return None
    shape, dim = KINDS[name]
    return numbers(0 if dim is None else place, shape, torch.float64, [*KINDS].index(name)) - 3


# ---- On a rank -------------------------------------------------------------------------------


def measure_on_rank(answer, group) -> list[dict]:
    found = []
    for case, names in MODELS.items():
        try:
            found.append(measure_one(answer, group, names))
        except Exception as error:
            error.case, error.before = case, found
            raise
    return found


def measure_one(answer, group, names) -> dict:
    """What came of one model on this rank."""
    place = dist.get_rank(group)
    model = Part(names, place, dist.get_world_size(group))
    gradients = {name: p.grad for name, p in model.named_parameters()}
    with Calls() as calls:
        norm = answer(model, group)
    changed = [
        name
        for name, p in model.named_parameters()
        if p.grad is not gradients[name] or not same_gradient(p.grad, gradient_of(name, place))
    ]
    return {"norm": number_of(norm), "calls": calls.made, "changed": changed}


def same_gradient(a, b) -> bool:
    return a is b if a is None or b is None else torch.equal(a, b)


def number_of(value) -> float | str | None:
    """A number; a text that shows the value if it is none."""
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, RuntimeError):
        return f"{value!r:.60}"


# ---- Judging ---------------------------------------------------------------------------------


def examine_gradient_norm(answer):
    for groups in WORLDS:
        raised = partial(judge_raised, groups)
        found = try_groups(groups, measure_on_rank, answer, NORM_ERRORS, SAME_CALLS, raised)
        otherwise = IN_A_GROUP if len(groups) > 1 else ""
        for who, of_ranks in found:
            for number, (case, names) in enumerate(MODELS.items()):
                one = {rank: of[number] for rank, of in enumerate(of_ranks)}
                n = len(of_ranks)
                right = judge_norm(f"{who}, {case}", one, n, names, otherwise)
                judge_cost(f"{who}, {case}", one)
                if number == 0:
                    yield f"{who}: the gradient's length is {right:.6g} on every rank, as in one"
    yield "cost: one all-reduce of one number"


def judge_raised(groups, error):
    """Raise `Wrong` for what a rank has found in the models before its error; or for that."""
    members, cause = next(of for of in groups if error.rank in of), error.exception
    who, otherwise = name_of(members, groups), IN_A_GROUP if len(groups) > 1 else ""
    for (case, names), of in zip(MODELS.items(), cause.before):
        one = {members.index(error.rank): of}
        judge_norm(f"{who}, {case}", one, len(members), names, otherwise)
        judge_cost(f"{who}, {case}", one)
    why = why_raised(cause.case, error, otherwise or SAME_CALLS)
    raise Wrong(f"{who}, {cause.case}", str(error), why)


def why_raised(case, error, mismatch) -> str:
    known = (why for words, why in OF_NOTHING.items() if words in str(error))
    if case in MISSING and (why := next(known, "")):
        return f"{MISSING[case]}: {why}"
    return explain_by(NORM_ERRORS, mismatch)(error)


def judge_norm(case, found, n, names, otherwise) -> float:
    """Returns the truth; raises `Wrong` if one of these ranks has found something else.

    found  {place: what its rank has found}, of some of the n
    """
    right = norm_of(flat(names, range(n), cut=True), flat(names, [0], cut=False))
    for rank, of in found.items():
        if not isinstance(of["norm"], float):
            got = of["norm"]
            why = NO_RETURN if got is None else "asked is one number, for the whole model"
            raise Wrong(case, f"rank {rank}: it returned {got}", why)
        if of["changed"]:
            what = f"rank {rank}: the gradient of {of['changed'][0]} has changed"
            raise Wrong(case, what, CHANGED)
    for rank, of in found.items():
        if not close(of["norm"], right):
            what = f"rank {rank}: it is {of['norm']:.10g}, expected {right:.10g}"
            raise Wrong(case, what, why_norm(names, n, rank, of["norm"], right) or otherwise)
    return right


CHANGED = (
    "it is only to be measured: the optimizer steps with it afterwards. What travels in place, or "
    "is squared with an underscore, is to be a tensor of its own"
)


def judge_cost(case, found):
    for rank, of in found.items():
        calls, most = len(of["calls"]), max([c.tensor_bytes for c in of["calls"]], default=0)
        if most > 16:
            what = f"the number is right, but rank {rank} hands in {most} bytes, expected 8"
            raise Wrong(f"cost, {case}", what, GRADIENTS_TRAVEL)
        if calls > 2:
            what = f"the number is right, but rank {rank} communicates {calls} times, expected once"
            raise Wrong(f"cost, {case}", what, EACH_TRAVELS)


GRADIENTS_TRAVEL = "of each rank's parts the others need one number alone: the sum of their squares"
EACH_TRAVELS = (
    "numbers so small cost no bytes, but a latency each: add up first what this rank has, then "
    "over the ranks once"
)


# ---- Misconceptions --------------------------------------------------------------------------


def flat(names, places, cut) -> list[torch.Tensor]:
    """The gradients of the parameters that are cut, or are not, on these places."""
    chosen = [name for name in names if (KINDS[name][1] is not None) == cut]
    found = [gradient_of(name, place) for place in places for name in chosen]
    return [gradient.flatten() for gradient in found if gradient is not None]


def norm_of(*gradients, power=2.0) -> float:
    """Of some lists of tensors, all together."""
    everything = [x for some in gradients for x in some]
    return nn.utils.get_total_norm(everything, power).item() if everything else 0.0


def why_norm(names, n, rank, got, right) -> str:
    guesses = guesses_at_norm(names, n, rank)
    fits = (why for why, guess in guesses if close(got, guess))
    return next(fits, IN_FLOAT32 if close_in_float32(got, right) else "")


def guesses_at_norm(names, n, rank) -> list[tuple[str, float]]:
    """[(sentence, what this misconception gives), …]."""
    mine, rest = flat(names, [rank], cut=True), flat(names, [0], cut=False)
    parts = [flat(names, [place], cut=True) for place in range(n)]
    together = flat(names, range(n), cut=True)
    own, cut, whole = norm_of(mine), norm_of(together), norm_of(rest)
    right = math.hypot(cut, whole)
    tied = norm_of(together, flat(["letters"] * ("letters" in names), range(n), cut=True), rest)
    lengths = [norm_of([x]) for x in (*together, *rest)]
    return [
        (REST_N_TIMES, math.hypot(cut, math.sqrt(n) * whole)),
        (REST_N_TIMES, math.hypot(cut, n * whole)),
        (OWN, math.hypot(own, whole)),
        (NO_ROOT, right**2),
        (ROOTS_ADDED, sum(map(norm_of, parts)) + whole),
        (ROOTS_ADDED, cut + whole),
        (ROOTS_ADDED, math.hypot(sum(map(norm_of, parts)), whole)),
        (ROOTS_ADDED, sum(math.hypot(norm_of(part), whole) for part in parts)),
        (ROOTS_ADDED, sum(lengths)),
        (ROOTS_ADDED, math.sqrt(sum(lengths))),
        (ROOTS_ADDED, sum(map(norm_of, parts)) + n * whole),
        (MEAN, math.hypot(cut / math.sqrt(n), whole)),
        (MEAN, math.sqrt(sum(math.hypot(norm_of(p), whole) ** 2 for p in parts) / n)),
        (MEAN, sum(math.hypot(norm_of(part), whole) for part in parts) / n),
        ("the parameters that are whole are left out: they count, too, once", cut),
        ("the parameters that are cut are left out: they count, too", whole),
        (TIED, tied),
        ("this adds up absolute values; a length is the root of the sum of squares",
            norm_of(together, rest, power=1.0)),
        ("of each rank's part only the longest counts; all of them are part of one long vector",
            math.hypot(max(map(norm_of, parts)), whole)),
        (SUMMED_ELEMENTS, math.hypot(norm_of(summed(names, n)), whole)),
        (SUMMED_ELEMENTS, math.hypot(norm_of(summed(names, n)), n * whole)),
    ]  # fmt: skip


def summed(names, n) -> list[torch.Tensor]:
    """Parts of a gradient added up, though they are parts of different numbers."""
    by_place = [[gradient_of(name, place) for name in names if KINDS[name][1] is not None]
                for place in range(n)]  # fmt: skip
    columns = [[x for x in column if x is not None] for column in zip(*by_place)]
    return [sum(column) for column in columns if column]


IN_FLOAT32 = (
    "nearly right: it was rounded on its way. A tensor of your own, such as torch.zeros(1), is of "
    "float32 unless told otherwise; begin with the gradients' dtype"
)
REST_N_TIMES = (
    "the gradient of a parameter that is whole is the same on every rank, and here it counts n "
    "times: only the squares of the cut ones are to be summed over the ranks"
)
OWN = (
    "this is what this rank alone can see: of a cut parameter the others have the rest. Each rank "
    "finds another length so, and clips differently"
)
NO_ROOT = "this is the square of the length: the root is missing"
ROOTS_ADDED = (
    "lengths are not added: the squares are, of all parameters and all ranks, and the root comes "
    "at the very end"
)
MEAN = "each rank has other numbers of the gradient: their squares are summed, there is no mean"
TIED = "a tied parameter counts twice, under both of its names; model.parameters() has it once"
SUMMED_ELEMENTS = (
    "the gradients of different parts are added up, number by number. They belong to different "
    "weights: square first, then sum"
)


EXERCISE = Exercise(
    "7.14", "gradient_norm", examine_gradient_norm,
    (
        "The square of a length is a sum of squares. Which squares has this rank alone, and "
        "which has every rank?",
        "hasattr(p, 'cut_dim') tells them apart. Add up p.grad.pow(2).sum() of both kinds, "
        "without those whose gradient is None.",
        "Over the ranks only the sum of the cut ones is added up: summed(x, group), once, and "
        "x has to be a tensor even if there are none. The root comes last.",
    ),
    lab="tensor_parallel",
)  # fmt: skip
