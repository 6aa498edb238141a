"""Chapter 06's programs with a bug: right repairs pass, and each wrong one is told its symptom.

Answers that communicate alike are tried in the same worlds: see Together.
"""

import functools
import linecache
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from pedagogy_lib import check, launch
from pedagogy_lib.course import checking
from pedagogy_lib.exercises import broken_owners, broken_stages, broken_zero
from pedagogy_lib.exercises.ch03.servers import warm_up

MODULE = {"6.5": broken_zero, "6.6": broken_owners, "6.8": broken_zero,
          "6.12": broken_stages, "6.14": broken_stages}  # fmt: skip
EXERCISES = {e.number: e for module in {*MODULE.values()} for e in module.EXERCISES}
KNOWN = {"__name__": "__main__", "torch": torch, "dist": dist, "F": F, "nn": nn}


@pytest.fixture(scope="module", autouse=True)
def warm():
    warm_up()


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    for module in broken_zero, broken_owners:
        monkeypatch.setattr(module, "warm_up", lambda: None)
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@functools.cache
def define(number, program):
    """The function of a program, as a cell would define it."""
    name, file = EXERCISES[number].name, f"cell of {number}"
    space = dict(KNOWN)
    exec(compile(program, file, "exec"), space)
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    return space[name]


def changed(program, pairs) -> str:
    """A program in which some parts are others; or one of its own."""
    if isinstance(pairs, str):
        return pairs
    for old, new in pairs:
        assert program.count(old) == 1, (old, program)
        program = program.replace(old, new)
    return program


class Together:
    """Takes the place of try_on_ranks: tries many answers in one world for each case."""

    def __init__(self, answers):
        self.answers, self.runs = answers, {}

    def __call__(self, case, function, answer, *args, world_size, explain):
        if case not in self.runs:
            settings = {"world_size": world_size, "device": "cpu", "seed": [*range(world_size)]}
            self.runs[case] = launch(try_all, function, self.answers, *args, **settings)
        run, index = self.runs[case], self.answers.index(answer)
        return SimpleNamespace(values=[of_rank[index] for of_rank in run.values])


def try_all(function, answers, *args):
    return [function(answer, *args) for answer in answers]


# ---- The solutions, and what a learner gets ----------------------------------------------------

SOLVED = {
    "6.5": """
def train_in_parts(values, gradient_of, make_optimizer, steps):
    rank, n, length = dist.get_rank(), dist.get_world_size(), len(values)
    each = -(-length // n)
    flat = F.pad(values, (0, each * n - length))
    parts = [flat[k * each :][:each] for k in range(n)]
    mine = nn.Parameter(parts[rank].clone())
    optimizer = make_optimizer([mine])
    for step in range(steps):
        gradient = F.pad(gradient_of(flat[:length], step), (0, len(flat) - length))
        dist.all_reduce(gradient)
        mine.grad = gradient[rank * each :][:each] / n
        optimizer.step()
        dist.all_gather(parts, mine.detach())
    return flat[:length]
""",
    "6.6": """
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    optimizers = {}  # of the parameters that this rank owns
    for inputs, targets in batches:
        model.zero_grad()
        loss_fn(model(inputs), targets).backward()
        numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
        for number, p in numbered:
            owner = number % n
            dist.reduce(p.grad, owner)
            if rank == owner:
                p.grad /= n
                if p not in optimizers:
                    optimizers[p] = make_optimizer([p])
                optimizers[p].step()
            dist.broadcast(p.detach(), owner)
""",
    "6.8": """
def reduce_and_free(parameters):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = torch.cat([p.grad.view(-1) for p in parameters])
    flat = F.pad(flat, (0, -len(flat) % n))
    chunks = list(flat.chunk(n))
    mine = torch.empty_like(chunks[rank])
    dist.reduce_scatter(mine, chunks)
    for p in parameters:
        p.grad = None
    return mine.div_(n)
""",
    "6.12": """
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather(list(buffer.view(-1).chunk(dist.get_world_size())), shard)
        ctx.save_for_backward(x, shard)
        ctx.buffer = buffer
        return x @ buffer.T

    @staticmethod
    def backward(ctx, slope):
        x, shard = ctx.saved_tensors
        n = dist.get_world_size()
        dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)
        mean = torch.empty_like(shard)
        dist.reduce_scatter(mean, list((slope.T @ x / n).view(-1).chunk(n)))
        return slope @ ctx.buffer, mean, None
""",
    "6.14": """
def accumulate_part(model, loss_fn, micro_batches):
    n, parameters, total = dist.get_world_size(), list(model.parameters()), 0
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        gradients = torch.autograd.grad(loss, parameters)
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        chunks = list(F.pad(flat, (0, -len(flat) % n)).chunk(n))
        mine = torch.empty_like(chunks[0])
        dist.reduce_scatter(mine, chunks)
        total += mine / n
    return total
""",
}
SOLVED = {number: program.lstrip() for number, program in SOLVED.items()}
PADS = "    each = -(-length // n)\n    flat = F.pad(values, (0, each * n - length))\n"
NUMBERED = "[(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]"
MINE = "    mine = torch.empty_like(chunks[rank])\n"
NONE = "        p.grad = None\n"
AGAIN = "        dist.all_gather(list(ctx.buffer.view(-1).chunk(n)), shard)\n"
SHARE = " / len(micro_batches)"

# {number: (its bug, the symptom that is told, and what that says)}
BROKEN = {
    "6.5": (
        [(PADS, "    each = length // n\n    flat = values.clone()\n")],
        "11 numbers, 3 ranks, Adam: after 1 step, 2 of 11 have never changed: numbers 9, 10",
        "the others have moved. Whose are these?",
    ),
    "6.6": (
        [(NUMBERED, "list(enumerate(p for p in model.parameters() if p.grad is not None))")],
        "after step 2 c.weight is off by up to 0.18. The steps have used the layers abc, ac",
        "ranks 0, 1 have optimizer state for c.weight: that of some steps is on one rank",
    ),
    "6.8": (
        [(MINE, "    mine = chunks[rank]\n"), (NONE, "        p.grad.zero_()\n")],
        "the returned part has 40 bytes, and keeps 160 bytes alive; and the parameters still have "
        "3 gradients, of 152 bytes",
        "the numbers are right, as before",
    ),
    "6.12": (
        [(AGAIN, "")],
        "2 ranks, three layers: rank 0: wrong is the gradient of x, layer 1's shard; right is "
        "that of layer 2's shard, layer 3's shard",
        "as if the slopes of all layers passed through the weight of layer 3",
    ),
    "6.14": (
        [(SHARE, " / (len(micro_batches) * n)")],
        "2 ranks, 3 micro-batches each: rank 0: the part is 0.5 times what it should be",
        "what is summed over, and what is divided by?",
    ),
}


@pytest.mark.parametrize("number", BROKEN)
def test_the_program_as_it_is(number):
    pairs, symptom, why = BROKEN[number]
    verdict = check(number, define(number, changed(SOLVED[number], pairs)))
    assert verdict.passed is False, verdict
    assert symptom in f"{verdict.wrong.case}: {verdict.wrong.what}", verdict
    assert why in verdict.wrong.why, verdict


@pytest.mark.parametrize("number", SOLVED)
def test_the_solution(number):
    verdict = check(number, define(number, SOLVED[number]))
    assert verdict.passed, verdict
    assert len(verdict.lines) >= 3


# ---- Right repairs of another style ------------------------------------------------------------

RIGHT = {
    "6.5": {
        "one more, also where it is not needed": [
            ("each = -(-length // n)", "each = length // n + 1"),
        ],
        "zeros behind, and one tensor to gather into": [
            (PADS, "    zeros = values.new_zeros(-length % n)\n"
                   "    flat = torch.cat([values, zeros])\n    each = len(flat) // n\n"),
            ("all_gather(parts,", "all_gather_into_tensor(flat,"),
        ],
        "the parameter is a view of its part": [("parts[rank].clone()", "parts[rank]")],
        "parts of different lengths, without padding": """
def train_in_parts(values, gradient_of, make_optimizer, steps):
    rank, n = dist.get_rank(), dist.get_world_size()
    flat = values.clone()
    parts = flat.tensor_split(n)
    mine = nn.Parameter(parts[rank])
    optimizer = make_optimizer([mine])
    for step in range(steps):
        mean = gradient_of(flat, step) / n
        dist.all_reduce(mean)
        mine.grad = mean.tensor_split(n)[rank]
        optimizer.step()
        for owner, part in enumerate(parts):
            dist.broadcast(part.detach(), owner)
    return flat
""",
    },
    "6.6": {
        "a test in the loop": [
            (NUMBERED, "enumerate(model.parameters())"),
            ("            owner =", "            if p.grad is None:\n                continue\n"
                                    "            owner ="),
        ],
        "numbers by first use, and everybody gets the sum": [
            ("    optimizers =", "    order = {}\n    optimizers ="),
            ("        for number, p in numbered:\n",
             "        for _, p in numbered:\n"
             "            number = order.setdefault(p, len(order))\n"),
            ("dist.reduce(p.grad, owner)", "dist.all_reduce(p.grad)"),
        ],
        "one optimizer for all that a rank owns": """
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    owner = {p: k % n for k, p in enumerate(model.parameters())}
    optimizer = make_optimizer([p for p in owner if owner[p] == rank])
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        used = [p for p in model.parameters() if p.grad is not None]
        for p in used:
            dist.reduce(p.grad.div_(n), owner[p])
            if owner[p] != rank:
                p.grad = None
        optimizer.step()
        for p in used:
            dist.broadcast(p.data, owner[p])
""",
        "neighbours have one owner": [
            ("owner = number % n", "owner = number * n // len(list(model.parameters()))"),
        ],
    },
    "6.8": {
        "freed before it travels, in one tensor": [
            ("    chunks = list(flat.chunk(n))\n" + MINE,
             "    mine = flat.new_empty(len(flat) // n)\n"),
            ("reduce_scatter(mine, chunks)", "reduce_scatter_tensor(mine, flat)"),
            (NONE, "        del p.grad\n"),
        ],
        "a new tensor is returned": [
            (MINE, "    mine = chunks[rank]\n"), ("mine.div_(n)", "mine / n"),
        ],
        "a copy of its part of the sum": [
            (MINE, ""),
            ("reduce_scatter(mine, chunks)", "all_reduce(flat)"),
            ("mine.div_(n)", "chunks[rank].clone() / n"),
        ],
    },
    "6.12": {
        "into the whole buffer at once": [
            (AGAIN, "        dist.all_gather_into_tensor(ctx.buffer.view(-1), shard)\n"),
        ],
        "into a tensor of its own, after the other": [
            (AGAIN, ""),
            ("        return slope @ ctx.buffer, mean",
             "        weight = torch.empty_like(ctx.buffer)\n"
             "        dist.all_gather(list(weight.view(-1).chunk(n)), shard)\n"
             "        return slope @ weight, mean"),
        ],
        "an all-reduce, and what is not needed is left out": """
class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, shard, buffer):
        dist.all_gather_into_tensor(buffer.view(-1), shard)
        ctx.x, ctx.shard, ctx.buffer = x, shard, buffer
        return F.linear(x, buffer)

    @staticmethod
    def backward(ctx, slope):
        rank, n = dist.get_rank(), dist.get_world_size()
        dist.all_gather_into_tensor(ctx.buffer.view(-1), ctx.shard)
        whole = slope.T @ ctx.x
        dist.all_reduce(whole)
        of_x = slope @ ctx.buffer if ctx.needs_input_grad[0] else None
        return of_x, whole.view(-1).chunk(n)[rank] / n, None
""",
    },
    "6.14": {
        "divided by n in the loss": [
            (SHARE, " / (len(micro_batches) * n)"), ("total += mine / n", "total += mine"),
        ],
        "divided once, at the end": [
            (SHARE, ""), ("total += mine / n", "total += mine"),
            ("return total", "return total / (n * len(micro_batches))"),
        ],
        "sent once": """
def accumulate_part(model, loss_fn, micro_batches):
    rank, n = dist.get_rank(), dist.get_world_size()
    for inputs, targets in micro_batches:
        loss_fn(model(inputs), targets).backward()
    flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
    model.zero_grad()
    flat = F.pad(flat / (n * len(micro_batches)), (0, -len(flat) % n))
    dist.all_reduce(flat)
    return flat.chunk(n)[rank]
""",
    },
}  # fmt: skip
NO_RETURN = "a function without `return`"

# {number: {phrase of the diagnosis: what is changed in the solution}}; all run to their ends.
GATHER = "        dist.all_gather(parts, mine.detach())\n"
REDUCE = "            dist.reduce(p.grad, owner)\n"
OWNER = "            owner = number % n\n"
WRONG = {
    "6.5": {
        "gradients are summed up; asked": [("[:each] / n", "[:each]")],
        "divided by the number of ranks once more": [("[:each] / n", "[:each] / n / n")],
        "gradient of its own rank: the others'": [
            ("        dist.all_reduce(gradient)\n", ""), ("[:each] / n", "[:each]"),
        ],
        "nothing has been added to it": [("        dist.all_reduce(gradient)\n", "")],
        "all have followed rank 0's gradient": [
            ("all_reduce(gradient)", "broadcast(gradient, 0)"), ("[:each] / n", "[:each]"),
        ],
        "each step begins with a new optimizer": [
            ("    optimizer = make_optimizer([mine])\n", ""),
            ("        optimizer.step()", "        make_optimizer([mine]).step()"),
        ],
        "are they views into the flat tensor": [("[:each] for k", "[:each].clone() for k")],
        "the new numbers of its own part alone": [(".clone()", ""), (GATHER, "")],
        "but each rank updates all of them": """
def train_in_parts(values, gradient_of, make_optimizer, steps):
    flat = nn.Parameter(values.clone())
    optimizer = make_optimizer([flat])
    for step in range(steps):
        flat.grad = gradient_of(flat.detach(), step)
        dist.all_reduce(flat.grad)
        flat.grad /= dist.get_world_size()
        optimizer.step()
    return flat.detach()
""",
        "may need it as it was": [
            ("F.pad(values, (0, each * n - length))",
             "F.pad(values, (0, each * n - length)) if length % n else values"),
        ],
        NO_RETURN: [("    return flat[:length]\n", "")],
    },
    "6.6": {
        "gradients are summed up; asked": [("                p.grad /= n\n", "")],
        "divided by the number of ranks once more": [("p.grad /= n", "p.grad /= n * n")],
        "followed its owner's own gradient: the": [
            (REDUCE, ""), ("                p.grad /= n\n", ""),
        ],
        "to count, too (and it is divided by n)": [(REDUCE, "")],
        "all have followed rank 0's gradient": [
            ("dist.reduce(p.grad, owner)", "dist.broadcast(p.grad, 0)"), ("p.grad /= n", "pass"),
        ],
        "nobody tells the others": [("            dist.broadcast(p.detach(), owner)\n", "")],
        "it never changes, on any rank": [
            ("broadcast(p.detach(), owner)", "broadcast(p.detach(), 0)"),
        ],
        "not one of zeros": [
            (NUMBERED, "list(enumerate(model.parameters()))"),
            ("        numbered", "        for p in model.parameters():\n"
             "            p.grad = torch.zeros_like(p) if p.grad is None else p.grad\n"
             "        numbered"),
        ],
        "Who puts zeros there?": [("zero_grad()", "zero_grad(set_to_none=False)")],
        "each step begins with a new optimizer": [
            ("                if p not in optimizers:\n    ", ""),
        ],
        "that of some steps is on one rank": [
            (OWNER, "            owner = (number + (len(numbered) < 5)) % n\n"),
        ],
        "what does this step take over": [("        model.zero_grad()\n", "")],
        "nothing is saved: the owner alone": """
def train_by_owner(model, loss_fn, batches, make_optimizer):
    optimizer = make_optimizer(model.parameters())
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
        optimizer.step()
""",
        "so each has about as many": [(OWNER, "            owner = 0\n")],
        "different gradients, or each has kept": """
def train_by_owner(model, loss_fn, batches, make_optimizer):
    optimizer = make_optimizer(model.parameters())
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        optimizer.step()
""",
    },
    "6.8": {
        "whatever names are deleted": [
            (MINE, "    mine = chunks[rank]\n"),
            ("    return", "    del flat, chunks\n    return"),
        ],
        "as many bytes as any other": [(NONE, "        p.grad = torch.zeros_like(p)\n")],
        "`del` of such a name": [(NONE, "        grad = p.grad\n        del grad\n")],
        "gradients are summed up; asked": [("mine.div_(n)", "mine")],
        "divided by the number of ranks once more": [("mine.div_(n)", "mine.div_(n * n)")],
        "divided by n, and nothing has been added": [
            (MINE, "    mine = chunks[rank].clone()\n"),
            ("    dist.reduce_scatter(mine, chunks)\n", ""),
        ],
        "the rank's own gradient": [
            (MINE, "    mine = chunks[rank].clone()\n"),
            ("    dist.reduce_scatter(mine, chunks)\n", ""), ("mine.div_(n)", "mine"),
        ],
        "this is rank 0's part": [
            ("    return mine.div_(n)", "    mine /= n\n    dist.broadcast(mine, 0)\n"
             "    return mine"),
        ],
        "that is all of it, with padding": [
            (MINE, ""), ("reduce_scatter(mine, chunks)", "all_reduce(flat)"),
            ("mine.div_(n)", "flat.div_(n)"),
        ],
        "all parts are equally long": [
            ("    return mine.div_(n)", "    length = sum(p.numel() for p in parameters)\n"
             "    return mine.div_(n)[: max(0, length - rank * len(mine))]"),
        ],
        NO_RETURN: [("    return mine.div_(n)", "    mine.div_(n)")],
    },
    "6.12": {
        "keeps its weight until its backward": [
            (AGAIN, ""), ("buffer = buffer\n", "buffer = buffer.clone()\n"),
        ],
        "splits the weights so that nobody": [
            (AGAIN, ""), ("(x, shard)\n", "(x, shard, buffer.clone())\n"),
            ("x, shard =", "x, shard, weight ="), ("slope @ ctx.buffer", "slope @ weight"),
        ],
        "need not be kept": [  # a buffer for each layer
            ("        dist.all_gather(list(buffer.", "        buffer = torch.empty_like(buffer)\n"
             "        dist.all_gather(list(buffer."),
        ],
        "is the sum over the ranks": [("slope.T @ x / n", "slope.T @ x")],
        "is divided by the number of ranks twice": [("slope.T @ x / n", "slope.T @ x / n / n")],
        "of this rank's own loss: those": [
            ("        dist.reduce_scatter(mean, list((slope.T @ x / n).view(-1).chunk(n)))\n",
             "        mean = (slope.T @ x).view(-1).chunk(n)[dist.get_rank()]\n"),
        ],
        "of this rank's own loss, divided by n": [
            ("        dist.reduce_scatter(mean, list((slope.T @ x / n).view(-1).chunk(n)))\n",
             "        mean = (slope.T @ x / n).view(-1).chunk(n)[dist.get_rank()]\n"),
        ],
        "is not to be divided by n": [("slope @ ctx.buffer", "slope @ ctx.buffer / n")],
        "is not to be added up over the ranks": [
            ("        return slope @ ctx.buffer", "        of_x = slope @ ctx.buffer\n"
             "        dist.all_reduce(of_x)\n        return of_x"),
        ],
        "is not to be averaged": [
            ("        return slope @ ctx.buffer", "        of_x = slope @ ctx.buffer / n\n"
             "        dist.all_reduce(of_x)\n        return of_x"),
        ],
        "is there too late": [
            (AGAIN, ""),
            ("        return slope @ ctx.buffer", "        of_x = slope @ ctx.buffer\n"
             + AGAIN + "        return of_x"),
        ],
        "passed through the weight of layer 3": [  # gathered, and not used
            (AGAIN, "        weights = [torch.empty_like(shard) for _ in range(n)]\n"
                    "        dist.all_gather(weights, shard)\n"),
        ],
        "the forward was right": [("x @ buffer.T", "torch.tanh(x @ buffer.T)")],
    },
    "6.14": {
        "what reduce_scatter gives is a sum": [("mine / n", "mine")],
        "nothing is divided by how many there are": [(SHARE, "")],
        "of all ranks; asked is the mean": [(SHARE, ""), ("mine / n", "mine")],
        "by the number of micro-batches twice": [(SHARE, SHARE * 2)],
        "by the number of ranks three times": [("mine / n", "mine / n / n / n")],
        "by the number of ranks twice, and by that of": [(SHARE, f"{SHARE * 2} / n")],
        "ranks twice, and not by that": [(SHARE, " / n")],
        "Follow one micro-batch": [("mine / n", "mine / n**2")],
        "only the last micro-batch counts": [("total +=", "total =")],
        "only the first micro-batch counts": [("in micro_batches:", "in micro_batches[:1]:")],
        "the rank's own micro-batches": [
            ("        dist.reduce_scatter(mine, chunks)\n",
             "        mine = chunks[dist.get_rank()]\n"),
        ],
        "an early micro-batch counts several times": [
            ("torch.autograd.grad(loss, parameters)", "loss.backward()"),
            ("gradient.reshape(-1) for gradient in gradients",
             "p.grad.reshape(-1) for p in parameters"),
        ],
        "torch.autograd.grad leaves nothing": [
            ("torch.autograd.grad(loss, parameters)",
             "model.zero_grad() or loss.backward() or [p.grad for p in parameters]"),
        ],
        "this is rank 0's part": [
            ("    return total", "    dist.broadcast(total, 0)\n    return total"),
        ],
        "with padding: return this rank's part": [
            ("    return total", "    whole = total.new_empty(n * len(total))\n"
             "    dist.all_gather_into_tensor(whole, total)\n    return whole"),
        ],
        NO_RETURN: [("    return total\n", "")],
    },
}  # fmt: skip


def programs(number, table) -> dict[str, str]:
    """{name: program} of a table for one exercise."""
    return {name: changed(SOLVED[number], pairs) for name, pairs in table[number].items()}


@functools.cache
def together(number, kind) -> Together:
    table = {"right": RIGHT, "wrong": WRONG}[kind]
    return Together([define(number, program) for program in programs(number, table).values()])


def names_in(table):
    return [(number, name) for number, of in table.items() for name in of]


@pytest.mark.parametrize(("number", "style"), names_in(RIGHT))
def test_right_repairs_of_another_style(number, style, monkeypatch):
    monkeypatch.setattr(MODULE[number], "try_on_ranks", together(number, "right"))
    verdict = check(number, define(number, programs(number, RIGHT)[style]))
    assert verdict.passed, verdict


@pytest.mark.parametrize(("number", "phrase"), names_in(WRONG))
def test_wrong_repairs_are_told_what_is_wrong(number, phrase, monkeypatch):
    monkeypatch.setattr(MODULE[number], "try_on_ranks", together(number, "wrong"))
    verdict = check(number, define(number, programs(number, WRONG)[phrase]))
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


# ---- Those that raise, hang, or are right in the first case ------------------------------------

# {number: {phrase: what is changed in the solution}}
STUMBLES = {
    "6.5": {
        "Is the last one shorter?": [("F.pad(values, (0, each * n - length))", "values.clone()")],
        "the zeros stand before the numbers": [
            ("(values, (0, each * n - length))", "(values, (each * n - length, 0))"),
        ],
        "that is with padding: cut it off": [("return flat[:length]", "return flat")],
        "all of them, and without padding": [("gradient_of(flat[:length], step)",
                                              "gradient_of(flat, step)[:length]")],
        "the numbers of the model, all of them": [
            ("each = -(-length // n)", "each = length // n"),
        ],
        "there have to be n parts": [
            (PADS, "    each = -(-length // n)\n    flat = F.pad(values, (0, n - length % n))\n"),
            ("[flat[k * each :][:each] for k in range(n)]", "list(flat.split(each))"),
        ],
        "also one whose part is only padding": [
            ("    for step in", "    if rank * each >= length:\n        return values\n"
             "    for step in"),
        ],
    },
    "6.6": {
        "its `.grad` is None": [(NUMBERED, "list(enumerate(model.parameters()))")],
        "p.detach() has the same memory": [("optimizers[p].step()", "p -= 0.1 * p.grad")],
        "the same order: the owner and the others": [
            ("            dist.broadcast(p.det", "                dist.broadcast(p.det"),
        ],
        "alone is to have the optimizer's state for a parameter": [
            ("reduce(p.grad, owner)", "all_reduce(p.grad)"),
            ("if rank == owner", "if rank in (owner, (owner + 1) % 3)"),
        ],
    },
    "6.8": {
        "first copy all of them": [
            ("    flat = torch", "    for p in parameters:\n" + NONE + "    flat = torch"),
        ],
        "have to be equally long": [
            ("    flat = F.pad(flat, (0, -len(flat) % n))\n", ""),
            (MINE, "    mine = torch.empty_like(chunks[0])\n"),
        ],
    },
    "6.12": {
        "has kept the buffer itself": [
            (AGAIN, ""), ("(x, shard)\n", "(x, shard, buffer)\n"),
            ("x, shard =", "x, shard, weight ="), ("slope @ ctx.buffer", "slope @ weight"),
        ],
        "a part as long as the shard": [
            ("slope @ ctx.buffer, mean", "slope @ ctx.buffer, slope.T @ x"),
        ],
        "one for each argument of forward": [(", mean, None", ", mean")],
        "they have gradients": [(", mean, None", ", None, None")],
        "buffer.view(-1).chunk(n)": [
            ("ctx.buffer.view(-1).chunk(n)", "ctx.buffer.chunk(n)"),
        ],
        "what forward has put there": [("        ctx.buffer = buffer\n", "")],
        "in the backward as well": [(AGAIN, "        if dist.get_rank():\n    " + AGAIN)],
    },
    "6.14": {
        "pad the flat gradient": [
            ("F.pad(flat, (0, -len(flat) % n))", "flat"),
        ],
        "backward() does the opposite": [
            ("gradient.reshape(-1) for gradient in gradients",
             "p.grad.reshape(-1) for p in parameters"),
        ],
        "for each of its micro-batches": [
            ("        dist.reduce", "        if dist.get_rank() == 0:\n            dist.reduce"),
        ],
    },
}  # fmt: skip


HANGS = ("whose part is only padding", "the owner and the others", "as well", "micro-batches")


@pytest.mark.parametrize(("number", "phrase"), names_in(STUMBLES))
def test_answers_that_stumble(number, phrase, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.0 if phrase.endswith(HANGS) else 6.0)
    verdict = check(number, define(number, programs(number, STUMBLES)[phrase]))
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


def test_a_function_is_no_autograd_function():
    verdict = check("6.12", lambda x, shard, buffer: x @ buffer.T)
    assert "it is to remain a class ShardedLinear" in verdict.wrong.why, verdict


# ---- The check itself --------------------------------------------------------------------------


@pytest.mark.parametrize("number", SOLVED)
def test_there_are_enough_of_all(number):
    assert len(WRONG[number]) + len(STUMBLES[number]) >= 8
    assert len(RIGHT[number]) >= 3
    assert 2 <= len(EXERCISES[number].hints) <= 4
    assert len(SOLVED[number].splitlines()) <= 18


@pytest.mark.parametrize(("n", "pieces"), [(2, 3), (3, 4)])
def test_factors_can_be_told_apart(n, pieces):
    factors = [1.0, *broken_stages.factors(n, pieces).values()]
    assert len({round(factor, 9) for factor in factors}) == len(factors)
