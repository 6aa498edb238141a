"""The cases, and the code that runs next to the answer."""

import contextlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils.checkpoint import set_checkpoint_early_stop

from coursekit.kit import RankCase, Rejection
from coursekit.kit.diagnoses import first_difference
from coursekit.kit.reference_training import SAMPLES, equal_models, loss_of, share_of
from pedagogy_lib.basics.closeness import close

from ..shared.one_process_reference import OneProcess, Stack, make_optimizer
from ..shared.zero3_training import name_of
from .line_of_jobs import NOT_YET, Line, Uses

# (the layers that take part, in order; the number of backwards) of each step.
STEPS = [((0, 1, 2), 1), ((1, 0, 1), 1), ((0, 1, 2), 2), ((0, 1, 2), 1), ((0, 1, 2), 1)]

NOT_THERE = ("size mismatch", "must be 2-D", "must match the size", "setStorage", "not allocated")


@dataclass(frozen=True)
class Plan(RankCase):
    """The place and the way in which a model is trained.

    depth   number of units gathered ahead
    steps   number of STEPS that are taken
    around  layers that are recomputed
    thread  whether the answer keeps its own thread; otherwise a `Line` replaces it
    """

    depth: int = 1
    steps: int = len(STEPS)
    around: tuple[int, ...] = ()
    thread: bool = False


class Training:
    """The steps of a rank, compared with those of one process; a difference raises `Rejection`."""

    def __init__(self, answer, group, plan):
        self.place, self.n = dist.get_rank(group), dist.get_world_size(group)
        self.plan, self.group = plan, group
        self.mine, alone = equal_models(2, Stack)
        self.alone, self.weights = OneProcess(alone), {}
        self.mine.around, layers = plan.around, list(self.mine.layers)
        named = {p: name for name, p in self.mine.named_parameters()}
        self.zero = answer(self.mine, make_optimizer, layers, group, depth=plan.depth)
        self.names = {unit: name_of(module, layers) for module, unit in self.zero.units.items()}
        self.named = {unit: [named[p] for p in unit.parameters] for unit in self.names}
        self.line = contextlib.nullcontext()
        if not plan.thread:
            self.line = Line(self.names)
            self.zero.begin = self.line.begin
            self.uses = Uses(self.zero, self.line, plan.depth, self.names)

    def run(self):
        for number, (order, backwards) in enumerate(STEPS[: self.plan.steps], 1):
            self.mine.order = self.alone.model.order = order
            if not self.plan.thread:
                self.line.sent = 0
            for backward in range(backwards):
                self.learn(number, 10 * number + backward)
            self.step(number)

    def learn(self, number, seed):
        self.alone.learn(seed)
        with self.watch_phase(f"the forward of step {number}"):
            share = share_of(self.place, self.n)
            loss = loss_of(self.mine, seed, share, self.n / SAMPLES)
        with self.watch_phase(f"the backward of step {number}"):
            loss.backward()

    @contextlib.contextmanager
    def watch_phase(self, phase):
        try:
            with self.line:
                yield
        except RuntimeError as error:
            if not any(words in str(error) for words in NOT_THERE):
                raise
            what = str(error).splitlines()[0]
            why = f"a unit is used before it is there. {NOT_YET[0].upper()}{NOT_YET[1:]}"
            raise Rejection(f"in {phase}, torch says: {what}", why) from None

    def step(self, number):
        self.alone.step()
        with self.line:
            self.zero.step()
        if not self.plan.thread:
            self.uses.end_step()
        self.compare(number)
        if not self.plan.thread and number == len(STEPS):
            self.need_few_bytes()

    def compare(self, number):
        right, found = self.alone.weights(), self.weights.setdefault(f"step {number}", {})
        for unit, names in self.named.items():
            parts = [torch.empty_like(unit.shard) for _ in range(self.n)]
            dist.all_gather(parts, unit.shard.detach(), self.group)
            values = torch.cat(parts)[: sum(unit.sizes)].split(unit.sizes)
            for name, got in zip(names, values):
                found[name], wanted = got, right[name].flatten()
                if not close(got, wanted):
                    what = first_difference(got, wanted)
                    raise Rejection(f"after step {number}, {name} {what}", OTHER)

    def need_few_bytes(self):
        flats = sum(unit.flat.nbytes for unit in self.names)
        most = 3 * (self.n - 1) / self.n * flats
        if self.line.sent > most * 1.001:
            raise Rejection(
                f"the last step sends {self.line.sent:,} bytes, expected {most:,.0f}",
                "the numbers are right, but units travel that are there already, or on their way: "
                "self.coming says which",
            )


OTHER = (
    "the shards follow other gradients than the mean over the ranks: is each unit reduced, once in "
    "each backward, with the gradients in `taken`?"
)


def train(answer, group, case):
    with set_checkpoint_early_stop(True):
        training = Training(answer, group, case)
        training.run()
    return {"weights": training.weights}
