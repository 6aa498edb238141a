"""Chapter 06, stages 1 and 2: right answers of any style pass, wrong ones are told why."""

import linecache

import pytest
import torch
from helpers import ROOT, put_lab

from pedagogy_lib import check
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.course import checking
from pedagogy_lib.course.build import with_holes
from pedagogy_lib.exercises import reducing, sharded_training, sharding, stages

EXERCISES = {e.number: e for m in (sharding, reducing, stages) for e in m.EXERCISES}
NAMES = ["zero", "collectives", "simple_ddp"]
SOLVED = {name: (ROOT / "solutions" / "labs" / f"{name}.py").read_text() for name in NAMES} | {
    # What only the labs' programs need; every rank of every check would read it.
    "language_model": "Transformer = draw_batch = mean_loss = standard_library = None",
}


@pytest.fixture(scope="module", autouse=True)
def warm():
    stages.warm_up()


@pytest.fixture(autouse=True)
def only_these(monkeypatch):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)
    monkeypatch.setattr(stages, "warm_up", lambda: None)
    monkeypatch.setattr(sharding, "FIRST_CASES", 0)  # what an answer is built on is right


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of its function in the learner's file."""

    def check_one(number, source="", other_labs=()):
        for name, text in SOLVED.items():
            put_lab(tmp_path, monkeypatch, name, text, text)
        for name, more in [("zero", source), *dict(other_labs).items()]:
            put_lab(tmp_path, monkeypatch, name, f"{SOLVED[name]}\n\n{more}", SOLVED[name])
        return check(number)

    return check_one


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: source} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): source for phrase, _, source in parts}


def define(number, source):
    """The function of a cell."""
    name, file, space = EXERCISES[number].name, f"cell of {number}", {"torch": torch}
    exec(compile(source, file, "exec"), space)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return space[name]


RIGHT = {
    "6.1": """### the solution
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    shard = -(-parameters // n)
    kinds = ("parameters", "gradients", "optimizer_state")
    is_split = (stage >= 3, stage >= 2, stage >= 1)
    return {kind: size * (shard if split else parameters)
            for kind, size, split in zip(kinds, each, is_split)}
### written out, with ceil
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    from math import ceil

    counts = [parameters] * 3
    counts[3 - stage:] = [ceil(parameters / n)] * stage
    p, g, o = (count * size for count, size in zip(counts, each))
    return {"optimizer_state": o, "gradients": g, "parameters": p}
### tensors
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    found = torch.tensor(each) * parameters
    shards = torch.tensor(each) * ((parameters + n - 1) // n)
    p, g, o = torch.where(torch.tensor([3, 2, 1]) <= stage, shards, found)
    return dict(parameters=p, gradients=g, optimizer_state=o)
""",
    "6.13": """### the solution
def models_sent(stage, n, micro_batches=1):
    once = (n - 1) / n
    return once * {0: 2, 1: 2, 2: micro_batches + 1, 3: 3 * micro_batches}[stage]
### written out
def models_sent(stage, n, micro_batches=1):
    from fractions import Fraction

    half = Fraction(n - 1, n)
    if stage < 2:
        return 2 * half
    return half + micro_batches * half if stage == 2 else micro_batches * 3 * half
""",
    "6.2": """### the solution
### pad at the end
def flatten_padded(tensors, n):
    flat = torch.cat([x.flatten() for x in tensors])
    return torch.nn.functional.pad(flat, (0, -len(flat) % n))
### fill
def flatten_padded(tensors, n):
    total = sum(x.numel() for x in tensors)
    flat = tensors[0].new_zeros((total + n - 1) // n * n)
    start = 0
    for x in tensors:
        flat[start : start + x.numel()] = x.ravel()
        start += x.numel()
    return flat
### one at a time
def flatten_padded(tensors, n):
    flat = torch.nn.utils.parameters_to_vector(x.contiguous() for x in tensors)
    while len(flat) % n:
        flat = torch.cat([flat, torch.zeros(1, dtype=flat.dtype, device=flat.device)])
    return flat
""",
    "6.3": """### the solution
### everybody sends each its chunk
@torch.no_grad()
def reduce_gradients(unit):
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in unit.parameters]
    outgoing = flatten_padded(grads, unit.n).view(unit.n, -1)
    incoming = torch.empty_like(outgoing)
    dist.all_to_all_single(incoming, outgoing, group=unit.group)
    if unit.shard.grad is None:
        unit.shard.grad = torch.zeros_like(unit.shard)
    unit.shard.grad += incoming.mean(0)
    for p in unit.parameters:
        p.grad = None
### divided before
@torch.no_grad()
def reduce_gradients(unit):
    chunks = list(flatten_padded(gradients_of(unit), unit.n).div_(unit.n).chunk(unit.n))
    reduce_scatter_ring(chunks, unit.group)
    mine = chunks[unit.rank].clone()
    if unit.shard.grad is not None:
        mine += unit.shard.grad
    unit.shard.grad = mine
    torch.nn.Module.zero_grad(torch.nn.ParameterList(unit.parameters))
""",
    "6.4": """### the solution
### the backend's all-gather, unit by unit
class Zero1(Zero1):
    def step(self):
        list(map(reduce_gradients, self.units.values()))
        self.update()

    def update(self):
        self.optimizer.step()
        for unit in self.units.values():
            unit.shard.grad = None
            dist.all_gather(list(unit.chunks), unit.chunks[unit.rank].clone(), group=unit.group)
### from the last to the first, through all_gather_into_tensor
class Zero1(Zero1):
    def step(self):
        for unit in reversed(self.units.values()):
            reduce_gradients(unit)
        self.update()

    @torch.no_grad()
    def update(self):
        self.optimizer.step()
        for unit in self.units.values():
            dist.all_gather_into_tensor(unit.flat, unit.shard.data.clone(), group=unit.group)
            show_parameters(unit)
        self.optimizer.zero_grad(set_to_none=True)
""",
    "6.7": """### the solution
### a method of its own
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].remove(parameter)
        self.go_on(lambda unit: len(self.missing[unit]) == 0)

    def end_backward(self):
        self.go_on(lambda unit: True)
        self.left = None

    def go_on(self, may):
        while len(self.left) > 0 and may(self.left[-1]):
            unit = self.left[-1]
            del self.left[-1]
            self.reduce(unit)
### a loop over a copy
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit] -= {parameter}
        for following in self.left[::-1]:
            if self.missing[following]:
                break
            self.reduce(following)
            self.left.remove(following)

    def end_backward(self):
        for unit in self.left[::-1]:
            self.reduce(unit)
        self.left = None
""",
}


@pytest.fixture
def fewer_cases(monkeypatch):
    """What another style than the solution's is tried on, to save time."""

    def leave_some_out():
        monkeypatch.setattr(reducing, "WORLDS", [reducing.WORLDS[0], reducing.WORLDS[-1]])
        for name in ("PLANS_1", "PLANS_2"):
            plans = getattr(stages, name)
            few = [p for p in plans if p.world == stages.GROUP or p.by_hand or p == plans[0]]
            monkeypatch.setattr(stages, name, few)

    return leave_some_out


@pytest.mark.parametrize(
    ("number", "style"), [(number, style) for number in RIGHT for style in answers(RIGHT[number])]
)
def test_right_answers_of_any_style_pass(check_lab, fewer_cases, number, style):
    if style != "the solution":
        fewer_cases()
    source = answers(RIGHT[number])[style]
    in_lab = EXERCISES[number].lab
    verdict = check_lab(number, source) if in_lab else check(number, define(number, source))
    assert verdict.passed, verdict


WRONG = {
    "6.1": """### Padding makes the whole divisible by n
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    kinds = ("parameters", "gradients", "optimizer_state")
    first = (3, 2, 1)
    return {k: s * parameters / (n if stage >= f else 1) for k, s, f in zip(kinds, each, first)}
### rounded down
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    kinds = ("parameters", "gradients", "optimizer_state")
    first = (3, 2, 1)
    return {k: s * (parameters // (n if stage >= f else 1)) for k, s, f in zip(kinds, each, first)}
### where n divides the parameters: then there is no padding
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = parameters // n + 1 if n > 1 else parameters
    p, g, o = (size * (part if stage >= f else parameters) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### numbers have to be: a rank has whole numbers
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    from math import ceil
    p, g, o = (ceil(s * parameters / (n if stage >= f else 1)) for s, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### In stage 0 nothing is split, so nothing is padded
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage >= f else part * n) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### what is not split is not padded
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    whole = part * n if stage else parameters
    p, g, o = (size * (part if stage >= f else whole) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### a stage too early
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage >= f else parameters) for size, f in zip(each, (2, 1, 0)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### a stage too late
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage > f else parameters) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### the other way round
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage >= f else parameters) for size, f in zip(each, (1, 2, 3)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### a stage splits what those before it split, too
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (size * (part if stage == f else parameters) for size, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### everything is split, whatever the stage
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    p, g, o = (size * -(-parameters // n) for size in each)
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### other bytes are possible than 2, 2 and 12
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (s * (part if stage >= f else parameters) for s, f in zip((2, 2, 12), (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### these are counts
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    p, g, o = (-(-parameters // n) if stage >= f else parameters for f in (3, 2, 1))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### the bytes of all ranks together
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
    p, g, o = (n * s * (part if stage >= f else parameters) for s, f in zip(each, (3, 2, 1)))
    return {"parameters": p, "gradients": g, "optimizer_state": o}
### these three keys, and no others
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    return sum(size * -(-parameters // n) for size in each)
### without `return`
def bytes_of_rank(parameters, n, stage, each=(2, 2, 12)):
    part = -(-parameters // n)
""",
    "6.13": """### only the last backward of a step sends
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2 * micro_batches, 2, micro_batches + 1, 3 * micro_batches][stage]
### an all-reduce is a reduce-scatter and an all-gather
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [1, 2, micro_batches + 1, 3 * micro_batches][stage]
### stage 1 reduces once, and gathers once
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, micro_batches + 1, micro_batches + 1, 3 * micro_batches][stage]
### because nobody keeps them whole until the step
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, 2, 3 * micro_batches][stage]
### The step gathers nothing
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, micro_batches + 1, 2 * micro_batches + 1][stage]
### the backward gathers as well
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, micro_batches + 1, 2 * micro_batches][stage]
### the next micro-batch gathers them anew
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 2, micro_batches + 1, micro_batches + 2][stage]
### as Gloo does it
def models_sent(stage, n, micro_batches=1):
    return (n - 1) / n * [2, 3, 2 * micro_batches + 1, 4 * micro_batches][stage]
### in a ring a rank sends all chunks but its own
def models_sent(stage, n, micro_batches=1):
    return [2, 2, micro_batches + 1, 3 * micro_batches][stage]
### what all ranks together send
def models_sent(stage, n, micro_batches=1):
    return (n - 1) * [2, 2, micro_batches + 1, 3 * micro_batches][stage]
### one chunk
def models_sent(stage, n, micro_batches=1):
    return [2, 2, micro_batches + 1, 3 * micro_batches][stage] / n
### without `return`
def models_sent(stage, n, micro_batches=1):
    (n - 1) / n
""",
    "6.2": """### without padding
def flatten_padded(tensors, n):
    return torch.cat([x.reshape(-1) for x in tensors])
### n - elements % n is n then
def flatten_padded(tensors, n):
    flat = torch.cat([x.reshape(-1) for x in tensors])
    return torch.cat([flat, flat.new_zeros(n - len(flat) % n)])
### That is how many stick out
def flatten_padded(tensors, n):
    flat = torch.cat([x.reshape(-1) for x in tensors])
    return torch.cat([flat, flat.new_zeros(len(flat) % n)])
### each tensor is padded by itself
def flatten_padded(tensors, n):
    pad = torch.nn.functional.pad
    return torch.cat([pad(x.reshape(-1), (0, -x.numel() % n)) for x in tensors])
### the zeros come first
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([tensors[0].new_zeros(padding), *(x.reshape(-1) for x in tensors)])
### the last parameters would be lost
def flatten_padded(tensors, n):
    flat = torch.cat([x.reshape(-1) for x in tensors])
    return flat[: len(flat) // n * n]
### torch.zeros makes float32
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), torch.zeros(padding)])
### what follows the numbers is not zero
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_full((padding,), 7)])
### leave them in one dimension
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    flat = torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
    return flat.view(n, -1)
### whoever needs chunks cuts it
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)]).chunk(n)
### belongs to the caller
def flatten_padded(tensors, n):
    tensors.append(tensors[0].new_zeros(-sum(x.numel() for x in tensors) % n))
    return torch.cat([x.reshape(-1) for x in tensors])
### a new tensor is asked for
def flatten_padded(tensors, n):
    if len(tensors) == 1 and tensors[0].numel() % n == 0:
        return tensors[0].view(-1)
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.reshape(-1) for x in tensors), tensors[0].new_zeros(padding)])
### reshape(-1) copies if it has to
def flatten_padded(tensors, n):
    padding = -sum(x.numel() for x in tensors) % n
    return torch.cat([*(x.view(-1) for x in tensors), tensors[0].new_zeros(padding)])
### torch.cat lays tensors of one dimension
def flatten_padded(tensors, n):
    return torch.cat([*tensors, tensors[0].new_zeros(-sum(x.numel() for x in tensors) % n)])
### without `return`
def flatten_padded(tensors, n):
    torch.cat([x.reshape(-1) for x in tensors])
""",
    "6.3": """### this is the sum
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank].clone()
    for p in unit.parameters:
        p.grad = None
### it is divided by n twice
@torch.no_grad()
def reduce_gradients(unit):
    chunks = (flatten_padded(gradients_of(unit), unit.n) / unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None
### nothing has been summed up
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    reduce_scatter_ring([chunk.clone() for chunk in flat.chunk(unit.n)], unit.group)
    unit.shard.grad = flat.chunk(unit.n)[unit.rank].clone()
    for p in unit.parameters:
        p.grad = None
### the gradients were let go of before
@torch.no_grad()
def reduce_gradients(unit):
    for p in unit.parameters:
        p.grad = None
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
### everybody has chunk 0
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    dist.all_reduce(flat, group=unit.group)
    unit.shard.grad = flat[: len(unit.shard)] / unit.n
    for p in unit.parameters:
        p.grad = None
### everybody has the next rank's chunk
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    dist.all_reduce(flat, group=unit.group)
    unit.shard.grad = flat.chunk(unit.n)[(unit.rank + 1) % unit.n] / unit.n
    for p in unit.parameters:
        p.grad = None
### a gradient that was there before is lost
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None
### as long as it lives, the memory of the whole flat tensor does
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for p in unit.parameters:
        p.grad = None
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank].div_(unit.n)
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad.add_(mean)
### Set `.grad` of each parameter to None
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
### zero_() does not
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
    for p in unit.parameters:
        p.grad = torch.zeros_like(p)
### which holds the parameters
@torch.no_grad()
def reduce_gradients(unit):
    reduce_scatter_ring(unit.chunks, unit.group)
    unit.shard.grad = unit.chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None
### that is where its optimizer looks
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    dist.all_reduce(flat, group=unit.group)
    for p, part in zip(unit.parameters, flat.split([*unit.sizes, len(flat) - sum(unit.sizes)])):
        p.grad = part.view(p.shape) / unit.n
### this rank's chunk of the mean, and no more
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n)
    dist.all_reduce(flat, group=unit.group)
    unit.shard.grad = flat / unit.n
    for p in unit.parameters:
        p.grad = None
### it counts as zeros
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded([p.grad for p in unit.parameters], unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None
### every rank has to make the same calls
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for owner, chunk in enumerate(chunks):
        if owner != unit.rank:
            dist.reduce(chunk, group_dst=owner, group=unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None
### It takes part whatever gradients it has
@torch.no_grad()
def reduce_gradients(unit):
    if any(p.grad is None for p in unit.parameters[:-1]):
        return
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    reduce_scatter_ring(chunks, unit.group)
    unit.shard.grad = chunks[unit.rank] / unit.n
    for p in unit.parameters:
        p.grad = None
### hand `group` to every call
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for p in unit.parameters:
        p.grad = None
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[dist.get_rank()] / unit.n
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
### it has only the ranks of the group in it
@torch.no_grad()
def reduce_gradients(unit):
    chunks = flatten_padded(gradients_of(unit), unit.n).chunk(unit.n)
    for p in unit.parameters:
        p.grad = None
    reduce_scatter_ring(chunks, unit.group)
    mean = chunks[unit.rank] / dist.get_world_size()
    unit.shard.grad = mean if unit.shard.grad is None else unit.shard.grad + mean
### an all-reduce and a slice
@torch.no_grad()
def reduce_gradients(unit):
    chunks = list(flatten_padded(gradients_of(unit), unit.n).chunk(unit.n))
    for p in unit.parameters:
        p.grad = None
    mine = torch.empty_like(chunks[0])
    dist.reduce_scatter(mine, chunks, group=unit.group)
    unit.shard.grad = mine / unit.n + (0 if unit.shard.grad is None else unit.shard.grad)
### an all-reduce sends twice as much
@torch.no_grad()
def reduce_gradients(unit):
    flat = flatten_padded(gradients_of(unit), unit.n) / unit.n
    for p in unit.parameters:
        p.grad = None
    dist.all_reduce(flat, group=unit.group)
    mine = flat.chunk(unit.n)[unit.rank]
    unit.shard.grad = mine + (0 if unit.shard.grad is None else unit.shard.grad)
""",
    "6.4": """### gather the chunks of each unit after
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
### gathered before the optimizer's step
class Zero1(Zero1):
    def update(self):
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
        self.optimizer.step()
        self.optimizer.zero_grad()
### those of the next step would be added to them
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
### None takes none
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
### asked is their mean
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
            unit.shard.grad *= unit.n
        self.update()
### divided by n twice
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
            unit.shard.grad /= unit.n
        self.update()
### its owner's own gradient
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            flat = flatten_padded(gradients_of(unit), unit.n)
            unit.shard.grad = flat.chunk(unit.n)[unit.rank].clone()
            for p in unit.parameters:
                p.grad = None
        self.update()
### the optimizer has made no step
class Zero1(Zero1):
    def update(self):
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
### the optimizer has found no gradients
class Zero1(Zero1):
    def update(self):
        self.optimizer.zero_grad()
        self.optimizer.step()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
### the parameters are to stay views into unit.flat
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            parts = [torch.empty_like(unit.shard) for _ in range(unit.n)]
            dist.all_gather(parts, unit.shard.detach(), group=unit.group)
            flat = torch.cat(parts)[: sum(unit.sizes)]
            for p, part, shape in zip(unit.parameters, flat.split(unit.sizes), unit.shapes):
                p.data = part.view(shape)
### more than one step in a step()
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
        self.optimizer.step()
        self.update()
### update() by itself is not
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

    def update(self):
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
### each rank has it for its own shards
class Zero1(Zero1):
    def __init__(self, model, make_optimizer, modules=(), group=None, alone=False):
        super().__init__(model, make_optimizer, modules, group, alone)
        self.parameters = [p for unit in self.units.values() for p in unit.parameters]
        self.optimizer = make_optimizer(self.parameters)

    def step(self):
        for p in self.parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=next(iter(self.units.values())).group)
            p.grad /= next(iter(self.units.values())).n
        self.optimizer.step()
        self.optimizer.zero_grad()

    def update(self):
        for unit in self.units.values():
            for p, part in zip(unit.parameters, whole_of(unit).split(unit.sizes)):
                p.grad = part.view(p.shape)
            unit.shard.grad = None
        self.optimizer.step()
        self.optimizer.zero_grad()


def whole_of(unit):
    parts = [torch.empty_like(unit.shard) for _ in range(unit.n)]
    dist.all_gather(parts, unit.shard.grad, group=unit.group)
    return torch.cat(parts)[: sum(unit.sizes)]
### update() reduces as well
class Zero1(Zero1):
    def step(self):
        self.update()

    def update(self):
        for unit in self.units.values():
            reduce_gradients(unit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
### stage 1 sends nothing in a backward
class Zero1(Zero2):
    pass
### a unit of which it has no gradient, too
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            if any(p.grad is not None for p in unit.parameters):
                reduce_gradients(unit)
        self.update()
### hand `group` to every call
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks)
### something travels twice
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            for p in unit.parameters:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                dist.all_reduce(p.grad, group=unit.group)
                p.grad /= unit.n
            flat = flatten_padded(gradients_of(unit), unit.n)
            unit.shard.grad = flat.chunk(unit.n)[unit.rank].clone()
            for p in unit.parameters:
                p.grad = None
        self.update()
""",
    "6.7": """### no unit is reduced. is_ready strikes
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)

    def end_backward(self):
        self.left = None
### all gradients are there at the same time, as in stage 1
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
### in the order in which they became ready
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        if not self.missing[unit]:
            self.left.remove(unit)
            self.reduce(unit)
### end_backward reduces them
class Zero2(Zero2):
    def end_backward(self):
        self.left = None
### what is left over has to come from the last one
class Zero2(Zero2):
    def end_backward(self):
        for unit in self.left:
            self.reduce(unit)
        self.left = None
### pop(0) takes the first
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left.pop(0))
### (while, not if)
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        if self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left.pop())
### before its last gradient is there
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        while self.left and self.left[-1] is not unit:
            self.reduce(self.left.pop())
        if self.left:
            self.reduce(self.left.pop())
### It is complete when nothing is left in
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        if not self.missing[unit]:
            while self.left[-1] is not unit:
                self.reduce(self.left.pop())
            self.reduce(self.left.pop())
### Take a unit out of self.left
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            self.reduce(self.left[-1])
### and has no last one
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while not self.missing[self.left[-1]]:
            self.reduce(self.left.pop())

    def end_backward(self):
        while self.left[-1]:
            self.reduce(self.left.pop())
        self.left = None
### For the next one self.left has to be None again
class Zero2(Zero2):
    def end_backward(self):
        while self.left:
            self.reduce(self.left.pop())
### stage 3 has another one
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        if self.left is None:
            self.begin_backward()
        self.missing[unit].discard(parameter)
        while self.left and not self.missing[self.left[-1]]:
            reduce_gradients(self.left.pop())

    def end_backward(self):
        while self.left:
            reduce_gradients(self.left.pop())
        self.left = None
### the last backward alone
class Zero2(Zero2):
    def reduce(self, unit):
        unit.shard.grad = None
        reduce_gradients(unit)
### divided by how many backwards there were
class Zero2(Zero2):
    count = 0

    def end_backward(self):
        super().end_backward()
        self.count += 1

    def step(self):
        for unit in self.units.values():
            unit.shard.grad /= self.count
        self.count = 0
        super().step()
### the step reduces once more
class Zero2(Zero2):
    def step(self):
        Zero1.step(self)
### one reduce-scatter for each unit is enough, in each backward
class Zero2(Zero2):
    def reduce(self, unit):
        reduce_gradients(unit)
        mean = unit.shard.grad.clone()
        dist.all_reduce(mean, group=unit.group)
### something still holds their gradients
class Zero2(Zero2):
    def is_ready(self, unit, parameter):
        self.kept = getattr(self, "kept", []) if self.left else []
        self.kept.append(parameter.grad)
        super().is_ready(unit, parameter)
""",
}


# What is found late is tried alone, to save time: in a group of ranks, or where bytes count.
IN_A_GROUP = {"hand `group` to every call", "it has only the ranks of the group in it"}
BYTES = {
    "an all-reduce and a slice", "an all-reduce sends twice as much", "update() reduces as well",
    "stage 1 sends nothing in a backward", "something travels twice", "the step reduces once more",
    "one reduce-scatter for each unit is enough, in each backward",
    "something still holds their gradients",
}  # fmt: skip

HANG = {"every rank has to make the same calls"}


@pytest.fixture
def begin_late(monkeypatch):
    def leave_out_what_is_right(phrase):
        if phrase in IN_A_GROUP | BYTES:
            worlds = [w for w in reducing.WORLDS if w[0] == (stages.GROUP if phrase in IN_A_GROUP
                                                             else stages.World(4))]  # fmt: skip
            monkeypatch.setattr(reducing, "WORLDS", worlds)
            for name in ("PLANS_1", "PLANS_2"):
                plans = [p for p in getattr(stages, name) if p.world == stages.GROUP]
                monkeypatch.setattr(stages, name, plans if phrase in IN_A_GROUP else [])

    return leave_out_what_is_right


@pytest.mark.parametrize(
    ("number", "phrase"), [(n, phrase) for n in WRONG for phrase in answers(WRONG[n])]
)
def test_wrong_answers_are_told_what_is_wrong(check_lab, begin_late, monkeypatch, number, phrase):
    source = answers(WRONG[number])[phrase]
    begin_late(phrase)
    if phrase in HANG:
        monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 2.0)
    in_lab = EXERCISES[number].lab
    verdict = check_lab(number, source) if in_lab else check(number, define(number, source))
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


# ---- What an answer is built on ----------------------------------------------------------------

PARTS = [  # exercise, what is wrong in labs/zero.py, in labs/collectives.py, what it is told
    ("6.3", "def flatten_padded(tensors, n):\n    return torch.cat(tensors)", "", "6.2"),
    ("6.3", "", "def reduce_scatter_ring(chunks, group=None):\n    pass", "2.6"),
    ("6.4", answers(WRONG["6.3"])["this is the sum"], "", "6.3"),
    ("6.4", "", "def all_gather_ring(chunks, group=None):\n    pass", "2.7"),
    ("6.7", "Zero1.update = lambda self: self.optimizer.step()", "", "6.4"),
]


@pytest.mark.parametrize(("number", "zero", "collectives", "first"), PARTS)
def test_what_an_answer_is_built_on_comes_first(
    check_lab, monkeypatch, number, zero, collectives, first
):
    monkeypatch.setattr(sharding, "FIRST_CASES", 2)
    verdict = check_lab(number, zero, {"collectives": collectives})
    assert verdict.passed is False, verdict
    assert verdict.wrong.why == f'first: check("{first}")', verdict


# ---- All of them -------------------------------------------------------------------------------


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_all(number):
    assert len(answers(WRONG[number])) >= 6
    assert len(answers(RIGHT[number])) >= 2
    assert 2 <= len(EXERCISES[number].hints) <= 4


@pytest.mark.parametrize("number", [n for n, e in EXERCISES.items() if e.lab])
def test_the_hole_is_not_attempted(tmp_path, monkeypatch, number):
    text = with_holes(SOLVED["zero"])
    put_lab(tmp_path, monkeypatch, "zero", text, SOLVED["zero"])
    for name in ("collectives", "simple_ddp", "language_model"):
        put_lab(tmp_path, monkeypatch, name, SOLVED[name])
    verdict = check(number)
    assert verdict.passed is None, verdict
    assert "not attempted yet; write" in str(verdict)


@pytest.mark.parametrize("number", ["6.1", "6.13"])
def test_the_hole_of_a_cell_is_not_attempted(number):
    name = EXERCISES[number].name
    assert check(number, define(number, f"def {name}(*args):\n    ...\n")).passed is None


def test_a_missing_solution_is_named(tmp_path, monkeypatch):
    """A teacher may leave solutions/ out: then what comes first has to be written first."""
    for name in ("collectives", "simple_ddp", "language_model"):
        put_lab(tmp_path, monkeypatch, name, SOLVED[name])
    before, _, rest = SOLVED["zero"].partition("    ### BEGIN SOLUTION")
    _, _, after = rest.partition("    ### END SOLUTION")
    put_lab(tmp_path, monkeypatch, "zero", f"{before}    ...{after}")
    assert "exercise 6.2 comes first: flatten_padded" in check("6.4").wrong.what


# ---- The checks themselves ---------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_the_parts_of_a_tensor(n):
    parts = [reducing.part_of(torch.arange(1.0, 6), n, place) for place in range(n)]
    assert len({len(part) for part in parts}) == 1
    assert torch.cat(parts)[:5].tolist() == [1, 2, 3, 4, 5]
    assert not torch.cat(parts)[5:].any()


def test_the_slopes_of_all_places_are_those_of_the_whole_batch(monkeypatch):
    monkeypatch.setattr(sharded_training, "ORDERS", [(0, 2, 1)])
    model = sharded_training.equal_models(1, sharded_training.Forked)[0]
    whole = sharded_training.slopes_of(model, 0, 0, 0, 1)
    parts = sharded_training.sum_of(
        [sharded_training.slopes_of(model, 0, 0, place, 3) for place in range(3)]
    )
    assert whole.keys() == parts.keys()
    for name in whole:
        assert close(parts[name], whole[name])
    assert not whole["unused"].any() and whole["branches.2.matrix"].any()
