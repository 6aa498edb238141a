"""Clipping by the norm of gradients that lie in parts on the ranks."""

import math

import torch
import torch.distributed as dist
from torch import nn

from ...basics.closeness import close, close_in_float32
from ...course.checking import Wrong
from ..kit import GROUP, At, Equals, Holds, RankExercise, World, answering, never

F64, F16 = torch.float64, torch.float16
SIZES = [(3, 4), (7,), (2, 5, 1), (1,)]  # of the shards at each place; 12, 7, 10 and 1 numbers
OVERFLOW = 256.0  # its square is more than a float16 can hold; 14 of them on two ranks


def of_place(place, kind) -> list[nn.Parameter]:
    """The shards of a place: parameters with gradients, and frozen ones without."""
    dtype = F16 if kind == "in float16" else F64
    frozen = nn.Parameter(torch.full((2, 2), 9.0, dtype=dtype), requires_grad=False)
    if kind == "rank 0 has only a frozen one" and place == 0:
        return [frozen]
    if kind == "rank 0 has none" and place == 0:
        return []
    shards = [nn.Parameter(torch.full((size,), 7.0, dtype=dtype)) for size in SIZES[place]]
    for number, shard in enumerate(shards):
        shard.grad = gradient_of(shard, place, number, kind)
    return [shards[0], frozen, *shards[1:]]


def gradient_of(shard, place, number, kind):
    if kind == "in float16":
        return torch.full_like(shard, OVERFLOW).detach()
    if kind == "all zeros":
        return torch.zeros_like(shard).detach()
    draw = torch.Generator().manual_seed(31 * place + number)
    whole = torch.randint(-9, 10, shard.shape, generator=draw, device="cpu")
    return whole.to(shard) + (place + 1) / 4


def clip(answer, group, case):
    kind, max_norm = case.args
    shards = of_place(dist.get_rank(group), kind)
    had, weights = len(copies_of(shards)), [p.detach().clone() for p in shards]
    dist.barrier(group)
    with answering():
        norm = answer(shards, max_norm, group)
    after = copies_of(shards)
    return {
        "changed": not close([p.detach() for p in shards], weights),
        "returned": norm is not None and (not torch.is_tensor(norm) or norm.numel() == 1),
        "norm": float(norm) if norm is not None else None,
        "lost": max(0, had - len(after)),
        "given": max(0, len(after) - had),
        "bad": sum(int((~x.isfinite()).sum()) for x in after),
        "gradients": after,
    }


def copies_of(shards):
    return [p.grad.detach().double().clone() for p in shards if p.grad is not None]


# ---- What is right, and what is not ---


def before(trial) -> list[list[torch.Tensor]]:
    """What the gradients of each rank are in the beginning."""
    return [copies_of(of_place(place, trial.case.args[0])) for place in range(trial.n)]


def numbers_of(gradients) -> list[float]:
    return [x for gradient in gradients for x in gradient.double().flatten().tolist()]


def length(numbers) -> float:
    return math.sqrt(math.fsum(x * x for x in numbers))


def lengths(trial) -> list[float]:
    return [length(numbers_of(gradients)) for gradients in before(trial)]


def right_norm(trial, place) -> float:
    return length([x for gradients in before(trial) for x in numbers_of(gradients)])


def wrong_norms(trial, place):
    own, n, right = lengths(trial), trial.n, right_norm(trial, place)
    each = [length(numbers_of([x])) for gradients in before(trial) for x in gradients]
    everything = [x for gradients in before(trial) for x in numbers_of(gradients)]
    shards = [of_place(place, trial.case.args[0]) for place in range(n)]
    weights = [x for of_rank in shards for x in numbers_of(of_rank)]
    trained = [x for x in weights if x != 9.0]
    return {
        "this is the norm of this rank's shards alone. Each rank would scale by another factor: "
        "the model's gradient would change its direction": own[place],
        "norms do not add up: squares do. Sum the squares over all ranks, and take the root once":
            sum(own),
        "norms of tensors do not add up, within a rank either: their squares do": sum(each),
        "this is a mean over the ranks. No rank has the same part twice: the squares add up":
            right / math.sqrt(n),
        "this is the mean of the ranks' norms. The squares of all ranks add up": sum(own) / n,
        "this is the largest norm of a rank. The squares of all ranks add up": max(own),
        "this is the sum of the squares: the norm is its root": right**2,
        "this is the sum of the absolute values: square the numbers, add up, take the root":
            math.fsum(abs(x) for x in everything),
        "this is the largest absolute value: square the numbers, add up, take the root":
            max((abs(x) for x in everything), default=0.0),
        "frozen parameters count here by their values. The norm is of gradients, and a frozen "
        "parameter has none": length([*everything, *[9.0] * (4 * n)]),
        "this is the norm of the parameters. What is clipped is the gradient": length(trained),
        "this is the norm of the parameters, with the frozen ones. What is clipped is the "
        "gradient": length(weights),
        "this is the norm after clipping. Return what it was before": min(
            right, trial.case.args[1]
        ),
    }  # fmt: skip


def scaled(gradients, factor):
    return [gradient * factor for gradient in gradients]


def right_gradients(trial, place):
    factor = min(1.0, trial.case.args[1] / max(right_norm(trial, place), 1e-300))
    return scaled(before(trial)[place], factor)


def wrong_gradients(trial, place):
    own, most, norm = before(trial)[place], trial.case.args[1], right_norm(trial, place)
    n, length_of_own = trial.n, lengths(trial)[place] or 1.0
    norm = norm or 1.0
    return {
        "the norm is above max_norm, and the gradients are as before: multiply them in place, "
        "p.grad *= …": own,
        "a gradient that is small enough is scaled up. Clipping only makes gradients smaller: "
        "leave them alone if the norm is not above max_norm": scaled(own, most / norm),
        "each rank scales by its own norm. All ranks need the same factor, that of the whole norm":
            scaled(own, min(1.0, most / length_of_own)),
        "each shard is scaled by its own norm: small gradients keep their size, and the direction "
        "changes. One factor for all":
            [x * min(1.0, most / (length(numbers_of([x])) or 1.0)) for x in own],
        "the factor is applied twice": scaled(own, min(1.0, most / norm) ** 2),
        "the gradients are divided by the norm, whatever max_norm is": scaled(own, 1 / norm),
        "each number is clamped by itself. That changes the direction: multiply all by one factor":
            [x.clamp(-most, most) for x in own],
        "the factor has the square of the norm in it: take the root first":
            scaled(own, min(1.0, most / norm**2)),
        "the limit is shared out among the ranks. max_norm is for the whole":
            scaled(own, min(1.0, most / n / norm)),
        "the factor has the root of max_norm in it": scaled(own, min(1.0, most**0.5 / norm)),
    }  # fmt: skip


def one_number(trial):
    for place, calls in enumerate(trial.calls):
        sent, who = sum(call.tensor_bytes for call in calls), trial.who(place)
        if not calls:
            continue
        if len(calls) > 1:
            what = f"the numbers are right, but {who} makes {len(calls)} calls"
            raise Wrong(f"cost, {trial.case}", what, ONE_CALL)
        if sent > 8:
            what = f"the numbers are right, but {who} brings {sent} bytes to its call"
            raise Wrong(f"cost, {trial.case}", what, ONE_NUMBER)
    return f"cost, {trial.case}: one call, of one number" if trial.case.is_group else ""


ONE_CALL = (
    "one all-reduce is enough: add up the squares of all shards of the rank first. (And where "
    "ranks have different numbers of shards, a call for each of them would hang)"
)
ONE_NUMBER = (
    "one number of a rank is enough: the sum of its squares. Gradients themselves stay where they "
    "are"
)
NOT_FINITE = "the norm is 0 here, and 0 / 0 is nan. Scale only if the norm is above max_norm"
OVERFLOWS = (
    "a float16 ends at 65504, and the square of 256 is more. Square and add up in float32 or "
    "float64"
)
LOST = (
    "every rank has to take part in the all-reduce, also one without any gradient: its sum of "
    "squares is 0"
)


EXERCISE = RankExercise(
    "6.14",
    "clip_shards",
    lab="composing",
    cases=[
        At(World(2), ("", 1.0), ", shards of different sizes"),
        At(World(3), ("", 5.0), ", shards of different sizes"),
        At(World(2), ("", 1000.0), ", the norm is below max_norm"),
        At(World(3), ("rank 0 has only a frozen one", 2.0), ", rank 0 has only a frozen parameter"),
        At(World(2), ("rank 0 has none", 2.0), ", rank 0 has no shard"),
        At(World(2), ("all zeros", 1.0), ", all gradients are zeros"),
        At(World(2), ("in float16", OVERFLOW / 2 * 14**0.5), ", gradients in float16"),
        At(World(1), ("", 3.0)),
        At(GROUP, ("", 1.0)),
    ],
    work=clip,
    facts=[
        Holds("returned", bool, "no norm is returned",
              "return the norm before clipping: one number, on every rank"),
        never("changed", "the parameters themselves have changed",
              "only the gradients are scaled: p.grad, and not p"),
        never("lost", "{} gradients are gone", "scale the gradients, and leave them in p.grad"),
        never("given", "{} frozen parameters have a gradient now",
              "a frozen parameter has no gradient, and needs none: leave it out"),
        Holds("norm", math.isfinite, "the norm is {}",
              lambda trial, place: OVERFLOWS if trial.case.args[0] == "in float16" else ""),
        Equals("norm", right_norm, wrong_norms, "the norm", same=close_in_float32),
        never("bad", "the norm is right, and {} numbers of the gradients are not finite",
              lambda trial, place: NOT_FINITE if trial.case.args[0] == "all zeros" else OVERFLOWS),
        Equals("gradients", right_gradients, wrong_gradients, "the gradient",
               same=close_in_float32),
        one_number,
    ],
    told=lambda trial: f"norm {trial[0].norm:.4g}, at most {trial.case.args[1]:g}",
    errors={
        "'NoneType' object has no attribute": "a frozen parameter has None in `.grad`: leave it "
        "out",
        "unsupported operand type(s) for *=: 'NoneType'": "a frozen parameter has None in `.grad`: "
        "leave it out, when you scale as well",
        "expected a non-empty": "a rank may have no gradient at all. Its sum of squares is 0, and "
        "it takes part in the all-reduce",
        "division by zero": NOT_FINITE,
        "float() argument must be": "return the norm alone: one number",
        "'int' object has no attribute": "a rank may have no gradient at all. Then a sum of "
        "nothing is the number 0, and all_reduce needs a tensor",
        "'float' object has no attribute": "all_reduce needs a tensor, on a rank without gradients "
        "too",
        "Invalid function argument. Expected parameter `tensor`": "all_reduce needs a tensor, on a "
        "rank without gradients too",
    },
    lost=LOST,
    hints=(
        "Pythagoras: the square of the whole norm is the sum of the squares of all numbers, on "
        "whatever rank they lie.",
        "Each rank adds up the squares of its own gradients in one number, in float64. That "
        "number is summed over the ranks.",
        "The root of the sum is the norm. If it is above max_norm, multiply each p.grad by "
        "max_norm / norm, in place. A frozen p has None in p.grad.",
    ),
)  # fmt: skip
