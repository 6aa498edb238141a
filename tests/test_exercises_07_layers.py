"""Chapter 07, regions and layers: right answers pass, and each wrong one is told what is wrong.

Answers that make the same calls on all ranks are tried in one launch: see Together.
"""

from types import SimpleNamespace

import pytest
from helpers import ROOT, put_lab

from pedagogy_lib import check, launch
from pedagogy_lib.basics.errors import RankError
from pedagogy_lib.course import checking
from pedagogy_lib.course.labs import find_lab
from pedagogy_lib.exercises import cutting, one_world, regions, sharding, split_layers

MODULES = cutting, regions, split_layers
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}
LAB = (ROOT / "solutions" / "labs" / "tensor_parallel.py").read_text()
SOLVED = {  # the labs without what only their models and programs need: every rank reads them
    "tensor_parallel": LAB.partition("class VocabularyEmbedding")[0],
    "collectives": "all_gather_ring = None",
    "language_model": "CHARACTERS = Transformer = draw_batch = mean_loss = standard_library = None",
    "simple_ddp": "now = None",
}


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check an exercise whose function or class is another one in the learner's file.

    Without our solution beside it, which takes as long to read, unless it is needed.
    """

    def check_one(number, source="", solution=None):
        for name, text in SOLVED.items():
            put_lab(tmp_path, monkeypatch, name, text)
        learners = f"{SOLVED['tensor_parallel']}\n\n{source}"
        put_lab(tmp_path, monkeypatch, "tensor_parallel", learners, solution)
        return check(number)

    return check_one


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: source} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): source for phrase, _, source in parts}


RIGHT = {
    "7.1": """### by its ends
def cut(x, dim, group=None, unit=1):
    "Exercise 7.1."
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    sizes = part_sizes(x.shape[dim], n, unit)
    part = x.narrow(dim, sum(sizes[:rank]), sizes[rank])
    return torch.empty(part.shape, dtype=x.dtype, device=x.device).copy_(part)
### by indices
def cut(x, dim, group=None, unit=1):
    "Exercise 7.1."
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    units = torch.arange(x.shape[dim]).view(-1, unit).tensor_split(n)[rank]
    return x.index_select(dim, units.flatten())
### cloned in order
def cut(x, dim, group=None, unit=1):
    "Exercise 7.1."
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    return x.split(part_sizes(x.size(dim), n, unit), dim=dim)[rank].clone().contiguous()
""",
    "7.2": """### x itself
class Copy(torch.autograd.Function):
    "Exercise 7.2."
    @staticmethod
    def forward(ctx, x, group=None, total=summed):
        ctx.add_up = lambda gradient: total(gradient, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return ctx.add_up(gradient), None, None
### with setup_context
class Copy(torch.autograd.Function):
    "Exercise 7.2."
    @staticmethod
    def forward(x, group=None, total=summed):
        return x.view(x.shape)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.rest = inputs[1:]

    @staticmethod
    def backward(ctx, gradient):
        group, total = [*ctx.rest, *[None, summed][len(ctx.rest):]]
        if not ctx.needs_input_grad[0]:
            return None, None, None
        return total(gradient.contiguous(), group), None, None
""",
    "7.3": """### a copy is added up
class AllReduce(torch.autograd.Function):
    "Exercise 7.3."
    @staticmethod
    def forward(ctx, x, group=None, total=summed):
        y = total(x.detach().clone(), group=group)
        return y

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None, None
### the gradient's view
class AllReduce(torch.autograd.Function):
    "Exercise 7.3."
    @staticmethod
    def forward(ctx, x, group=None, total=summed):
        ctx.set_materialize_grads(False)
        return total(x, group)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.view_as(gradient), None, None
""",
    "7.4": """### a product, and parameters by hand
class ColumnLinear(nn.Module):
    "Exercise 7.4."
    def __init__(self, linear, group=None, unit=1, enter=enter):
        super().__init__()
        self.way = lambda x: enter(x, group)
        for name in "weight", "bias":
            self.register_parameter(name, self.mine(getattr(linear, name), group, unit))

    def mine(self, whole, group, unit):
        if whole is None:
            return None
        mine = nn.Parameter(cut(whole.data, 0, group, unit))
        mine.requires_grad_(whole.requires_grad)
        mine.cut_dim, n = 0, dist.get_world_size(group)
        mine.cut_sizes = part_sizes(len(whole), n, unit)
        return mine

    def forward(self, x):
        y = self.way(x) @ self.weight.T
        return y if self.bias is None else y + self.bias
### a linear layer itself
class ColumnLinear(nn.Linear):
    "Exercise 7.4."
    def __init__(self, linear, group=None, unit=1, enter=enter):
        weight = part_of(linear.weight, 0, group, unit)
        super().__init__(weight.shape[1], len(weight), linear.bias is not None, device="meta")
        self.group, self.enter, self.weight = group, enter, weight
        if linear.bias is not None:
            self.bias = part_of(linear.bias, 0, group, unit)

    def forward(self, x):
        return super().forward(self.enter(x, self.group))
""",
    "7.5": """### a product, and a bias of its own
class RowLinear(nn.Module):
    "Exercise 7.5."
    def __init__(self, linear, group=None, unit=1, leave=leave):
        super().__init__()
        self.group, self.leave = group, leave
        self.weight = part_of(linear.weight, -1 % 2, group, unit)
        bias = linear.bias
        if bias is not None:
            bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
        self.register_parameter("bias", bias)

    def forward(self, x):
        y = self.leave(x @ self.weight.t(), self.group)
        return y + (0 if self.bias is None else self.bias)
### the bias added by a function
class RowLinear(nn.Module):
    "Exercise 7.5."
    def __init__(self, linear, group=None, unit=1, leave=leave):
        super().__init__()
        self.weight, self.bias = part_of(linear.weight, 1, group, unit), linear.bias
        self.leave = lambda y: leave(y, group)

    def forward(self, x):
        total = self.leave(torch.einsum("...i,oi->...o", x, self.weight))
        return total if self.bias is None else torch.add(total, self.bias)
""",
}

CUT = """
def cut(x, dim, group=None, unit=1):
    "Exercise 7.1."
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    {}
"""


def function(name, number, forward, backward):
    return f"""
class {name}(torch.autograd.Function):
    "Exercise {number}."
    @staticmethod
    def forward(ctx, x, group=None, total=summed):
        {forward}

    @staticmethod
    def backward(ctx, gradient):
        {backward}
"""


def cut(body):
    return CUT.format(body)


def copy(
    forward="ctx.group, ctx.total = group, total; return x",
    backward="return ctx.total(gradient, ctx.group), None, None",
):
    return function("Copy", "7.2", forward, backward)


def all_reduce(forward="return total(x, group)", backward="return gradient, None, None"):
    return function("AllReduce", "7.3", forward, backward)


COLUMN_INIT = """self.weight = part_of(linear.weight, 0, group, unit)
        self.bias = None if linear.bias is None else part_of(linear.bias, 0, group, unit)"""


def column(
    init=COLUMN_INIT,
    forward="return F.linear(self.enter(x, self.group), self.weight, self.bias)",
):
    return f"""
class ColumnLinear(nn.Module):
    "Exercise 7.4."
    def __init__(self, linear, group=None, unit=1, enter=enter):
        super().__init__()
        self.group, self.enter = group, enter
        {init}

    def forward(self, x):
        {forward}
"""


def row(
    init="self.weight, self.bias = part_of(linear.weight, 1, group, unit), linear.bias",
    forward="""y = self.leave(F.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias""",
):
    return f"""
class RowLinear(nn.Module):
    "Exercise 7.5."
    def __init__(self, linear, group=None, unit=1, leave=leave):
        super().__init__()
        self.group, self.leave = group, leave
        {init}

    def forward(self, x):
        {forward}
"""


WRONG = {
    "7.1": {
        "chunk makes all but the last one equal": cut("return x.chunk(n, dim)[rank].clone()"),
        "`unit` is not looked at": cut(
            "return x.split(part_sizes(x.shape[dim], n), dim)[rank].clone().contiguous()"
        ),
        "all of x keeps its memory": cut(
            "return x.split(part_sizes(x.shape[dim], n, unit), dim)[rank].contiguous()"
        ),
        "clone() keeps the order in memory": cut(
            "return x.split(part_sizes(x.shape[dim], n, unit), dim)[rank].clone()"
        ),
        "x.split cuts along dim 0 unless": cut(
            "return x.split(part_sizes(x.shape[dim], n, unit))[rank].clone()"
        ),
        "rank times its own size": cut(
            "size = part_sizes(x.shape[dim], n, unit)[rank]\n"
            "    return x.narrow(dim, rank * size, size).clone().contiguous()"
        ),
        "it is a view into a copy of the whole": cut(
            "return x.clone().split(part_sizes(x.shape[dim], n, unit), dim)[rank]"
        ),
        "right, in a group of some ranks": cut(
            "rank = dist.get_rank()\n"
            "    sizes = part_sizes(x.shape[dim], n, unit)\n"
            "    return x.split(sizes, dim)[rank].clone().contiguous()"
        ),
    },
    "7.2": {
        "through this rank's part alone": copy(backward="return gradient, None, None"),
        "the forward adds up, what every rank has": copy(
            "return total(x, group)", "return gradient, None, None"
        ),
        "hands the same tensor to both its branches": copy(
            backward="dist.all_reduce(gradient, group=ctx.group); return gradient, None, None"
        ),
        "one gradient for each argument of forward": copy(
            backward="return ctx.total(gradient, ctx.group)"
        ),
        "ctx.group = group": copy("return x"),
        "a copy of x takes its memory once more": copy(
            "ctx.group, ctx.total = group, total; return x.clone()"
        ),
        "the mean, not the sum. x went": copy(
            backward="return ctx.total(gradient, ctx.group) / dist.get_world_size(ctx.group), "
            "None, None"
        ),
        "until the backward, in every layer": copy(
            "ctx.group, ctx.total, ctx.x = group, total, x; return x"
        ),
        "another way to add up": copy(backward="return summed(gradient, ctx.group), None, None"),
        "right, in a group of some ranks": copy(backward="return ctx.total(gradient), None, None"),
    },
    "7.3": {
        "may have kept it for its backward": all_reduce(
            "dist.all_reduce(x, group=group); return x"
        ),
        "mark_dirty tells autograd": all_reduce(
            "dist.all_reduce(x, group=group); ctx.mark_dirty(x); return x"
        ),
        "n times too much": all_reduce(
            "ctx.group = group; return total(x, group)",
            "return summed(gradient, ctx.group), None, None",
        ),
        "1/n of it": all_reduce(
            "ctx.group = group; return total(x, group)",
            "return gradient / dist.get_world_size(ctx.group), None, None",
        ),
        "the mean of equal ones": all_reduce(
            "ctx.group = group; return total(x, group)",
            "return summed(gradient, ctx.group) / dist.get_world_size(ctx.group), None, None",
        ),
        "nothing is added up": all_reduce("return x.clone()"),
        "x gets no gradient": all_reduce(backward="return None, None, None"),
        "another way to add up": all_reduce("return summed(x, group)"),
    },
    "7.4": {
        "columns are its rows, dim 0": column(
            "self.weight, self.bias = part_of(linear.weight, 1, group, unit), linear.bias"
        ),
        "this is all of it": column(
            "self.weight, self.bias = part_of(linear.weight, 0, group, unit), linear.bias"
        ),
        "through this rank's columns alone": column(
            forward="return F.linear(x, self.weight, self.bias)"
        ),
        "x goes in n times": column(
            forward="return F.linear(leave(x, self.group), self.weight, self.bias)"
        ),
        "these are all columns": column(
            forward="""y = F.linear(self.enter(x, self.group), self.weight, self.bias)
        sizes, rank = self.weight.cut_sizes, dist.get_rank(self.group)
        left, right = sum(sizes[:rank]), sum(sizes[rank + 1 :])
        return leave(F.pad(y, (left, right)), self.group)"""
        ),
        "the whole layer is kept as well": column(f"self.linear = linear\n        {COLUMN_INIT}"),
        "the caller may bring another way": column(
            forward="return F.linear(enter(x, self.group), self.weight, self.bias)"
        ),
        "part_of notes how the whole was cut": column(
            COLUMN_INIT.replace("part_of(", "nn.Parameter(cut(").replace(", unit)", ", unit))")
        ),
        "f stands before the columns": column(
            forward="return self.enter(F.linear(x, self.weight, self.bias), self.group)"
        ),
        "right, in a group of some ranks": column(COLUMN_INIT.replace(", group", ", None")),
    },
    "7.5": {
        "so it is there n times": row(
            forward="return self.leave(F.linear(x, self.weight, self.bias), self.group)"
        ),
        "each rank 1/n of its gradient": row(
            forward="""n = dist.get_world_size(self.group)
        bias = None if self.bias is None else self.bias / n
        return self.leave(F.linear(x, self.weight, bias), self.group)"""
        ),
        "only one rank has added the bias": row(
            forward="""bias = None if dist.get_rank(self.group) else self.bias
        return self.leave(F.linear(x, self.weight, bias), self.group)"""
        ),
        "a row layer's bias is whole": row(
            "self.weight, self.bias = (part_of(p, -1, group) for p in linear.parameters())".replace(
                "-1", "p.dim() - 1"
            )
        ),
        "each rank has its own summand still": row(
            forward="return F.linear(x, self.weight, self.bias)"
        ),
        "gets this rank's inputs already": row(
            forward="""x = cut(x, -1, self.group)
        return self.leave(F.linear(x, self.weight), self.group) + self.bias"""
        ),
        "n times too much": row(
            forward="""y = self.leave(enter(F.linear(x, self.weight), self.group), self.group)
        return y if self.bias is None else y + self.bias"""
        ),
        "a row layer needs no f": row(
            forward="""y = self.leave(F.linear(enter(x, self.group), self.weight), self.group)
        return y if self.bias is None else y + self.bias"""
        ),
        "autograd does not know dist.all_reduce": row(
            forward="""y = summed(F.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias"""
        ),
        "linear.bias is None then": row(
            forward="return self.leave(F.linear(x, self.weight), self.group) + self.bias"
        ),
        "A's rows its columns, dim 1": row(
            "self.weight, self.bias = part_of(linear.weight, 0, group, unit), linear.bias"
        ),
    },
}


# {phrase: the case that is told, though a rank raises an error in a later one}
CASE = {"chunk makes all but the last one equal": "3 ranks, rows, shape [7, 4]"}


class Together:
    """Takes the place of try_on_ranks: tries all answers of an exercise in one launch."""

    def __init__(self, answers):
        self.answers, self.run = answers, None

    def __call__(self, case, function, work, answer, *args, world_size, explain):
        if self.run is None:
            settings = {"world_size": world_size, "device": "cpu", "seed": [*range(world_size)]}
            self.run = launch(try_all, function, work, self.answers, *args, **settings)
        found = [of_rank[self.answers.index(answer)] for of_rank in self.run.values]
        for rank, of in enumerate(found):
            if isinstance(of, Exception):
                error = RankError(rank, f"raised {of!r}", of)
                raise checking.Wrong(case, str(error), explain(error))
        return SimpleNamespace(values=found)


def try_all(function, work, answers, *args):
    return [outcome(function, work, answer, *args) for answer in answers]


def outcome(function, work, answer, *args):
    """What a function of a check returns, or the error that it raises."""
    try:
        return function(work, answer, *args)
    except Exception as error:
        return error


@pytest.fixture
def verdicts_on(tmp_path, monkeypatch):
    """The verdicts on many answers to an exercise, each in a lab of its own."""

    def made(number, source):
        folder = tmp_path / str(len([*tmp_path.iterdir()]))
        for name, text in SOLVED.items():
            more = f"\n\n{source}" if name == "tensor_parallel" else ""
            put_lab(folder, monkeypatch, name, text + more)
        return checking.LabFunction(find_lab("tensor_parallel"), EXERCISES[number].name)

    def verdicts(number, sources):
        answers = [made(number, source) for source in sources]
        monkeypatch.setattr(one_world, "try_on_ranks", Together(answers))
        monkeypatch.setattr(sharding, "need_part", lambda *_: None)
        return [checking.examine(EXERCISES[number], answer, "") for answer in answers]

    return verdicts


@pytest.mark.parametrize("number", EXERCISES)
def test_the_solution_is_right(number, check_lab):
    verdict = check_lab(number)
    assert verdict.passed, verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_other_right_answers_pass(number, verdicts_on):
    for verdict in verdicts_on(number, answers(RIGHT[number]).values()):
        assert verdict.passed, verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_wrong_answers_are_told_their_misconception(number, verdicts_on):
    for phrase, verdict in zip(WRONG[number], verdicts_on(number, WRONG[number].values())):
        assert verdict.passed is False, phrase
        assert phrase in verdict.wrong.why, verdict
        assert CASE.get(phrase, "") in verdict.wrong.case, verdict


def test_a_unit_that_is_not_handed_on_is_missed(check_lab):
    verdict = check_lab("7.4", column(COLUMN_INIT.replace(", unit)", ")")))
    assert "`unit` is not handed on" in verdict.wrong.why, verdict


FAULTS = {  # what is wrong in the file, and where a learner is sent
    "7.1": ("7.4", WRONG["7.1"]["chunk makes all but the last one equal"]),
    "7.2": ("7.4", WRONG["7.2"]["through this rank's part alone"]),
    "7.3": ("7.5", WRONG["7.3"]["n times too much"]),
}


@pytest.mark.parametrize("first", FAULTS)
def test_a_fault_of_an_earlier_exercise_is_sent_there(first, check_lab):
    number, source = FAULTS[first]
    verdict = check_lab(number, source)
    assert verdict.passed is False
    assert verdict.wrong.why == f'first: check("{first}")', verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_a_hole_is_refused_politely(number, check_lab):
    name = EXERCISES[number].name
    kind = "def {}(x, dim):" if number == "7.1" else "class {}:"
    hole = f'{kind.format(name)}\n    "Exercise {number}."\n    ...\n'
    verdict = check_lab(number, hole, SOLVED["tensor_parallel"])
    assert verdict.passed is None
    assert name in str(verdict)


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_both(number):
    assert len(WRONG[number]) >= 6
    assert len(answers(RIGHT[number])) >= 2  # and the solution
    assert 2 <= len(EXERCISES[number].hints) <= 4
