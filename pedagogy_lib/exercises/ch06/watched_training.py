"""A training with stage 3 that is watched, beside the same on one process: for the check of 6.11.

Whether a unit is whole is seen at its storage, between forward, backward and step.
"""

import contextlib
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from ...basics.closeness import close
from ..kit.differences import first_difference
from ..kit.models import SAMPLES, WIDTH, WORDS, equal_models, loss_of, share_of
from ..kit.refused import Refused
from .prefetching import Line

RATE = 0.05
# Of each step: the layers that take part, in their order, and how many backwards it has. In one of
# them a layer comes twice, and one has no part.
STEPS = [((0, 1, 2, 3), 1), ((0, 1, 2, 3), 2), ((2, 0, 1, 0), 1), ((0, 1, 2, 3), 1)]
EVALUATED = 2  # after this step


@dataclass(frozen=True)
class Plan:
    """How a model is trained.

    inside, around  layers that are recomputed: in a part of them, or as a whole
    stops_early     whether a recomputation ends as soon as it has what the backward needs
    prefetch        None; "thread"; or "line": in its place, a line of jobs, see Line
    ends_in_layer   whether the model ends with a layer: nothing of its own comes after it
    """

    name: str
    inside: tuple[int, ...] = ()
    around: tuple[int, ...] = ()
    stops_early: bool = True
    prefetch: str | None = None
    ends_in_layer: bool = False

    def __str__(self):
        return self.name


PLAIN = Plan("training")
STOPPING = Plan("checkpointing", (0,), (1, 2))
COMPLETE = Plan("checkpointing, all recomputed", (0,), (1, 2), stops_early=False)
LAST = Plan(
    "checkpointing, the last layer too", around=(0, 1, 2, 3), stops_early=False, ends_in_layer=True
)
LINE = Plan("prefetch", prefetch="line")
THREAD = Plan("prefetch in a thread", (2,), (0,), prefetch="thread")


# ---- The model -------------------------------------------------------------------------------


class Layer(nn.Module):
    """Adds to its input what two linear layers make of it."""

    def __init__(self, width, inner):
        super().__init__()
        self.first, self.second = nn.Linear(width, inner), nn.Linear(inner, width)
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.recomputes = False

    def forward(self, x):
        return checkpointed(self.compute, x) if self.recomputes else self.compute(x)

    def compute(self, x):
        return x + self.scale * self.second(torch.tanh(self.first(x)))


checkpointed = partial(checkpoint, use_reentrant=False)


class Stack(nn.Module):
    """An embedding, layers in some order, and an output that shares the embedding's weights.

    A parameter has no part in the loss, and two are frozen. Without `output`, the model ends with a
    layer; its width is the number of words then.
    """

    def __init__(self, width=WIDTH, inner=(3, 5, 2, 4), output=True):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.unused = nn.Parameter(torch.zeros(3))
        self.layers = nn.ModuleList(Layer(width, size) for size in inner)
        self.output = nn.Linear(width, WORDS) if output else nn.Identity()
        if output:
            self.output.weight = self.embedding.weight
        self.layers[1].first.requires_grad_(False)
        self.order, self.around = range(len(inner)), ()
        self.double()

    def follow(self, plan):
        self.around = plan.around
        for number in plan.inside:
            self.layers[number].recomputes = True

    def forward(self, tokens):  # (samples,)
        x = self.embedding(tokens)
        for number in self.order:
            layer = self.layers[number]
            x = checkpointed(layer, x) if number in self.around else layer(x)
        return self.output(x)


def stack_of(plan):
    return partial(Stack, width=WORDS, output=False) if plan.ends_in_layer else Stack


def make_optimizer(parameters):
    return torch.optim.Adam(parameters, lr=RATE)


# ---- A training that is watched --------------------------------------------------------------


class Training:
    """The steps of a rank beside those of one process; raises `Refused` at a difference."""

    def __init__(self, answer, group, plan):
        self.mine, self.alone = equal_models(2, stack_of(plan))
        self.mine.follow(plan)
        self.plan, self.group = plan, group
        self.place, self.n = dist.get_rank(group), dist.get_world_size(group)
        modules, prefetch = list(self.mine.layers), plan.prefetch is not None
        self.zero = answer(self.mine, make_optimizer, modules, group, prefetch=prefetch)
        self.optimizer = make_optimizer([p for p in self.alone.parameters() if p.requires_grad])
        self.line = Line(self.zero) if plan.prefetch == "line" else contextlib.nullcontext()
        self.names = {unit: name_of(module, modules) for module, unit in self.zero.units.items()}
        self.phase, self.started = "", []
        for layer in self.mine.layers:
            layer.register_forward_pre_hook(lambda layer, _: self.started.append(layer))
            layer.register_forward_hook(self.after_layer)

    def run(self):
        if not all(close(*pair) for pair in self.weights().values()):
            raise Refused("at the start, weights are not those of rank 0", 'first: check("3.4")')
        with set_checkpoint_early_stop(self.plan.stops_early):
            for number, (order, backwards) in enumerate(STEPS):
                self.mine.order = self.alone.order = order
                for backward in range(backwards):
                    self.learn(number, 10 * number + backward)
                self.step(number)
                if number == EVALUATED:
                    self.evaluate()

    def learn(self, number, seed):
        """A forward and a backward of both models."""
        loss_of(self.alone, seed, slice(None), 1 / SAMPLES).backward()
        self.begin(f"the forward of step {number + 1}")
        with self.told():
            loss = self.loss(seed)
        self.need_disposed(HELD if number else AFTER_FORWARD)
        self.begin(f"the backward of step {number + 1}")
        with self.told():
            loss.backward()
        self.need_disposed(AFTER_BACKWARD)
        left = [name for name, p in self.mine.named_parameters() if p.grad is not None]
        if left and not self.plan.prefetch:
            raise Refused(f"after {self.phase}, {left[0]} has a gradient still", NOT_REDUCED)

    def loss(self, seed, model=None):
        """What the samples of this rank add to the loss of all ranks, times their number."""
        return loss_of(model or self.mine, seed, share_of(self.place, self.n), self.n / SAMPLES)

    def step(self, number):
        for p in self.alone.parameters():
            if p.requires_grad and p.grad is None:
                p.grad = torch.zeros_like(p)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.zero.step()
        if isinstance(self.line, Line):
            self.line.need_good_use(number)
        self.phase = f"step {number + 1}"
        self.need_disposed(AFTER_STEP, always=True)
        for name, (got, wanted) in self.weights().items():
            if not close(got, wanted):
                what = f"after {self.phase}, {name} {first_difference(got, wanted)}"
                raise Refused(what, LATER if number else WRONG_STEP)

    @torch.no_grad()
    def evaluate(self):
        self.begin("an evaluation")
        with self.told():
            got = self.loss(EVALUATED)
        wanted = self.loss(EVALUATED, self.alone)
        if not close(got, wanted):
            raise Refused(f"the loss of an evaluation {first_difference(got, wanted)}", STALE)
        self.need_disposed(AFTER_EVALUATION)

    def begin(self, phase):
        self.phase, self.started = phase, []

    @contextlib.contextmanager
    def told(self):
        """Errors of torch about parameters that are not there say what they mean."""
        try:
            with self.line:
                yield
        except RuntimeError as error:
            if not any(words in str(error) for words in NOT_THERE):
                raise
            what = str(error).splitlines()[0]
            raise Refused(f"in {self.phase}, torch says: {what}", self.why_not_there()) from None

    def why_not_there(self) -> str:
        if self.plan.prefetch:
            return NOT_WAITED_FOR
        if "backward" not in self.phase:
            return NO_ELEMENTS
        return RECOMPUTED if self.plan.around else NOT_IN_BACKWARD

    def whole(self) -> list:
        """The units whose memory is there."""
        return [unit for unit in self.names if unit.flat.untyped_storage().nbytes()]

    def after_layer(self, layer, *_):
        """A layer's forward is over: besides what is in no layer, nothing should be whole."""
        if self.plan.prefetch or "backward" in self.phase:
            return
        units = {self.zero.units[module] for module in self.started}
        if any(unit not in units and self.names[unit] != REST for unit in self.whole()):
            self.refuse_whole(f"in {self.phase}, before their turn", TOO_EARLY)
        if any(unit in units for unit in self.whole()):
            why = AFTER_FORWARD if self.phase.endswith("step 1") else HELD
            why = AFTER_EVALUATION if "evaluation" in self.phase else why
            self.refuse_whole(f"in {self.phase}, after a layer's own", why)

    def need_disposed(self, why, always=False):
        """With prefetch, a unit may be on its way at any time but after a step."""
        if self.whole() and (always or not self.plan.prefetch):
            self.refuse_whole(f"after {self.phase}", why)

    def refuse_whole(self, when, why):
        names = ", ".join(self.names[unit] for unit in self.whole())
        raise Refused(f"{when}, these are whole: {names}", why)

    def weights(self) -> dict:
        """{name: (mine, with the other ranks' shards; that of one process)}, flat."""
        names = {id(p): name for name, p in self.mine.named_parameters()}
        wanted = dict(self.alone.named_parameters())
        found = {}
        for unit in self.names:
            parts = [torch.empty_like(unit.shard.data) for _ in range(self.n)]
            dist.all_gather(parts, unit.shard.data, group=self.group)
            rest = torch.cat(parts)
            for name in (names[id(p)] for p in unit.parameters):
                size = wanted[name].numel()
                found[name] = rest[:size], wanted[name].detach().flatten()
                rest = rest[size:]
        return found


REST = "what is in no layer"


def name_of(module, layers) -> str:
    return f"layer {layers.index(module)}" if module in layers else REST


# ---- What is wrong ---------------------------------------------------------------------------

NOT_THERE = (
    "size mismatch", "must be 2-D", "must match the size", "setStorage", "not allocated yet",
)  # fmt: skip
NO_ELEMENTS = (
    "a module computes with parameters that have no elements: its unit was not gathered before its "
    "forward. need() gathers it, unless self.coming says that it is there: drop() takes it out of "
    "that, dispose() alone does not"
)
NOT_IN_BACKWARD = (
    "what autograd has saved are views into flat, and flat's memory is not there: a disposed "
    "unit's storage has 0 bytes. Its parameters are needed once more, for the backward: "
    "before_backward is called in time to gather them"
)
RECOMPUTED = (
    "the unit is taken away in the middle of its backward. A forward that is recomputed there ends "
    "with after_forward as well, and its backward still has to come: a unit whose backward has "
    "begun, and whose gradients are not reduced, stays. self.held is for that"
)
NOT_WAITED_FOR = (
    "without prefetch it is right; with it the unit is still on its way when it is used. fetch() "
    "begins to gather it, and need() returns when it is there"
)
AFTER_FORWARD = (
    "the numbers may be right, but all units end up whole at the same time: nothing is saved, and "
    "only 2/3 of the bytes are sent. after_forward lets go of the unit, with drop(), which knows "
    "what need() has fetched; what gather() alone has fetched it does not know"
)
HELD = (
    "in the first step it is disposed of, and later not: it is still in self.held, from the "
    "backward before. When its gradients are reduced, it has to leave that, too"
)
AFTER_EVALUATION = (
    "in a training it is disposed of, and under no_grad not: there the output requires no "
    "gradient, and no backward comes. What after_forward lets go of does not depend on that"
)
TOO_EARLY = (
    "units are gathered before it is their turn: all of them together are the whole model, which "
    "is what stage 3 avoids. before_forward is called for each unit, just before its module"
)
AFTER_BACKWARD = (
    "when its gradients are reduced, nobody needs the unit's parameters any more: reduce() has to "
    "let go of it, with drop()"
)
AFTER_STEP = (
    "nothing is to be whole after a step: what was gathered is out of date. drop() disposes of "
    "what need() has fetched; what gather() alone has fetched it does not know"
)
NOT_REDUCED = (
    "a unit's gradients are to be reduced, and freed, as in stage 2: reduce_gradients(unit). "
    "reduce() takes the place of stage 2's"
)
WRONG_STEP = "the shards follow other gradients than the mean over the ranks"
LATER = (
    "the first step is right, this one is not: does something stay for the next step? What "
    "several backwards give adds up, and a unit that had no part in a loss is reduced as well"
)
STALE = "an evaluation has to see the weights after the last step: each unit is gathered for it"
