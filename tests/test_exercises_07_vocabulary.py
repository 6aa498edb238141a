"""Chapter 07, split letters, fused heads, a norm, slow links: what is said to right and wrong.

Answers of a lab that do not fail are tried together, in one launch for each world: see Together.
"""

import functools
import linecache
import math
import textwrap
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from helpers import ROOT, put_lab

from pedagogy_lib import check, launch
from pedagogy_lib.basics.closeness import close
from pedagogy_lib.course import checking
from pedagogy_lib.course.checking import LabFunction
from pedagogy_lib.course.labs import find_lab
from pedagogy_lib.exercises import (
    cut_heads,
    gradient_norms,
    groups,
    slow_links,
    split_scores,
    vocabulary,
)

MODULES = vocabulary, split_scores, gradient_norms, cut_heads, slow_links
EXERCISES = {e.number: e for module in MODULES for e in module.EXERCISES}
IN_A_LAB = [number for number, exercise in EXERCISES.items() if exercise.lab]
IN_A_CELL = [number for number, exercise in EXERCISES.items() if not exercise.lab]
HEADS = {  # before the body of an answer
    "7.10": "def cut_fused(weight, heads, kv_heads, rank, n):",
    "7.11": "class VocabularyEmbedding(VocabularyEmbedding):\n  def forward(self, letters):",
    "7.12": "def split_cross_entropy(scores, targets, group=None, letters=CHARACTERS):\n"
    "    sizes = part_sizes(letters, dist.get_world_size(group))\n"
    "    first = sum(sizes[: dist.get_rank(group)])",
    "7.14": "def gradient_norm(model, group=None):",
    "7.20": "def slowdown(compute_seconds, sums, sum_bytes, n, inside, between):",
}
LAB = (ROOT / "solutions" / "labs" / "tensor_parallel.py").read_text().partition("# ---- Random")[0]
SIBLINGS = {  # what the lab imports: every rank of every check reads it
    "language_model": "CHARACTERS = 128\n"
    "Transformer = draw_batch = mean_loss = standard_library = None\n",
    "simple_ddp": "now = None\n",
    "collectives": "import torch.distributed as dist\ndef all_gather_ring(chunks, group=None):\n"
    "    for place, chunk in enumerate(chunks):\n"
    "        dist.broadcast(chunk, group_src=place, group=group)\n",
}


@pytest.fixture(autouse=True)
def only_these(monkeypatch, tmp_path):
    monkeypatch.setattr(checking, "exercises_of", lambda chapter: EXERCISES)
    for name, text in {**SIBLINGS, "tensor_parallel": LAB}.items():
        put_lab(tmp_path, monkeypatch, name, text, text)


@pytest.fixture
def check_lab(tmp_path, monkeypatch):
    """Check one exercise with another definition of it, or of something else, in the lab."""

    def check_one(number, source):
        put_lab(tmp_path, monkeypatch, "tensor_parallel", f"{LAB}\n\n{source}", LAB)
        return check(number)

    return check_one


def program(number, body) -> str:
    return f"{HEADS[number]}\n" + textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"


def answers(text) -> dict[str, str]:
    """{phrase of the diagnosis: body} from parts that begin with `### phrase`."""
    parts = [part.partition("\n") for part in text.split("### ")[1:]]
    return {phrase.strip(): body for phrase, _, body in parts}


def check_cell(number, body):
    name, file, source = EXERCISES[number].name, f"cell of {number}", program(number, body)
    space = {"__name__": "__main__", "torch": torch, "dist": dist, "math": math}
    exec(compile(source, file, "exec"), space)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return check(number, space[name])


class Variant:
    """The lab with another definition of an exercise, on a rank: as an answer."""

    def __init__(self, lab, name, source):
        known = dict(vars(lab._newest().module))
        exec(source, known)
        self.lab, self.function = SimpleNamespace(**known), known[name]

    def __call__(self, *args, **options):
        return self.function(*args, **options)


class Together:
    """Takes the place of try_on_ranks: tries many programs in one world for each case."""

    def __init__(self, number, programs):
        self.answer = LabFunction(find_lab("tensor_parallel"), EXERCISES[number].name)
        self.programs, self.runs = programs, {}

    def __call__(self, case, function, work, source, worlds, world_size, explain):
        if case not in self.runs:
            settings = {"world_size": world_size, "device": "cpu", "seed": [*range(world_size)]}
            args = function, work, self.answer, self.programs, worlds
            self.runs[case] = launch(try_all, *args, **settings)
        values = [of_rank[self.programs.index(source)] for of_rank in self.runs[case].values]
        for rank, value in enumerate(values):
            if isinstance(value, Exception):
                raise checking.Wrong(case, repr(value), explain(Raised(rank, value)))
        return SimpleNamespace(values=values)


class Raised(Exception):
    def __init__(self, rank, exception):
        super().__init__(str(exception))
        self.rank, self.exception = rank, exception


def try_all(function, work, answer, programs, worlds):
    """On a rank; what an answer raises has to be raised on all ranks, in the same place."""
    found = []
    for source in programs:
        try:
            variant = Variant(answer.lab, answer.__name__, source)
            found.append(function(work, variant, worlds))
        except Exception as error:
            found.append(error)
    return found


@functools.cache
def together(number) -> Together:
    bodies = [*answers(RIGHT[number]).values(), *answers(WRONG[number]).values()]
    return Together(number, [program(number, body) for body in bodies])


def verdicts(number, bodies, monkeypatch) -> list:
    monkeypatch.setattr(groups, "try_on_ranks", together(number))
    programs = [program(number, body) for body in bodies]
    return [checking.examine(EXERCISES[number], source, "title") for source in programs]


# ---- Right answers -----------------------------------------------------------------------------

MINE = """
place = letters - self.first
mine = ((place >= 0) & (place < len(self.weight))).unsqueeze(-1)
"""
PARTS = """
highest = scores.detach().amax(-1)
dist.all_reduce(highest, dist.ReduceOp.MAX, group)
shifted = scores - highest.unsqueeze(-1)
place = targets - first
mine = (place >= 0) & (place < scores.shape[-1])
picked = shifted.gather(-1, place.where(mine, 0).unsqueeze(-1)).squeeze(-1) * mine
"""
SUMS = """
cut = rest = torch.zeros((), dtype=torch.float64)
for p in model.parameters():
    if p.grad is not None and hasattr(p, "cut_dim"):
        cut = cut + (p.grad**2).sum()
    elif p.grad is not None:
        rest = rest + (p.grad**2).sum()
"""
STEP = """
def step(link, rounds=2 * (n - 1), size=sum_bytes / n):
    return compute_seconds + sums * rounds * (link[1] + size / link[0])
"""

RIGHT = {
    "7.10": """### the solution
size = len(weight) // (heads + 2 * kv_heads)
q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
return torch.cat([part.chunk(n)[rank] for part in (q, k, v)])
### one head after another
of_heads = weight.view(heads + 2 * kv_heads, -1, weight.shape[1])
q, kv = heads // n, kv_heads // n
chosen = [*range(rank * q, rank * q + q)]
for start in (heads, heads + kv_heads):
    chosen += range(start + rank * kv, start + rank * kv + kv)
return of_heads[chosen].flatten(0, 1)
### slices
size = weight.shape[0] // (heads + 2 * kv_heads)
rows, start = [], 0
for count in (heads, kv_heads, kv_heads):
    own = count * size // n
    rows.append(weight[start + rank * own : start + (rank + 1) * own])
    start += count * size
return torch.vstack(rows)
""",
    "7.11": f"""### clamp, and where
{MINE}
rows = F.embedding(place.clamp(0, len(self.weight) - 1), self.weight)
return self.leave(torch.where(mine, rows, 0.0), self.group)
### only where there is something
{MINE}
rows = self.weight.new_zeros(*letters.shape, self.weight.shape[1])
rows[mine[..., 0]] = self.weight[place[mine[..., 0]]]
return self.leave(rows, self.group)
### a row of zeros for all others, in place
{MINE}
padded = F.pad(self.weight, (0, 0, 0, 1))
rows = padded[place.masked_fill(~mine[..., 0], -1)]
return self.leave(rows, self.group)
### zeroed in place, in the graph
{MINE}
rows = self.weight[place % len(self.weight)]
rows[~mine[..., 0]] = 0
return self.leave(rows, self.group)
""",
    "7.12": f"""### one number after another
{PARTS}
total = AllReduce.apply(shifted.exp().sum(-1), group)
picked = AllReduce.apply(picked, group)
return -(picked - torch.log(total)).mean()
### the highest goes back
{PARTS}
total = AllReduce.apply(shifted.logsumexp(-1).exp(), group).log() + highest
picked = AllReduce.apply(picked + highest * mine, group)
return (total - picked).sum() / targets.numel()
### in place, and softmax
{PARTS}
sums = torch.stack([shifted.exp().sum(-1), (picked * mine)])
gone = summed(sums.detach(), group)
total, picked = sums + (gone - sums.detach())
return torch.mean(total.log() - picked)
""",
    "7.14": f"""### a loop
{SUMS}
dist.all_reduce(cut, group=group)
return (cut + rest) ** 0.5
### the whole ones as n-th parts, and a plain number
{SUMS}
return summed(cut + rest / dist.get_world_size(group), group).sqrt().item()
### long vectors
zero = [torch.zeros(1, dtype=torch.float64)]
flat = lambda cut: torch.cat(zero + [p.grad.flatten() for p in model.parameters()
                                     if p.grad is not None and hasattr(p, "cut_dim") == cut])
lengths = [torch.zeros((), dtype=torch.float64) for _ in range(dist.get_world_size(group))]
dist.all_gather(lengths, flat(True).norm(), group)
return torch.stack([*lengths, flat(False).norm()]).norm()
""",
    "7.20": f"""### the solution
{STEP}
return step(between) / step(inside)
### a loop over messages, in bits and milliseconds
found = []
for rate, latency in (inside, between):
    total = 1000 * compute_seconds
    for message in range(sums * (2 * n - 2)):
        total += 1000 * latency + 8000 * sum_bytes / (8 * rate * n)
    found.append(total)
return found[1] / found[0]
""",
}

# ---- Wrong answers -----------------------------------------------------------------------------

WRONG = {
    "7.10": """### the matrix is cut as if it were one
return weight.chunk(n)[rank]
### three equal sections
return torch.cat([part.chunk(n)[rank] for part in weight.tensor_split(3)])
### do not add up to the rows
size = len(weight) // (3 * heads)
return torch.cat([part.chunk(n)[rank] for part in weight.split(heads * size if kv_heads == heads
                                                               else [heads * size] * 3)])
### ordered by heads
size, own = len(weight) // (heads + 2 * kv_heads), kv_heads // n
sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
parts = [part.chunk(n)[rank].view(own, -1, weight.shape[1]) for part in sections]
return torch.cat(parts, dim=1).flatten(0, 1)
### another rank's rows
size = len(weight) // (heads + 2 * kv_heads)
sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
return torch.cat([part.chunk(n)[0] for part in sections])
### this tears the heads apart
size = len(weight) // (heads + 2 * kv_heads)
sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
return torch.cat([part[rank::n] for part in sections])
### every n-th of the heads
size = len(weight) // (heads + 2 * kv_heads)
parts = weight.unflatten(0, (-1, size)).split([heads, kv_heads, kv_heads])
return torch.cat([part[rank::n].flatten(0, 1) for part in parts])
### every rank has all keys and values
size = len(weight) // (heads + 2 * kv_heads)
q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
return torch.cat([q.chunk(n)[rank], k, v])
### the columns are cut
return weight.chunk(n, dim=1)[rank]
### torch.cat puts the three sections together
size = len(weight) // (heads + 2 * kv_heads)
sections = weight.split([heads * size, kv_heads * size, kv_heads * size])
return [part.chunk(n)[rank] for part in sections]
### // gives a whole number
size = len(weight) / (heads + 2 * kv_heads)
return torch.cat([part.chunk(n)[rank] for part in weight.split(
    [heads * size, kv_heads * size, kv_heads * size])])
### the right rows in another order
size = len(weight) // (heads + 2 * kv_heads)
q, k, v = weight.split([heads * size, kv_heads * size, kv_heads * size])
return torch.cat([part.chunk(n)[rank] for part in (k, q, v)])
### a function without `return`
weight.chunk(n)
""",
    "7.11": f"""### what is added for them is zeros: multiply by mine, or use where
{MINE}
return self.leave(F.embedding(place.where(mine[..., 0], 0), self.weight), self.group)
### clamp gives the first row
{MINE}
return self.leave(self.weight[place.clamp(0, len(self.weight) - 1)], self.group)
### flows into the row that was looked up
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight)
rows.data *= mine
return self.leave(rows, self.group)
### added up nowhere: self.leave
{MINE}
return F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
### the sum of sums has every row n times
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
return self.leave(self.leave(rows, self.group), self.group)
### in 07b another one takes its place
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
return AllReduce.apply(rows, self.group)
### Here it is self.leave
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
dist.all_reduce(rows, group=self.group)
return rows
### the first letter of each rank is left out
place = letters - self.first
mine = (place > 0) & (place < len(self.weight))
return self.leave(self.weight[place.where(mine, 0)] * mine.unsqueeze(-1), self.group)
### need not have as many letters
place = letters - dist.get_rank(self.group) * len(self.weight)
mine = (place >= 0) & (place < len(self.weight))
return self.leave(self.weight[place.where(mine, 0)] * mine.unsqueeze(-1), self.group)
### Was it taken by .data or detach()
{MINE}
return self.leave(self.weight.detach()[place.where(mine[..., 0], 0)] * mine, self.group)
### there is no mean to take
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
return self.leave(rows / dist.get_world_size(self.group), self.group)
### give it the rows in their final shape
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
return self.leave(rows.flatten(0, -2), self.group).view(rows.shape)
### is the only message
letters = letters.clone()
dist.broadcast(letters, group_src=0, group=self.group)
{MINE}
return self.leave(F.embedding(place.where(mine[..., 0], 0), self.weight) * mine, self.group)
### -= is not
letters -= self.first
mine = (letters >= 0) & (letters < len(self.weight))
return self.leave(self.weight[letters.where(mine, 0)] * mine.unsqueeze(-1), self.group)
### a function without `return`
{MINE}
self.leave(F.embedding(place.where(mine[..., 0], 0), self.weight) * mine, self.group)
### hand `group` to every call
{MINE}
return self.leave(F.embedding(place.where(mine[..., 0], 0), self.weight) * mine)
""",
    "7.12": f"""### each rank has taken away its own highest score
{PARTS.replace("dist.all_reduce(highest, dist.ReduceOp.MAX, group)", "")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### over this rank's letters alone
{PARTS}
return (shifted.exp().sum(-1).log() - AllReduce.apply(picked, group)).mean()
### a target's score is here only if
{PARTS}
return (AllReduce.apply(shifted.exp().sum(-1), group).log() - picked).mean()
### that are letters of others
{PARTS.replace(".squeeze(-1) * mine", ".squeeze(-1)")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### exp of a large score is inf
{PARTS.replace("scores - highest.unsqueeze(-1)", "scores")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### logarithms are not added up
{PARTS}
sums = torch.stack([shifted.exp().sum(-1).log(), picked])
log_total, picked = AllReduce.apply(sums, group)
return (log_total - picked).mean()
### what they are the logarithms of
{PARTS}
return (AllReduce.apply(scores.logsumexp(-1), group)
        - AllReduce.apply(picked + highest * mine, group)).mean()
### for each target, the highest score of all letters
{PARTS.replace(".amax(-1)", ".amax()")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### autograd does not know dist.all_reduce
{PARTS}
total, picked = summed(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### the sum of exp has no gradient
{PARTS}
total = summed(shifted.exp().sum(-1).detach(), group)
return (total.log() - AllReduce.apply(picked, group)).mean()
### it is n times too large: an all-reduce in the backward
{PARTS}
import torch.distributed.nn.functional
sums = torch.stack([shifted.exp().sum(-1), picked])
total, picked = dist.nn.functional.all_reduce(sums, group=group or dist.group.WORLD)
return (total.log() - picked).mean()
### the way back leads through the highest score
{PARTS.replace(".detach().amax(-1)", ".max(-1).values")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### no rank sees all that becomes of it
{PARTS.replace(".detach()", "")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### it is divided by n
{PARTS}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
loss = (total.log() - picked).mean()
return AllReduce.apply(loss, group) / dist.get_world_size(group)
### the scores of all letters travel
parts = [torch.empty(*scores.shape[:-1], size, dtype=scores.dtype) for size in sizes]
parts[dist.get_rank(group)].copy_(scores.detach())
all_gather_ring(parts, group)
parts[dist.get_rank(group)] = scores
everything = torch.cat(parts, -1).view(-1, letters)
return F.cross_entropy(everything, targets.flatten())
### the scores of all letters need not travel
parts = [torch.empty(*scores.shape[:-1], size, dtype=scores.dtype) for size in sizes]
dist.all_gather(parts, scores.detach(), group)
return F.cross_entropy(torch.cat(parts, -1).view(-1, letters), targets.flatten())
### the sum over the targets
{PARTS}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).sum()
### take it from the target's, too
{PARTS.replace("picked = shifted", "picked = scores")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
### nearly right: it was rounded
{PARTS}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]).float(), group)
return (total.log() - picked).mean()
### without item() or float()
{PARTS}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean().item()
### the mean over all targets is missing
{PARTS}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return total.log() - picked
### the caller still needs it
{PARTS.replace("shifted = scores -", "scores -=").replace("picked =", "shifted = scores; picked =")}
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
""",
    "7.14": f"""### here it counts n times
{SUMS}
return summed(cut + rest, group).sqrt()
### this is what this rank alone can see
{SUMS}
return (cut + rest).sqrt()
### the root is missing
{SUMS}
return summed(cut, group) + rest
### lengths are not added
{SUMS}
return summed(cut.sqrt(), group) + rest.sqrt()
### there is no mean
{SUMS}
return (summed(cut, group) / dist.get_world_size(group) + rest).sqrt()
### a tied parameter counts twice
total = []
for wanted in (True, False):
    grads = [p.grad for _, p in model.named_parameters(remove_duplicate=False)
             if p.grad is not None and hasattr(p, "cut_dim") == wanted]
    total.append(sum(((g**2).sum() for g in grads), torch.zeros((), dtype=torch.float64)))
return (summed(total[0], group) + total[1]).sqrt()
### the optimizer steps with it afterwards
{SUMS.replace("p.grad**2", "p.grad.pow_(2)")}
return (summed(cut, group) + rest).sqrt()
### but a latency each
total = torch.zeros((), dtype=torch.float64)
for p in model.parameters():
    square = total * 0 if p.grad is None else p.grad.pow(2).sum()
    total = total + (summed(square, group) if hasattr(p, "cut_dim") else square)
return total.sqrt()
### the others need one number alone
total = torch.zeros((), dtype=torch.float64)
for p in model.parameters():
    gradient = torch.zeros_like(p) if p.grad is None else p.grad
    total = total + whole(p, group, gradient).pow(2).sum()
return total.sqrt()
### They belong to different weights
total = torch.zeros((), dtype=torch.float64)
for p in model.parameters():
    gradient = torch.zeros_like(p) if p.grad is None else p.grad
    total = total + (summed(gradient, group) if hasattr(p, "cut_dim") else gradient).pow(2).sum()
return total.sqrt()
### that are whole are left out
{SUMS}
return summed(cut, group).sqrt()
### a function without `return`
{SUMS}
summed(cut, group)
### nearly right: it was rounded
{SUMS.replace("torch.zeros((), dtype=torch.float64)", "torch.zeros(1)")}
return (summed(cut, group) + rest).sqrt()
### no parameter of this model is cut: sum() of nothing is the number 0
grads = [(p, p.grad) for p in model.parameters() if p.grad is not None]
rest = sum(g.pow(2).sum() for p, g in grads if not hasattr(p, "cut_dim"))
return (summed(sum(g.pow(2).sum() for p, g in grads if hasattr(p, "cut_dim")), group) + rest).sqrt()
### and the root comes at the very end
grads = [(p, p.grad) for p in model.parameters() if p.grad is not None]
rest = sum(g.pow(2).sum() for p, g in grads if not hasattr(p, "cut_dim")) ** 0.5
mine = sum(g.pow(2).sum() for p, g in grads if hasattr(p, "cut_dim"))
return summed(mine, group) ** 0.5 + rest
### this model has no gradient at all: nothing can be stacked
n = dist.get_world_size(group)
squares = [p.grad.pow(2).sum() / (1 if hasattr(p, "cut_dim") else n)
           for p in model.parameters() if p.grad is not None]
return summed(torch.stack(squares).sum(), group).sqrt()
""",
    "7.20": f"""### how much longer the messages take
compute_seconds = 0
{STEP}
return step(between) / step(inside)
### a ring all-reduce goes round twice
{STEP.replace("2 * (n", "(n")}
return step(between) / step(inside)
### and a ring all-reduce goes round twice
{STEP.replace("2 * (n - 1)", "2")}
return step(between) / step(inside)
### is one of n chunks
{STEP.replace("sum_bytes / n", "sum_bytes")}
return step(between) / step(inside)
### not once for an all-reduce
def step(rate, latency):
    return compute_seconds + sums * (latency + 2 * (n - 1) * sum_bytes / n / rate)
return step(*between) / step(*inside)
### the latency is missing
{STEP.replace("link[1]", "0")}
return step(between) / step(inside)
### upside down
{STEP}
return step(inside) / step(between)
### asked is how many times as long it takes
{STEP}
return step(between) / step(inside) - 1
### these are seconds
{STEP}
return step(between)
### all-reduces in a step
sums = 1
{STEP}
return step(between) / step(inside)
### inside and between are pairs
{STEP.replace("link[0]", "link")}
return step(between) / step(inside)
### in this order
{STEP.replace("link[1]", "link[2]").replace("link[0]", "link[1]").replace("[2]", "[0]")}
return step((between[0], between[1] * 0)) / step((inside[0], inside[1] * 0))
### it is what a step computes on each of the n ranks already
{STEP.replace("compute_seconds", "compute_seconds / n")}
return step(between) / step(inside)
### how much of the tensor a rank sends, not how many messages
{STEP.replace("2 * (n - 1)", "2 * (n - 1) / n").replace("size=sum_bytes / n", "size=sum_bytes")}
return step(between) / step(inside)
### times the ratio of the bandwidths
{STEP}
share = (step(inside) - compute_seconds) / step(inside)
return 1 - share + share * inside[0] / between[0]
### are swapped
{STEP.replace("link[1]", "rate").replace("link[0]", "link[1]").replace("rate", "link[0]")}
return step(between) / step(inside)
### a function without `return`
{STEP}
step(between) / step(inside)
""",
}

HANGS = (
    "also one that has none of the letters",
    "with a call for each parameter they lose each other",
)

# Wrong answers that fail on some ranks alone: each is tried in a launch of its own.
FAILING = {
    "7.11": f"""### put zeros in its place
return self.leave(F.embedding(letters - self.first, self.weight), self.group)
### A negative index counts from the end
rows = self.weight[(letters - self.first).clamp(max=len(self.weight) - 1)]
return self.leave(rows * (letters < self.first + len(self.weight)).unsqueeze(-1), self.group)
### also one that has none of the letters
{MINE}
rows = F.embedding(place.where(mine[..., 0], 0), self.weight) * mine
return self.leave(rows, self.group) if mine.any() else rows
""",
    "7.12": """### Pick any score for those
highest = scores.detach().amax(-1)
dist.all_reduce(highest, dist.ReduceOp.MAX, group)
shifted = scores - highest.unsqueeze(-1)
picked = shifted.gather(-1, (targets - first).unsqueeze(-1)).squeeze(-1)
total, picked = AllReduce.apply(torch.stack([shifted.exp().sum(-1), picked]), group)
return (total.log() - picked).mean()
""",
    "7.14": """### its `.grad` is None
cut = sum(p.grad.pow(2).sum() for p in model.parameters() if hasattr(p, "cut_dim"))
rest = sum(p.grad.pow(2).sum() for p in model.parameters() if not hasattr(p, "cut_dim"))
return (summed(cut, group) + rest).sqrt()
### with a call for each parameter they lose each other
total = torch.zeros((), dtype=torch.float64)
for p in model.parameters():
    if p.grad is not None:
        square = p.grad.pow(2).sum()
        total = total + (summed(square, group) if hasattr(p, "cut_dim") else square)
return total.sqrt()
""",
}


# ---- What is tested ----------------------------------------------------------------------------


@pytest.mark.parametrize("number", IN_A_LAB)
def test_the_solution_is_right(number):
    verdict = check(number)
    assert verdict.passed, verdict
    assert len(verdict.lines) >= 3


@pytest.mark.parametrize("number", EXERCISES)
def test_right_answers_of_another_style(number, monkeypatch):
    bodies = answers(RIGHT[number])
    if number in IN_A_CELL:
        found = [check_cell(number, body) for body in bodies.values()]
    else:
        found = verdicts(number, bodies.values(), monkeypatch)
    for style, verdict in zip(bodies, found, strict=True):
        assert verdict.passed, (style, verdict)


@pytest.mark.parametrize("number", IN_A_LAB)
def test_wrong_answers_are_told_what_is_wrong(number, monkeypatch):
    bodies = answers(WRONG[number])
    for phrase, verdict in zip(bodies, verdicts(number, bodies.values(), monkeypatch)):
        assert verdict.passed is False, (phrase, verdict)
        assert phrase in verdict.wrong.why, (phrase, verdict)


def cases(table, numbers):
    return [
        pytest.param(number, phrase, body, id=f"{number} {phrase}")
        for number in numbers
        for phrase, body in answers(table[number]).items()
    ]


@pytest.mark.parametrize(("number", "phrase", "body"), cases(WRONG, IN_A_CELL))
def test_wrong_answers_in_a_cell_are_told_what_is_wrong(number, phrase, body):
    verdict = check_cell(number, body)
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


@pytest.mark.parametrize(("number", "phrase", "body"), cases(FAILING, IN_A_LAB))
def test_answers_that_fail_are_told_what_it_means(number, phrase, body, check_lab, monkeypatch):
    if phrase in HANGS:
        monkeypatch.setattr(checking, "TIMEOUT_SECONDS", 3.0)
    verdict = check_lab(number, program(number, body))
    assert verdict.passed is False, verdict
    assert phrase in verdict.wrong.why, verdict


@pytest.mark.parametrize("number", EXERCISES)
def test_there_are_enough_of_all(number):
    assert len(answers(WRONG[number])) >= 6
    assert len(answers(RIGHT[number])) >= 2
    assert 2 <= len(EXERCISES[number].hints) <= 4


@pytest.mark.parametrize("number", EXERCISES)
def test_a_hole_is_refused_politely(number, check_lab):
    if number in IN_A_CELL:
        verdict = check_cell(number, "...")
    else:
        kind = "class" if number == "7.11" else "def"
        hole = f'{kind} {EXERCISES[number].name}():\n    """Exercise {number}."""\n    ...\n'
        verdict = check_lab(number, hole)
    assert verdict.passed is None
    assert f"write {EXERCISES[number].name}" in str(verdict)


def test_a_fault_of_an_earlier_exercise_is_sent_there(check_lab):
    source = """
def cut(x, dim, group=None, unit=1):
    return x.chunk(dist.get_world_size(group), dim)[0].clone()


class AllReduce(AllReduce):
    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient, None, None
"""
    assert check_lab("7.11", source).wrong.why == 'first: check("7.1")'
    assert check_lab("7.12", source).wrong.why == 'first: check("7.3")'


def test_warnings_of_what_autograd_passes_by_are_noted_and_all_others_given():
    words = "c10d::some_: an autograd kernel was not registered to the Autograd key(s)"
    with pytest.warns() as given, groups.noting_passed() as passed:
        warnings.warn(words, stacklevel=1)
        warnings.warn("another one", stacklevel=1)
    assert passed == ["c10d::some_"]
    assert [str(warning.message) for warning in given] == ["another one"]


def test_the_truth_is_that_of_one_process():
    scores, targets = split_scores.cases()["two samples of five letters"]
    loss, gradient = split_scores.one_process(scores, targets)
    chances = scores.softmax(-1)
    hot = F.one_hot(targets, 10)
    assert close(loss, -(chances * hot).sum(-1).log().mean().item())
    assert close(gradient, 3 * (chances - hot) / 10)
    names = gradient_norms.MODELS["cut and whole parameters"]
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    cut = torch.cat(gradient_norms.flat(names, range(3), cut=True))
    rest = torch.cat(gradient_norms.flat(names, [0], cut=False))
    for p, gradient in zip(parameters, (cut, rest)):
        p.data, p.grad = torch.zeros_like(gradient), gradient.clone()
    found = torch.nn.utils.clip_grad_norm_(parameters, 1.0).item()
    one = {rank: {"norm": found, "changed": [], "calls": []} for rank in range(3)}
    assert close(gradient_norms.judge_norm("", one, 3, names, ""), found)
