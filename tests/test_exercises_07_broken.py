"""Chapter 07's programs with a bug: right repairs pass, and each wrong one is told its symptom.

Wrong answers that run to their ends are tried in the same worlds: see Together.
"""

import functools
import linecache
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import ROOT, put_lab

from pedagogy_lib import check, launch
from pedagogy_lib.course import checking
from pedagogy_lib.course.labs import find_lab
from pedagogy_lib.exercises import (
    broken_blocks,
    broken_regions,
    dropping,
    row_first,
    summed_in_place,
)

MODULE = {"7.6": row_first, "7.7": broken_regions, "7.8": broken_blocks,
          "7.9": summed_in_place, "7.13": dropping}  # fmt: skip
EXERCISES = {number: module.EXERCISES[0] for number, module in MODULE.items()}
LAB = (ROOT / "solutions" / "labs" / "tensor_parallel.py").read_text()
# Every rank of every check reads the lab: here it is without what these cells do not use.
LAB = LAB.partition("# ---- Layers")[0] + LAB[LAB.index("# ---- Rand") : LAB.index("# ---- The pr")]
OTHERS = {
    "collectives": "all_gather_ring = None\n",
    "language_model": "CHARACTERS = 96\nTransformer = draw_batch = mean_loss = None\n"
    "standard_library = None\n",
    "simple_ddp": "now = None\n",
}


@pytest.fixture(scope="module", autouse=True)
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course")
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, text in {**OTHERS, "tensor_parallel": LAB}.items():
            put_lab(folder, monkeypatch, name, text, text)
        yield


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@functools.cache
def define(number, program):
    """The function of a program, as a cell would define it."""
    name, file = EXERCISES[number].name, f"cell of {number}"
    space = {"__name__": "__main__", "torch": torch, "dist": dist, "F": F}
    space["tensor_parallel"] = the_lab()
    exec(compile(program, file, "exec"), space)
    linecache.cache[file] = (len(program), None, program.splitlines(keepends=True), file)
    return space[name]


@functools.cache
def the_lab():
    return find_lab("tensor_parallel")


def changed(number, pairs) -> str:
    """A solution in which some parts are others; or a program of its own."""
    if isinstance(pairs, str):
        return pairs
    program = SOLVED[number]
    for old, new in pairs:
        assert program.count(old) == 1, (old, program)
        program = program.replace(old, new)
    return program


def checked(number, pairs):
    return check(number, define(number, changed(number, pairs)))


# ---- The solutions, and what a learner gets ----------------------------------------------------

SOLVED = {
    "7.6": """
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    hidden = F.gelu(x @ a.chunk(n, dim=1)[rank])
    y = hidden @ b.chunk(n, dim=0)[rank]
    dist.all_reduce(y)
    return y
""",
    "7.7": """
def row_layer(x, weight, bias):
    return tensor_parallel.AllReduce.apply(F.linear(x, weight)) + bias
""",
    "7.8": """
def residual_mlp(x, norm, up, down, bias):
    h = tensor_parallel.Copy.apply(norm(x))
    hidden = F.gelu(F.linear(h, up))
    return x + tensor_parallel.AllReduce.apply(F.linear(hidden, down)) + bias
""",
    "7.9": """
class SumOfExperts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, y):
        total = y.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, gradient):
        return gradient
""",
    "7.13": """
def dropped_mlp(hidden, weight, p, randomness):
    with randomness:
        hidden = F.dropout(hidden, p)
    y = tensor_parallel.AllReduce.apply(F.linear(hidden, weight))
    return F.dropout(y, p)
""",
}
SOLVED = {number: program.lstrip() for number, program in SOLVED.items()}
ROW_FIRST = """
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    hidden = x.chunk(n, dim=-1)[rank] @ a.chunk(n, dim=0)[rank]
    hidden = F.gelu(hidden)
    columns = hidden @ b.chunk(n, dim=1)[rank]
    parts = [torch.empty_like(columns) for _ in range(n)]
    dist.all_gather(parts, columns)
    return torch.cat(parts, dim=-1)
"""
DROP = "    with randomness:\n        hidden = F.dropout(hidden, p)\n"

# {number: (its bug, the symptom that is told, and what that says)}
BROKEN = {
    "7.6": (
        ROW_FIRST,
        "2 ranks, 8 inputs, 16 hidden features: rank 0: y is off by up to 11",
        "is GELU(p + q) = GELU(p) + GELU(q)?",
    ),
    "7.7": (
        [("weight)) + bias", "weight, bias))")],
        "2 ranks, x [3, 2]: rank 0: every row of y is off by the same numbers: ",
        "with 1 rank it is right",
    ),
    "7.8": (
        [("tensor_parallel.Copy.apply(norm(x))", "norm(x)")],
        "2 ranks: y is right. Wrong is the gradient of x, norm.weight, norm.bias on ranks 0, 1",
        "the ranks' norms drift apart",
    ),
    "7.9": (
        [("        total = y.clone()\n", "        total = y\n")],
        "2 ranks, relu before it: the sum is right on rank 0, the gradient of its matrix is off",
        "What is in that memory by then?",
    ),
    "7.13": (
        [(DROP, "    hidden = F.dropout(hidden, p)\n")],
        "2 ranks, p = 0.5: ranks 0 and 1 have dropped the same 517 of 1024 features",
        "at the same place of their parts",
    ),
}


@pytest.mark.parametrize("number", BROKEN)
def test_the_program_as_it_is(number):
    program, symptom, why = BROKEN[number]
    verdict = checked(number, program)
    assert verdict.passed is False, verdict
    assert symptom in f"{verdict.wrong.case}: {verdict.wrong.what}", verdict
    assert why in verdict.wrong.why, verdict


TOLD = {"7.13": " of 1024 places; 512 are expected by chance"}  # of a right answer


@pytest.mark.parametrize("number", SOLVED)
def test_the_solution(number):
    verdict = checked(number, SOLVED[number])
    assert verdict.passed, verdict
    assert len(verdict.lines) >= 3
    assert TOLD.get(number, "") in repr(verdict)


@pytest.mark.parametrize("number", SOLVED)
def test_an_empty_cell(number):
    name = EXERCISES[number].name
    verdict = checked(number, f"def {name}(*arguments):\n    ...\n")
    assert verdict.passed is None
    assert f"write {name} in its cell" in repr(verdict)


# ---- Right repairs of another style ------------------------------------------------------------

RIGHT = {
    "7.6": {
        "autograd's all-reduce, and indices": """
def split_mlp(x, a, b):
    each = a.shape[1] // dist.get_world_size()
    mine = slice(dist.get_rank() * each, (dist.get_rank() + 1) * each)
    return tensor_parallel.AllReduce.apply(F.gelu(F.linear(x, a.T[mine])) @ b[mine])
""",
        "tensor_split and einsum": """
def split_mlp(x, a, b):
    rank, n = dist.get_rank(), dist.get_world_size()
    a, b = a.tensor_split(n, dim=-1)[rank], b.tensor_split(n)[rank]
    y = torch.einsum("sh,hw->sw", F.gelu(torch.einsum("sw,wh->sh", x, a)), b)
    dist.all_reduce(y, async_op=True).wait()
    return y
""",
    },
    "7.7": {
        "added by a function": """
def row_layer(x, weight, bias):
    return torch.add(bias, tensor_parallel.leave(x @ weight.T))
""",
        "in place, behind the sum": """
def row_layer(x, weight, bias):
    y = tensor_parallel.AllReduce.apply(torch.einsum("...i,oi->...o", x, weight))
    y += bias
    return y
""",
    },
    "7.8": {
        "three copies before the norm": [
            ("    h = tensor_parallel.Copy.apply(norm(x))\n",
             "    x_in, w, b = map(tensor_parallel.Copy.apply, (x, norm.weight, norm.bias))\n"
             "    h = F.layer_norm(x_in, w.shape, w, b, norm.eps)\n"),
        ],
        "a hook": [
            ("tensor_parallel.Copy.apply(norm(x))",
             "norm(x)\n    h.register_hook(tensor_parallel.summed)"),
        ],
        "another order": """
def residual_mlp(x, norm, up, down, bias):
    y = F.gelu(tensor_parallel.enter(norm(x)) @ up.T) @ down.T
    return tensor_parallel.leave(y).add(x).add(bias)
""",
    },
    "7.9": {
        "gathered": [
            ("        total = y.clone()\n        dist.all_reduce(total)\n        return total\n",
             "        parts = [torch.empty_like(y) for _ in range(dist.get_world_size())]\n"
             "        dist.all_gather(parts, y.contiguous())\n        return sum(parts)\n"),
        ],
        "zeros first": [("y.clone()", "y + 0")],
    },
    "7.13": {
        "by hand": [
            (DROP, "    randomness.__enter__()\n    hidden = F.dropout(hidden, p)\n"
                   "    randomness.__exit__()\n"),
        ],
        "the sum inside as well, with a mask": """
def dropped_mlp(hidden, weight, p, randomness):
    with randomness:
        mask = F.dropout(torch.ones_like(hidden), p)
        y = tensor_parallel.AllReduce.apply((hidden * mask) @ weight.T)
    return torch.nn.Dropout(p)(y)
""",
    },
}  # fmt: skip


def without_one_rank(module):
    return tuple(n for n in module.WORLDS if n > 1)


def names_in(table):
    return [(number, name) for number, of in table.items() for name in of]


@pytest.mark.parametrize(("number", "style"), names_in(RIGHT))
def test_right_repairs_of_another_style(number, style, monkeypatch):
    monkeypatch.setattr(MODULE[number], "WORLDS", without_one_rank(MODULE[number]))
    verdict = checked(number, RIGHT[number][style])
    assert verdict.passed, verdict


# ---- Wrong repairs -----------------------------------------------------------------------------

REDUCED = "    hidden = F.gelu(hidden)\n"
COPY = "tensor_parallel.Copy.apply"
SUMMED = "tensor_parallel.AllReduce.apply"
FORWARD = "        total = y.clone()\n        dist.all_reduce(total)\n        return total\n"


def row_first_with(pairs):
    program = ROW_FIRST
    for old, new in pairs:
        assert program.count(old) == 1, old
        program = program.replace(old, new)
    return program


# {number: {phrase of the diagnosis: what is changed in the solution}}
WRONG = {
    "7.6": {
        "Is there a cut of `a` with which": row_first_with([
            (REDUCED, "    dist.all_reduce(hidden)\n" + REDUCED),
        ]),
        "is not GELU(p + q)": row_first_with([
            (REDUCED, REDUCED + "    dist.all_reduce(hidden)\n"),
        ]),
        "where is the GELU?": [("F.gelu(x @ a.chunk(n, dim=1)[rank])",
                                "x @ a.chunk(n, dim=1)[rank]")],
        "belongs between the two": [
            ("F.gelu(x @ a.chunk(n, dim=1)[rank])", "x @ a.chunk(n, dim=1)[rank]"),
            ("return y", "return F.gelu(y)"),
        ],
        "which nobody has added up": [("    dist.all_reduce(y)\n", "")],
        "to be added, not averaged": [("return y", "return y / n")],
        "every rank does the work of all": """
def split_mlp(x, a, b):
    return F.gelu(x @ a) @ b
""",
        "more is sent than one all-reduce": [
            ("all_reduce(y)\n", "all_reduce(y)\n    dist.broadcast(y, 0)\n"),
        ],
        "gets everybody's summands": [
            ("    dist.all_reduce(y)\n    return y",
             "    parts = [torch.empty_like(y) for _ in range(n)]\n"
             "    dist.all_gather(parts, y)\n    return sum(parts)"),
        ],
        "needs its own hidden features alone": [
            ("    y = hidden @ b.chunk(n, dim=0)[rank]\n    dist.all_reduce(y)\n    return y",
             "    parts = [torch.empty_like(hidden) for _ in range(n)]\n"
             "    dist.all_gather(parts, hidden)\n"
             "    y = torch.cat(parts, 1) @ b.chunk(n, 1)[rank]\n"
             "    parts = [torch.empty_like(y) for _ in range(n)]\n"
             "    dist.all_gather(parts, y)\n    return torch.cat(parts, 1)"),
        ],
        "their sum has it n times": [
            ("a.chunk(n, dim=1)[rank]", "a"), ("b.chunk(n, dim=0)[rank]", "b"),
        ],
        "the same part of a and b": [("dim=1)[rank]", "dim=1)[0]"), ("dim=0)[rank]", "dim=0)[0]")],
        "has other columns than": [("dim=0", "dim=1")],
        "works in place, and returns None": [("    dist.all_reduce(y)\n    return y",
                                         "    return dist.all_reduce(y)")],
        "others do not: all of them need it": [("all_reduce(y)", "reduce(y, 0)")],
    },
    "7.7": {
        "the bias learns more slowly": [
            ("weight)) + bias", "weight, bias / dist.get_world_size()))"),
        ],
        "only one rank's copy": [
            ("weight)) + bias", "weight, bias if dist.get_rank() == 0 else None))"),
        ],
        "one rank's copy learns": [("weight)) + bias", "weight, bias * (dist.get_rank() == 0)))")],
        "a share of the bias": [("+ bias", "+ bias / dist.get_world_size()")],
        "no bias in y": [(" + bias", "")],
        "on no rank will it learn": [("+ bias", "+ bias.detach()")],
        "that is not once": [
            ("weight)) + bias", "weight, bias)) - (dist.get_world_size() - 1) * bias"),
        ],
        "nobody has added that up": [(SUMMED, "")],
        "added, not averaged": [(") + bias", ") / dist.get_world_size() + bias")],
        "Added up again it is n times too large": """
def row_layer(x, weight, bias):
    import torch.distributed.nn
    return torch.distributed.nn.functional.all_reduce(F.linear(x, weight)) + bias
""",
        "nothing is sent in the backward": [
            ("F.linear(x, weight)) + bias",
             "F.linear(x, weight, tensor_parallel.Copy.apply(bias) / dist.get_world_size()))"),
        ],
        "autograd does not know dist.all_reduce": """
def row_layer(x, weight, bias):
    y = F.linear(x, weight)
    dist.all_reduce(y)
    return y + bias
""",
        "y has no history": [("F.linear(x, weight)) + bias",
                              "F.linear(x, weight)).detach() + bias.detach()")],
    },
    "7.8": {
        "Where does what is the same on all ranks end": [
            (f"{COPY}(norm(x))", f"norm({COPY}(x))"),
        ],
        "And the norm's parameters still have": [
            (f"    h = {COPY}(norm(x))", f"    x = {COPY}(x)\n    h = norm(x)"),
        ],
        "but what goes on through the norm": [
            (f"{COPY}(norm(x))",
             f"F.layer_norm(x, x.shape[-1:], {COPY}(norm.weight), {COPY}(norm.bias))"),
        ],
        "and counts n times": [
            (f"    h = {COPY}(norm(x))\n",
             f"    x = {COPY}(x)\n    w, b = {COPY}(norm.weight), {COPY}(norm.bias)\n"
             "    h = F.layer_norm(x, x.shape[-1:], w, b)\n"),
        ],
        "the gradients of different features are mixed": [
            (f"{COPY}(norm(x))", "norm(x)"),
            ("F.linear(hidden, down)", f"F.linear({COPY}(hidden), down)"),
        ],
        "complete on each": [("F.linear(hidden, down)", f"{COPY}(F.linear(hidden, down))")],
        "has been added up over the ranks in the forward": [(COPY, SUMMED)],
        "a Copy before it sums once more": [(f"{COPY}(norm(x))", f"{COPY}(norm({COPY}(x)))")],
        "over the ranks twice": [(f"    h = {COPY}", f"    x = {COPY}(x)\n    h = {COPY}")],
        "nobody has added up the ranks'": [(SUMMED, "")],
        "parts of a sum": [
            (f"{COPY}(norm(x))", "norm(x)\n"
             "    mean = lambda g: tensor_parallel.summed(g) / dist.get_world_size()\n"
             "    h.register_hook(mean)"),
        ],
        "what does a call leave behind": [
            (f"{COPY}(norm(x))", f"norm({COPY}(x))\n    for p in norm.parameters():\n"
                                 "        p.register_hook(tensor_parallel.summed)"),
        ],
        "no residual": [("return x +", "return")],
    },
    "7.9": {
        "before it was copied": [(FORWARD, "        dist.all_reduce(y)\n"
                                           "        return y.clone()\n")],
        "What is in that memory by then": [("clone", "detach")],
        "after sigmoid not": [
            (FORWARD, "        ctx.save_for_backward(y > 0)\n        dist.all_reduce(y)\n"
                      "        return y\n"),
            ("return gradient", "return gradient * ctx.saved_tensors[0]"),
        ],
        "it is n times too large": [
            ("        return gradient", "        gradient = gradient.clone()\n"
             "        dist.all_reduce(gradient)\n        return gradient"),
        ],
        "by each of its summands is 1": [
            ("return gradient", "return gradient / dist.get_world_size()"),
        ],
        "backward returns None": [("return gradient", "gradient.clone()")],
        "leaves the sum in the copy": [("return total", "return y + 0")],
        "asked is the sum": [("return total", "return total / dist.get_world_size()")],
        "a function without `return`": [("        return total\n", "")],
        "others may have it, too": [("return gradient", "return gradient.mul_(1).add_(0)"
                                     ".sub_(1).add(1)")],
    },
    "7.13": {
        "up to where?": [("    y =", "    randomness.__enter__()\n    y =")],
        "holds for all that is drawn": [(DROP, "    torch.manual_seed(dist.get_rank())\n"
                                               "    hidden = F.dropout(hidden, p)\n")],
        "whatever begins anew": [
            (DROP, "    with torch.random.fork_rng():\n"
                   "        torch.manual_seed(dist.get_rank())\n"
                   "        hidden = F.dropout(hidden, p)\n"),
        ],
        "as long as it is the same object": [
            ("    with randomness", "    with tensor_parallel.OwnRandomness(0)"),
        ],
        "without drawing there is no dropout": [(DROP, "")],
        "the second one works on y": [("return F.dropout(y, p)", "return y")],
        "on however many ranks": [
            ("F.dropout(hidden, p)", "F.dropout(hidden, p / dist.get_world_size())"),
        ],
        "drawn from this rank's own stream": [
            ("    with randomness:\n    ", ""),
            ("    return F", "    with randomness:\n        return F"),
        ],
        "draws no more than": [
            (DROP, "    n, rank = dist.get_world_size(), dist.get_rank()\n"
                   "    mask = F.dropout(hidden.new_ones(len(hidden), n * hidden.shape[1]), p)\n"
                   "    hidden = hidden * mask.chunk(n, dim=1)[rank]\n"),
        ],
        "has it been overwritten": [
            ("    return F.dropout(y, p)",
             "    with randomness:\n        y = F.dropout(y, p)\n"
             "    dist.broadcast(y.detach(), 0)\n    return y"),
        ],
        "draws the same numbers in each call": [
            ("    return", "    torch.manual_seed(3)\n    return"),
        ],
        "is divided by 1 - p, once": [
            ("F.dropout(hidden, p)", "hidden * (torch.rand_like(hidden) > p)"),
        ],
    },
}  # fmt: skip


ALONE = (  # those that raise, and those whose calls are looked at
    "has other columns than", "Is there a cut of `a` with which", "every rank does the work of all",
    "more is sent than one all-reduce", "gets everybody's summands",
    "needs its own hidden features alone", "nothing is sent in the backward",
)  # fmt: skip


class Together:
    """Takes the place of try_on_ranks: tries many answers in one world for each case."""

    def __init__(self, answers):
        self.answers, self.runs = answers, {}

    def __call__(self, case, function, answer, *args, world_size, explain):
        if case not in self.runs:
            settings = {"world_size": world_size, "device": "cpu", "seed": [*range(world_size)]}
            self.runs[case] = launch(try_all, function, self.answers, *args, **settings)
        index = self.answers.index(answer)
        return SimpleNamespace(values=[of_rank[index] for of_rank in self.runs[case].values])


def try_all(function, answers, *args):
    return [function(answer, *args) for answer in answers]


@functools.cache
def together(number) -> Together:
    table = {phrase: pairs for phrase, pairs in WRONG[number].items() if phrase not in ALONE}
    return Together([define(number, changed(number, pairs)) for pairs in table.values()])


@pytest.mark.parametrize(("number", "phrase"), names_in(WRONG))
def test_wrong_repairs_are_told_what_is_wrong(number, phrase, monkeypatch):
    monkeypatch.setattr(MODULE[number], "WORLDS", without_one_rank(MODULE[number]))
    if phrase not in ALONE:
        monkeypatch.setattr(MODULE[number], "try_on_ranks", together(number))
    verdict = checked(number, WRONG[number][phrase])
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


def test_autograd_hears_of_a_change():
    verdict = checked("7.9", [
        (FORWARD, "        dist.all_reduce(y)\n        ctx.mark_dirty(y)\n        return y\n"),
    ])  # fmt: skip
    assert "To tell of a damage" in verdict.wrong.why, verdict


HANGING = {
    "7.6": [("    dist.all_reduce(y)", "    if rank == 0:\n        dist.all_reduce(y)")],
    "7.13": [("    return", "    if dist.get_rank():\n        dist.barrier()\n    return")],
}


@pytest.mark.parametrize("number", HANGING)
def test_a_rank_that_waits(number, monkeypatch):
    monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 1.0)
    verdict = checked(number, HANGING[number])
    assert "every rank has to make the same calls" in verdict.wrong.why, verdict


def test_a_fault_of_the_lab_is_told_first(tmp_path, monkeypatch):
    """Copy does not sum: that is not the cell's fault."""
    monkeypatch.setattr(broken_blocks, "WORLDS", (2,))
    fault = LAB.replace("return ctx.total(gradient, ctx.group), None", "return gradient, None")
    for name, text in {**OTHERS, "tensor_parallel": fault}.items():
        put_lab(tmp_path, monkeypatch, name, text, LAB if text == fault else text)
    function = define("7.8", SOLVED["7.8"] + "# with another lab\n")
    monkeypatch.setitem(function.__globals__, "tensor_parallel", find_lab("tensor_parallel"))
    verdict = check("7.8", function)
    assert 'First: check("7.2")' in verdict.wrong.why, verdict


def test_a_function_is_no_autograd_function():
    verdict = check("7.9", lambda y: y)
    assert "it is to remain a class SumOfExperts" in verdict.wrong.why, verdict


@pytest.mark.parametrize("number", SOLVED)
def test_there_are_hints(number):
    assert 2 <= len(EXERCISES[number].hints) <= 4
    assert len(SOLVED[number].splitlines()) <= 18
