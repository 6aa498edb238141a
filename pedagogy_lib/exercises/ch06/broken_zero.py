"""Programs of ZeRO with a bug, on flat tensors: what `check` tries, and what `hint` says.

The truth is one process that follows the mean of all ranks' gradients. A wrong repair is
recognised by what one process gets that has the same misconception.
"""

from functools import partial
from math import ceil
from types import SimpleNamespace

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from ...basics.closeness import close, told_gap
from ...course.checking import Wrong, try_on_ranks
from ..kit.differences import recognise, told
from ..kit.one_process import why_raised
from ..kit.outcomes import plain
from ..kit.trials import kind_of, numbers
from ..kit.warming import warm_up

OPTIMIZERS = {
    "SGD with momentum": partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    "Adam": partial(torch.optim.Adam, lr=0.1),
}
NO_RETURN = "a function without `return` gives None"
SUMMED = "the ranks' gradients are summed up; asked is their mean"
DIVIDED_TWICE = "the mean of the gradients is divided by the number of ranks once more"
FRESH = (
    "each step begins with a new optimizer, without the state of the steps before: make one before "
    "the loop, or keep it for the next step"
)


class Maker:
    """Makes optimizers, and remembers them."""

    def __init__(self, make):
        self.make, self.made = make, []

    def __call__(self, tensors):
        self.made.append(self.make(tensors))
        return self.made[-1]


def need_numbers(case, rank, got, length, why):
    """Raise `Wrong` unless a result is a flat float64 tensor of this length.

    why  {length: what it means to return as many}
    """
    if not isinstance(got, torch.Tensor):
        what = f"rank {rank} returned {got!r:.60}; expected a tensor"
        raise Wrong(case, what, NO_RETURN if got is None else "")
    wanted = torch.empty(length, dtype=torch.float64)
    if kind_of(got) != kind_of(wanted):
        what = f"rank {rank} returned {kind_of(got)}; expected {kind_of(wanted)}"
        raise Wrong(case, what, why.get(got.numel(), "") if got.dim() == 1 else "")


# ---- 6.5: parts of a flat tensor -------------------------------------------------------------

PARTS = ((8, 2, "SGD with momentum"), (11, 3, "Adam"), (10, 4, "SGD with momentum"),
         (5, 4, "Adam"), (2, 3, "SGD with momentum"))  # fmt: skip
ROUNDS = (1, 4)  # steps
UNEQUAL = (
    "all_gather wants parts that are all equally long, on all ranks. Is the last one shorter? What "
    "is missing there can be filled up"
)
NOT_N_PARTS = "there have to be n parts: chunk() and split() may make fewer of few numbers, or more"
PARTS_ERRORS = {
    "invalid tensor size": UNEQUAL,
    "invalid output tensor list": NOT_N_PARTS,
    "index out of range": NOT_N_PARTS,
    "numbers, and takes": "gradient_of() takes the numbers of the model, all of them, and without "
    "padding",
}
PARTS_HANG = "every rank has to make the same calls, also one whose part is only padding"
UNTOUCHED = "the others have moved. Whose are these?"
NOT_VIEWS = (
    "either the optimizer finds no gradient, or its steps do not reach what is returned. "
    "all_gather fills the tensors in its list: are they views into the flat tensor, or who puts "
    "them together?"
)
OWN_PART_ONLY = "each rank has the new numbers of its own part alone: who tells the others?"
ARGUMENT = (
    "whoever calls the function may need it as it was. The program took a copy, and F.pad takes one"
)
ALL_OF_THEM = (
    "the numbers are right, but each rank updates all of them, with all of the optimizer's state. "
    "In stage 1 it has an optimizer for its own part alone"
)


def start_of(length):
    return torch.linspace(1, 2, length, dtype=torch.float64)


def gradient_of(rank, length, values, step):
    """A rank's gradient; each of its numbers depends on all values."""
    if values.shape != (length,):
        raise ValueError(f"gradient_of() was given {len(values)} numbers, and takes {length}")
    source = torch.Generator().manual_seed(100 * rank + step)
    draw = torch.randn(length, length + 1, generator=source, dtype=torch.float64)
    return draw[:, 0] + draw[:, 1:] @ values.detach() / length


def train_vector(length, n, steps, make, gradient=lambda slopes: slopes.mean(0), padding=0,
                 fresh=False):  # fmt: skip
    """One process: the numbers after some steps.

    gradient  takes all ranks' gradients, (n, length)
    padding   zeros that stand before the numbers, as if they were some
    fresh     whether each step has a new optimizer
    """
    values = nn.Parameter(F.pad(start_of(length), (padding, 0)))
    optimizer = make([values])
    for step in range(steps):
        optimizer = make([values]) if fresh else optimizer
        slopes = [gradient_of(rank, length, values[:length], step) for rank in range(n)]
        values.grad = F.pad(gradient(torch.stack(slopes)), (0, padding))
        optimizer.step()
    return values.detach()[:length]


def try_parts(answer, length, make):
    """On a rank, for each of ROUNDS: what it gives, to its argument, and to its optimizers."""
    found = []
    for steps in ROUNDS:
        values, maker = start_of(length), Maker(make)
        got = answer(values, partial(gradient_of, dist.get_rank(), length), maker, steps)
        groups = [group for optimizer in maker.made for group in optimizer.param_groups]
        largest = max((sum(p.numel() for p in group["params"]) for group in groups), default=0)
        changed = not torch.equal(values, start_of(length))
        found.append(SimpleNamespace(got=plain(got), changed=changed, largest=largest))
    return found


def examine_parts(answer):
    warm_up()
    for length, n, name in PARTS:
        case = f"{length} numbers, {n} ranks, {name}"
        run = try_on_ranks(case, try_parts, answer, length, OPTIMIZERS[name], world_size=n,
                           explain=partial(why_raised, PARTS_ERRORS, PARTS_HANG))  # fmt: skip
        for number, steps in enumerate(ROUNDS):
            found = [of_rank[number] for of_rank in run.values]
            judge_parts(case, found, length, steps, OPTIMIZERS[name])
        yield f"{case}: after {ROUNDS[-1]} steps the numbers of one process, on every rank"


def judge_parts(case, found, length, steps, make):
    n, start = len(found), start_of(length)
    for rank, of in enumerate(found):
        need_numbers(case, rank, of.got, length, {
            length + zeros: "that is with padding: cut it off at the end" for zeros in range(1, n)
        })  # fmt: skip
        if of.changed:
            raise Wrong(case, f"rank {rank}: the argument `values` has been changed", ARGUMENT)
    need_equal_parts(case, [of.got for of in found], start)
    got, wanted = found[0].got, train_vector(length, n, steps, make)
    if not close(got, wanted):
        raise Wrong(case, *told_numbers(got, wanted, n, steps, make))
    if length >= 2 * n and max(of.largest for of in found) >= length:
        what = f"a rank's optimizer has {max(of.largest for of in found)} of {length} numbers"
        raise Wrong(case, what, ALL_OF_THEM)


def need_equal_parts(case, got, start):
    for rank, mine in enumerate(got):
        if not close(mine, got[0]):
            changes = torch.stack([of_rank != start for of_rank in got]).sum(0)
            why = OWN_PART_ONLY if changes.max() == 1 else ""
            what = f"the numbers on ranks 0 and {rank} differ by up to {told_gap(mine, got[0])}"
            raise Wrong(case, what, why)


def told_numbers(got, wanted, n, steps, make) -> tuple[str, str]:
    """What is wrong with the numbers, which are the same on all ranks; and why."""
    length, start = len(got), start_of(len(got))
    still = (got == start).nonzero().flatten().tolist()
    after = f"after {steps} step" + ("" if steps == 1 else "s")
    if len(still) == length:
        return f"{after} it returned the numbers as they were before", NOT_VIEWS
    if still:
        which = f"{len(still)} of {length} have never changed: numbers {', '.join(map(str, still))}"
        return f"{after}, {which} (counted from 0)", UNTOUCHED
    train = partial(train_vector, length, n, steps, make)
    owner, each = torch.arange(length), ceil(length / n)
    own = lambda slopes: slopes[owner // each, owner]  # noqa: E731
    what = f"{after} the numbers are off by up to {told_gap(got, wanted)}, on every rank"
    return what, recognise(got, {
        SUMMED: train(lambda slopes: slopes.sum(0)),
        DIVIDED_TWICE: train(lambda slopes: slopes.mean(0) / n),
        "each part has followed the gradient of its own rank: the others' are to count, too":
            train(own),
        "each part has followed the gradient of its own rank, divided by n: nothing has been added "
        "to it": train(lambda slopes: own(slopes) / n),
        "all have followed rank 0's gradient: those of the others are to count, too":
            train(lambda slopes: slopes[0]),
        "the zeros stand before the numbers, so that all are at wrong places: for gradient_of(), "
        "and in what is returned. Padding comes at the end":
            train(padding=n * each - length),
        FRESH: train(fresh=True),
    })  # fmt: skip


# ---- 6.8: memory that is not freed -----------------------------------------------------------

GRADIENTS = {  # case: (ranks, shapes)
    "19 numbers, 4 ranks": (4, ((3, 4), (5,), (2, 1))),
    "18 numbers, 3 ranks": (3, ((2, 3), (4,), (8,))),
    "2 numbers, 3 ranks": (3, ((2,),)),
}
REDUCE_ERRORS = {
    "'NoneType' object has no attribute": "a gradient that has been freed is read: first copy all "
    "of them into the flat tensor",
    "sizes().vec()": "the chunks and the tensor that receives have to be equally long",
}
REDUCE_HANG = "every rank has to make the same calls, in the same order"
NOT_REDUCED = "this rank's own gradient has been divided by n, and nothing has been added to it"
NOT_FREED = "the numbers are right, as before; the memory still is not"
ZEROS_REMAIN = (
    "a gradient of zeros has as many bytes as any other. The parameter itself has to let go of it: "
    "a name for it in the function, or `del` of such a name, changes nothing in the parameter"
)
A_VIEW = (
    "a tensor's memory lives as long as anything looks into it, whatever names are deleted. What "
    "does the returned tensor look into?"
)


def tensors_for(rank, shapes):
    return [numbers(rank, shape, torch.float64, salt) for salt, shape in enumerate(shapes)]


def try_reduce(answer, shapes):
    """On a rank: what it gives, and what is in memory because of it."""
    parameters, before = ([nn.Parameter(x) for x in tensors_for(9, shapes)] for _ in range(2))
    for parameter, gradient in zip(parameters, tensors_for(dist.get_rank(), shapes)):
        parameter.grad = gradient
    del gradient
    got = answer(parameters)
    changed = not all(map(torch.equal, parameters, before))
    left = [p.grad.nbytes for p in parameters if p.grad is not None]
    kept = got.untyped_storage().nbytes() if isinstance(got, torch.Tensor) else 0
    return SimpleNamespace(got=plain(got), kept=kept, left=left, changed=changed)


def examine_reduce(answer):
    for case, (n, shapes) in GRADIENTS.items():
        run = try_on_ranks(case, try_reduce, answer, shapes, world_size=n,
                           explain=partial(why_raised, REDUCE_ERRORS, REDUCE_HANG))  # fmt: skip
        whole = [torch.cat([x.view(-1) for x in tensors_for(rank, shapes)]) for rank in range(n)]
        judge_reduced(case, run.values, torch.stack(whole))
        for rank, of in enumerate(run.values):
            judge_memory(case, rank, of)
        part = run.values[0].got.nbytes
        yield f"{case}: each has its part of the mean, {part} bytes, and no gradient is left"


def judge_reduced(case, found, whole):
    """whole: the gradients of each rank, (n, length)."""
    n, length = whole.shape
    each = ceil(length / n)
    for rank, of in enumerate(found):
        wanted = cut(whole.mean(0), rank, n)
        need_numbers(case, rank, of.got, each, {
            length - rank * each: "with padding all parts are equally long; leave it there",
            each * n: "that is all of it, with padding; each rank keeps a part",
            length: "that is all of it; each rank keeps a part",
        })  # fmt: skip
        if of.changed:
            raise Wrong(case, f"rank {rank}: the parameters themselves have changed")
        if not close(of.got, wanted):
            what = f"rank {rank} returned {told(of.got)}; expected {told(wanted)}"
            raise Wrong(case, what, why_reduced(of.got, rank, whole))


def cut(flat, rank, n):
    """A rank's part of a flat tensor: what is there, in zeros."""
    each = ceil(len(flat) / n)
    part, own = flat.new_zeros(each), flat[rank * each :][:each]
    part[: len(own)] = own
    return part


def why_reduced(got, rank, whole) -> str:
    n = len(whole)
    others = {f"this is rank {k}'s part": cut(whole.mean(0), k, n) for k in range(n) if k != rank}
    return recognise(got, {
        SUMMED: cut(whole.sum(0), rank, n),
        DIVIDED_TWICE: cut(whole.mean(0) / n, rank, n),
        NOT_REDUCED: cut(whole[rank] / n, rank, n),
        "this is the rank's own gradient": cut(whole[rank], rank, n),
    } | others)  # fmt: skip


def judge_memory(case, rank, of):
    part, what, why = of.got.nbytes, [], []
    if of.kept > part:
        what.append(f"the returned part has {part} bytes, and keeps {of.kept} bytes alive")
        why.append(A_VIEW)
    if of.left:
        gradients = "a `.grad`" if len(of.left) == 1 else f"{len(of.left)} gradients"
        what.append(f"the parameters still have {gradients}, of {sum(of.left)} bytes")
        why.append(ZEROS_REMAIN)
    if what:
        why = why[0] if len(why) == 1 else NOT_FREED
        raise Wrong(case, f"rank {rank}: " + "; and ".join(what), why)
