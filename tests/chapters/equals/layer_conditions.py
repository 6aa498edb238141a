"""Layers in parts under odd but legal input: the shared conditions, and how a layer is tried."""

from contextlib import nullcontext, suppress
from copy import deepcopy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from twins import EQUAL

HALVES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "tiny gradients in float16": torch.float16,
    "huge gradients in float16": torch.float16,
    "tiny gradients in bfloat16": torch.bfloat16,
    "huge gradients in bfloat16": torch.bfloat16,
}
AUTOCAST = {"autocast": torch.bfloat16, "autocast to float16": torch.float16}
FLOATS = dict.fromkeys(("float32", *AUTOCAST), torch.float32)
# The largest and the smallest are those at which no sum overflows, and no number is below the
# smallest normal one, in one process.
FACTORS = {
    "tiny gradients in float16": 2.0**-8,
    "huge gradients in float16": 2.0**9,
    "tiny gradients in bfloat16": 2.0**-110,
    "huge gradients in bfloat16": 2.0**110,
}
OF_VALUES = ("float64", *FLOATS, *HALVES, "infinite gradient", "gradient that is not a number")
OF_SHAPES = ("empty", "one dimension", "several dimensions", "not contiguous", "expanded",
             "gradient of a sum")  # fmt: skip
OF_GRADIENTS = ("frozen", "frozen input", "no_grad", "inference mode", "unused", "used twice",
                "two backwards", "one graph, two backwards", "a backward that raised",
                "recomputed", "dropout", "changed in place")  # fmt: skip
OF_GROUPS = ("a group of some ranks", "several groups")
LAYERS = dict.fromkeys((*OF_VALUES, *OF_SHAPES, *OF_GRADIENTS, *OF_GROUPS), EQUAL)
TWICE = "differentiated twice"
ONCE = "differentiate once"  # with which AllReduce and others refuse it
NOTHING = 123.0  # stands for a gradient that is None


def lines_of_ranks(condition) -> list[list[int]]:
    """Return the ranks of each group. All ranks work, each in its own group."""
    ranks = list(range(dist.get_world_size()))
    lines = {"a group of some ranks": [ranks[:1], ranks[1:]], "several groups": [ranks[::2],
             ranks[1::2]]}.get(condition, [ranks])  # fmt: skip
    return [line for line in lines if line]


class Case:
    """A layer in parts under a condition; subclasses say how it and the whole one are made."""

    width = 5  # of the input

    def __init__(self, condition):
        self.condition = condition
        lines = lines_of_ranks(condition)
        groups = [dist.new_group(line) for line in lines]
        self.group = next(group for group in groups if dist.get_rank(group) >= 0)
        self.rank, self.n = dist.get_rank(self.group), dist.get_world_size(self.group)
        self.together = 2 if condition == "together" else 1  # what is not cut apart
        self.dtype = (HALVES | FLOATS).get(condition, torch.float64)
        self.chance = torch.Generator().manual_seed(len(lines[0]) * 7 + lines[0][0])

    def draw(self, *shape):
        """Draw numbers that a half-precision number can have, the same on all ranks of a group."""
        numbers = torch.randn(shape, generator=self.chance, dtype=torch.float64)
        return numbers.to(AUTOCAST.get(self.condition, self.dtype)).to(self.dtype)

    def whole(self) -> nn.Module:
        """Make the whole layer, the same on all ranks."""
        raise NotImplementedError

    def fill(self, whole) -> nn.Module:
        """Give a layer numbers that are the same on all ranks of a group."""
        for name, p in whole.to(self.dtype).named_parameters():
            p.requires_grad_(self.condition != f"frozen {name}")
            with torch.no_grad():
                p.copy_(self.draw(*p.shape))
                if self.condition == "infinite weight":
                    p.view(-1)[0] = torch.inf
        return whole

    def split(self, whole) -> nn.Module:
        """Make this rank's part of the layer."""
        raise NotImplementedError

    def input(self):
        shapes = {"empty": (0, 3), "one dimension": (), "several dimensions": (2, 1, 3, 1)}
        shape = shapes.get(self.condition, (2, 3))
        if self.condition == "not contiguous":
            return self.draw(self.width, *shape).movedim(0, -1)
        if self.condition == "expanded":
            return self.draw(1, self.width).expand(*shape, self.width)
        return self.draw(*shape, self.width)

    def part_of_input(self, x):
        return x

    def part_of_output(self, y):
        return y

    def parts_of_gradients(self, gradients) -> list:
        """Return what this rank has of the gradients of the whole layer's parameters."""
        raise NotImplementedError

    def complete(self, layer):
        """Complete the gradients, if the layer asks for it."""

    def cut(self, x, dim):
        """Return this rank's part of a tensor; None has the part None."""
        if x is None:
            return None
        places = torch.arange(x.shape[dim]).view(-1, self.together).tensor_split(self.n)
        return x.index_select(dim, places[self.rank].flatten())


def prepare(kind):
    """Make a twin's `prepare` for a kind of Case."""

    def prepare(condition):
        case = kind(condition)
        whole, x = case.whole(), case.input()
        if condition == "frozen":
            whole.requires_grad_(False)
        with torch.no_grad():
            y = deepcopy(whole)(x)
        slope = case.draw(*y.shape) * FACTORS.get(condition, 1)
        if condition in SPECIAL and slope.numel():
            slope.view(-1)[1 % slope.numel()] = SPECIAL[condition]
        if condition == "gradient of a sum":
            slope = slope.new_ones(()).expand(y.shape)

        def ours():
            layer = case.split(deepcopy(whole))
            found = learn(layer, case.part_of_input(x), case.part_of_output(slope), case)
            return visible([*found, *gradients_of(layer)])

        def in_one_process(whole, x, slope):
            y, of_x, of_slope = learn(whole, x, slope, case)
            found = case.part_of_output(y), case.part_of_input(of_x), case.part_of_output(of_slope)
            return visible([*found, *case.parts_of_gradients(gradients_of(whole))])

        def theirs():
            return in_one_process(deepcopy(whole), x, slope)

        def exact():
            case.condition = "float64"
            wide = x.double() if x.is_floating_point() else x
            return in_one_process(deepcopy(whole).double(), wide, slope.double())

        is_rough = condition in HALVES or condition in FLOATS
        return (ours, theirs, exact) if is_rough else (ours, theirs)

    return prepare


SPECIAL = {"infinite gradient": torch.inf, "gradient that is not a number": torch.nan}


def gradients_of(layer) -> list:
    return [p.grad for p in layer.parameters()]


def visible(numbers) -> list:
    """Return tensors that can be compared: None as a number, and which ones are not a number."""
    numbers = [torch.tensor(NOTHING) if x is None else x.detach().to_dense() for x in numbers]
    return [x for number in numbers for x in (number.nan_to_num(0, torch.inf, -torch.inf),
                                              number.isnan().to(number.dtype))]  # fmt: skip


def learn(layer, x, slope, case):
    """Run forward and backward; return the output, and the gradients of input and slope."""
    condition = case.condition
    x, slope = x.detach(), slope.detach()
    x.requires_grad_(x.is_floating_point() and condition != "frozen input")
    slope.requires_grad_(condition == TWICE)

    def run(x):
        if condition == "dropout" and x.is_floating_point() and case.part_of_input(x) is x:
            return layer(drop(x))
        y = checkpoint(layer, x, use_reentrant=False) if condition == "recomputed" else layer(x)
        if condition == "used twice":
            y = y + layer(x.flip(0))
        if condition == "changed in place":
            y.mul_(2)
        return drop(y) if condition == "dropout" else y

    if condition == "a backward that raised":
        fail(run, layer, x, slope)
    for _ in range(2 if condition == "two backwards" else 1):
        with mode(condition):
            y = run(x)
        backward(y, x, slope, layer, condition)
    case.complete(layer)
    return y, x.grad, slope.grad


def backward(y, x, slope, layer, condition):
    if not y.requires_grad or condition == "unused":
        return
    slope = slope.to(y.dtype)
    if condition == TWICE:
        leaves = [leaf for leaf in (x, *layer.parameters()) if leaf.requires_grad]
        firsts = torch.autograd.grad(y, leaves, slope, create_graph=True)
        sum(first.square().sum() for first in firsts).backward()
        return
    if condition == "one graph, two backwards":
        y.backward(slope, retain_graph=True)
    y.backward(slope)


def mode(condition):
    if condition in AUTOCAST:
        return torch.autocast("cpu", AUTOCAST[condition])
    if condition == "inference mode":
        return torch.inference_mode()
    return torch.no_grad() if condition == "no_grad" else nullcontext()


def drop(x):
    torch.manual_seed(5)
    return F.dropout(x, 0.5)


def fail(run, layer, x, slope):
    """Run a backward that raises, on all ranks, once it has come through the layer."""

    def out_of_memory(gradient):
        raise MemoryError("out of memory")

    y = run(x)
    hook = (x if x.requires_grad else y).register_hook(out_of_memory)
    with suppress(MemoryError):
        y.backward(slope)
    hook.remove()
    layer.zero_grad()
