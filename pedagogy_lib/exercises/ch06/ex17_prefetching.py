"""Stage 3 whose messages travel while it computes."""

import contextlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils.checkpoint import set_checkpoint_early_stop

from ...basics.closeness import close
from ..kit import At, Equals, RankExercise, World
from ..kit.differences import first_difference
from ..kit.models import SAMPLES, equal_models, loss_of, share_of
from ..kit.refused import Refused
from .line_of_jobs import NOT_YET, Line, Uses
from .trained_alone import OneProcess, Stack, make_optimizer, weights_alone
from .watched_training import name_of

# Of each step: the layers that take part, in their order, and how many backwards it has.
STEPS = [((0, 1, 2), 1), ((1, 0, 1), 1), ((0, 1, 2), 2), ((0, 1, 2), 1), ((0, 1, 2), 1)]
NOT_THERE = ("size mismatch", "must be 2-D", "must match the size", "setStorage", "not allocated")


@dataclass(frozen=True)
class Plan(At):
    """Where a model is trained, and how.

    depth   units gathered ahead
    steps   how many of STEPS
    around  layers that are recomputed
    thread  whether the answer keeps its own thread; else a `Line` takes its place
    """

    depth: int = 1
    steps: int = len(STEPS)
    around: tuple[int, ...] = ()
    thread: bool = False


class Training:
    """The steps of a rank beside those of one process; raises `Refused` at a difference."""

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
        with self.told(f"the forward of step {number}"):
            share = share_of(self.place, self.n)
            loss = loss_of(self.mine, seed, share, self.n / SAMPLES)
        with self.told(f"the backward of step {number}"):
            loss.backward()

    @contextlib.contextmanager
    def told(self, phase):
        try:
            with self.line:
                yield
        except RuntimeError as error:
            if not any(words in str(error) for words in NOT_THERE):
                raise
            what = str(error).splitlines()[0]
            why = f"a unit is used before it is there. {NOT_YET[0].upper()}{NOT_YET[1:]}"
            raise Refused(f"in {phase}, torch says: {what}", why) from None

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
                    raise Refused(f"after step {number}, {name} {what}", OTHER)

    def need_few_bytes(self):
        flats = sum(unit.flat.nbytes for unit in self.names)
        most = 3 * (self.n - 1) / self.n * flats
        if self.line.sent > most * 1.001:
            raise Refused(
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


def weights_of(trial, place):
    """What is trained, after each step."""
    trained = [name for name, p in Stack().named_parameters() if p.requires_grad]
    steps = weights_alone(Stack, tuple(STEPS[: trial.case.steps]), first=1)
    return {step: {name: of[name].flatten() for name in trained} for step, of in steps.items()}


def told(trial) -> str:
    plan = trial.case
    if plan.thread:
        return "as one process"
    return f"as one process; {plan.depth} ahead, and reductions travel behind the computing"


EXERCISE = RankExercise(
    "6.17",
    "Prefetching",
    lab="prefetch",
    needs=("3.2", "6.10", "6.11", "6.3", "6.7", "6.12"),
    warm=True,
    cases=[
        Plan(World(2), what=", one unit ahead"),
        Plan(World(3), what=", two units ahead", depth=2),
        Plan(World(2), what=", recomputed layers", around=(1, 2)),
        Plan(World(2), what=", in a thread", thread=True),
        Plan(World(1), what=", one unit ahead", steps=2),
        Plan(World(3, (1, 2)), what=", one unit ahead, in a thread", steps=3, thread=True),
    ],
    work=train,
    facts=[Equals("weights", weights_of, called="the weights after", otherwise=OTHER)],
    told=told,
    errors={
        "'NoneType' object is not callable": "what stands in self.coming is no function: "
        "self.begin(job) returns one that waits. With brackets behind it, it has waited already, "
        "and what is left is None",
        "KeyError": "self.coming has every unit that is there, or on its way: note it there when "
        "its gather is put into the line",
        "missing 1 required positional argument": "a job is called without arguments: "
        "partial(gather, unit) has its argument with it",
    },
    lost="all ranks have to put the same jobs into the line, in the same order",
    hints=(
        "need: for this unit, and then for each of self.ahead(): is it in self.coming? If not, put "
        "its gather into the line, and note in self.coming what waits for it.",
        "At the end of need, one call: it waits for this unit. The others are left to the line.",
        "reduce: self.begin(partial(reduce_gradients, taken)) returns what waits for the "
        "reduction. Keep it in self.reductions. end_backward calls each of them, and empties the "
        "list.",
    ),
)  # fmt: skip
