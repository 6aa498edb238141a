"""A watched training run with stage 3, compared with one process, for the check of Zero3.

Between forward, backward and step, the size of its storage shows whether a unit is whole.
"""

import contextlib
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.utils.checkpoint import set_checkpoint_early_stop

from coursekit.kit import RankCase, Rejection
from coursekit.kit.diagnoses import first_difference
from coursekit.kit.reference_training import SAMPLES, equal_models, loss_of, share_of
from pedagogy_lib.basics.closeness import close

from .one_process_reference import OneProcess, Stack, ending_in_layer, make_optimizer
from .prefetch_reference import Line, make_prefetching_class

# (the layers that take part, in order; the number of backwards) of each step. In the second step,
# one layer runs twice and one has no part.
STEPS = [((0, 1, 2), 1), ((1, 0, 1), 1), ((0, 1, 2), 2), ((0, 1, 2), 1)]

REST = "what is in no layer"


@dataclass(frozen=True)
class Plan(RankCase):
    """The place and the way in which a model is trained.

    steps          number of STEPS that are taken
    around         layers that are recomputed
    stops_early    whether a recomputation ends as soon as it has what the backward needs
    prefetch       "", "in a thread", or "in line", where a Line replaces the thread
    ends_in_layer  whether the model ends with a layer, so that no output of its own follows
    """

    steps: int = len(STEPS)
    around: tuple[int, ...] = ()
    stops_early: bool = True
    prefetch: str = ""
    ends_in_layer: bool = False

    @property
    def make(self):
        return ending_in_layer if self.ends_in_layer else Stack


class Training:
    """The steps of a rank, compared with those of one process; a difference raises `Rejection`.

    weights  whole weights after each step
    """

    def __init__(self, answer, group, plan):
        self.plan, self.whole = plan, answer.lab.whole
        self.place, self.n = dist.get_rank(group), dist.get_world_size(group)
        self.mine, alone = equal_models(2, plan.make)
        self.alone, self.weights = OneProcess(alone), {}
        self.mine.around, layers = plan.around, list(self.mine.layers)
        if plan.prefetch:
            answer = make_prefetching_class(getattr(answer.lab, answer.__name__), answer.lab)
        self.zero = answer(self.mine, make_optimizer, layers, group)
        self.line = Line(self.zero) if plan.prefetch == "in line" else contextlib.nullcontext()
        self.names = {unit: name_of(module, layers) for module, unit in self.zero.units.items()}
        self.phase, self.started = "", set()
        for layer in layers:
            unit = self.zero.units[layer]
            layer.register_forward_pre_hook(lambda *_, unit=unit: self.started.add(unit))
            layer.register_forward_hook(self.check_layer_end)

    def run(self):
        with set_checkpoint_early_stop(self.plan.stops_early):
            for number, (order, backwards) in enumerate(STEPS[: self.plan.steps]):
                self.mine.order = self.alone.model.order = order
                for backward in range(backwards):
                    self.learn(number, 10 * number + backward)
                self.step(number)
        with torch.no_grad(), self.watch_phase("an evaluation"):
            self.loss(0)

    def learn(self, number, seed):
        """Run a forward and a backward of both models."""
        self.alone.learn(seed)
        with self.watch_phase(f"the forward of step {number + 1}"):
            loss = self.loss(seed)
        with self.watch_phase(f"the backward of step {number + 1}"):
            loss.backward()
        left = [name for name, p in self.mine.named_parameters() if p.grad is not None]
        if left and not self.plan.prefetch:
            raise Rejection(
                f"after {self.phase}, {left[0]} has a gradient still",
                "a unit's gradients are to be reduced, and freed, as in stage 2: reduce() takes "
                "the place of stage 2's",
            )

    def loss(self, seed):
        """Return the contribution of this rank's samples to the loss, times the number of ranks."""
        return loss_of(self.mine, seed, share_of(self.place, self.n), self.n / SAMPLES)

    def step(self, number):
        self.alone.step()
        self.zero.step()
        self.phase = f"step {number + 1}"
        if isinstance(self.line, Line):
            most = 3 * (self.n - 1) / self.n * sum(unit.flat.nbytes for unit in self.names)
            self.line.need_good_use(most if number == len(STEPS) - 1 else None)
        self.need_disposed("after", self.names)
        with self.whole(self.zero):
            found = {name: p.detach().clone() for name, p in self.mine.named_parameters()}
        self.weights[self.phase] = found
        for name, wanted in self.alone.weights().items():
            if not close(found[name], wanted):
                what = first_difference(found[name], wanted)
                raise Rejection(f"after {self.phase}, {name} {what}", LATER if number else FIRST)

    @contextlib.contextmanager
    def watch_phase(self, phase):
        """Raise `Rejection` if a forward or a backward lacks a unit, or leaves one whole.

        With prefetch, a unit may be on its way at any time, so whole units do not count.
        """
        self.phase, self.started = phase, set()
        try:
            with self.line:
                yield
        except RuntimeError as error:
            if not any(words in str(error) for words in NOT_THERE):
                raise
            what = str(error).splitlines()[0]
            raise Rejection(
                f"in {phase}, torch says: {what}", why_absent(self.plan, phase)
            ) from None
        if not self.plan.prefetch:
            self.need_disposed("after", self.names)

    def check_layer_end(self, layer, *_):
        """Raise `Rejection` if, after a layer's forward, the unit of any layer is whole."""
        if not self.plan.prefetch and "backward" not in self.phase:
            others = [unit for unit, name in self.names.items() if name != REST]
            early = [unit for unit in others if unit not in self.started]
            self.need_disposed(
                "before their turn, in",
                early,
                "units are gathered before it is their turn: all of them together are the whole "
                "model, which is what stage 3 avoids. before_forward is called for each unit, just "
                "before its module",
            )
            self.need_disposed("after a layer's own, in", self.started)

    def need_disposed(self, when, units, why=""):
        names = [self.names[u] for u in units if u.flat.untyped_storage().nbytes()]
        if names:
            why = why or next(why for words, why in WHOLE.items() if words in self.phase)
            raise Rejection(f"{when} {self.phase}, these are whole: {', '.join(names)}", why)


def name_of(module, layers) -> str:
    return f"layer {layers.index(module)}" if module in layers else REST


# Parts of torch's error messages about a parameter without elements or memory.
NOT_THERE = (
    "size mismatch", "must be 2-D", "must match the size", "setStorage", "not allocated yet",
)  # fmt: skip


def why_absent(plan, phase) -> str:
    """Return the diagnosis of parameters that are absent in a phase."""
    if plan.prefetch:
        return (
            "as it is, it is right. Where a thread gathers units ahead, the unit is still on its "
            "way. need() returns when it is there, gather() alone gets in its way"
        )
    if "backward" not in phase:
        return (
            "a module computes with parameters that have no elements: its unit was not gathered "
            "before its forward. need() gathers it, unless self.there says that it is there: "
            "drop() takes it out of that, dispose() alone does not"
        )
    if plan.around:
        return (
            "the unit is taken away in the middle of its backward. A forward that is recomputed "
            "there ends with after_forward as well, and its backward still has to come: a unit "
            "whose backward has begun, and whose gradients are not reduced, stays. self.held is "
            "for that"
        )
    return (
        "what autograd has saved are views into flat, and flat's memory is not there: a disposed "
        "unit's storage has 0 bytes. Its parameters are needed once more, for the backward: "
        "before_backward is called in time to gather them"
    )


FIRST = "the shards follow other gradients than the mean over the ranks"

LATER = (
    "the first step is right, this one is not: does something stay for the next step? What "
    "several backwards give adds up, and a unit that had no part in a loss is reduced as well"
)

WHOLE = {  # {words of the phase after which units are whole: diagnosis}
    "forward of step 1": "the numbers may be right, but all units end up whole at the same time: "
    "nothing is saved, and only 2/3 of the bytes are sent. after_forward lets go of the unit, with "
    "drop(), which knows what need() has fetched; what gather() alone has fetched it does not know",
    "forward": "in the first step it is disposed of, and later not: it is still in self.held, from "
    "the backward before. When its gradients are reduced, it has to leave that, too",
    "evaluation": "in a training it is disposed of, and under no_grad not: there the output "
    "requires no gradient, and no backward comes. What after_forward lets go of does not depend on "
    "that",
    "backward": "when its gradients are reduced, nobody needs the unit's parameters any more: "
    "reduce() has to let go of it, with drop()",
    "step": "nothing is to be whole after a step: what was gathered is out of date. drop() "
    "disposes of what need() has fetched; what gather() alone has fetched it does not know",
}
