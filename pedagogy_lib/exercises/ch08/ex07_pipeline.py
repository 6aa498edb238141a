"""A pipeline that does what a schedule says: exercise 8.7. Its numbers are float64.

Its stages are actors: they know what each micro-batch has to look like when it comes to them, and
give what it should be afterwards. Messages are looked at before they go: so a wrong one is told,
and nobody waits for ever. What is demanded of their order is seen, not timed.
"""

import contextlib
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ...basics.closeness import close
from ...course.checking import Exercise
from ..kit import one_world
from ..kit.message_watch import NO_SUCH_RANK, Watch, to_itself
from ..kit.refused import Refused
from ..kit.trials import kind_of
from .ex06_stage import draw

LETTERS, CONTEXT, WIDTH = 5, 2, 3


class Action(NamedTuple):
    kind: str
    microbatch: int
    chunk: int = 0

    def __str__(self):
        return f"{self.kind}{self.microbatch}" + (f".{self.chunk}" if self.chunk else "")


def actions_of(row) -> list[Action]:
    """`F0 B0.1` as actions: a forward of micro-batch 0, a backward on chunk 1."""
    return [Action(name[0], *map(int, name[1:].split("."))) for name in row.split()]


ONE_F_ONE_B = {  # ranks: the row of each
    1: ["F0 B0 F1 B1 F2 B2 F3 B3"],
    2: ["F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"],
    3: ["F0 F1 F2 B0 F3 B1 B2 B3", "F0 F1 B0 F2 B1 F3 B2 B3", "F0 B0 F1 B1 F2 B2 F3 B3"],
}


@dataclass(frozen=True)
class Case(one_world.Case):
    """What a pipeline is tried on.

    row     what all ranks do; 1F1B if there is none
    sizes   samples of each micro-batch
    """

    row: str = ""
    sizes: tuple[int, ...] = (2, 1, 3, 2)
    chunks: int = 1

    def actions(self, place, ranks) -> list[Action]:
        return actions_of(self.row or ONE_F_ONE_B[ranks][place])


CHUNKS = "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"
CASES = [
    Case("one micro-batch after another", row="F0 B0 F1 B1", sizes=(2, 2)),
    Case("GPipe, unequal micro-batches", row="F0 F1 F2 B0 B1 B2", sizes=(2, 1, 3)),
    Case("1F1B"),
    Case("backwards in halves", row="F0 F1 I0 I1 W0 W1", sizes=(1, 2)),
    Case("two chunks on each", row=CHUNKS, sizes=(2, 1), chunks=2),
    Case("1F1B", in_groups=True),
    Case("two chunks on each", in_groups=True, row=CHUNKS, sizes=(2, 1), chunks=2),
]
CHUNKS_TOO = (
    "a rank may have several chunks. Which stage an action is for, self.is_first(chunk) and "
    "self.is_last(chunk) tell, not the rank alone"
)
LETTERS_FIRST = (
    "self.inputs[i] are letters, for the model's first stage. All others get what the stage before "
    "has made: self.receive(action)"
)
RECEIVED = "what comes in is self.inputs[i] on the model's first stage, else self.receive(action)"
NO_MESSAGE = "nothing has been received: what is in torch.empty is whatever memory held before"
NO_LOSS = (
    "the loss follows the model's last stage: its `then` is partial(self.part_of_loss, i), the "
    "other stages have none"
)
NOT_WEIGHED = (
    "this is the micro-batch's own mean. The batch's loss is that over all samples, so each part "
    "has a share: self.part_of_loss(i, scores)"
)
TARGETS = "these are the targets of another micro-batch. Which i has `then` when it is called?"
NO_APPEND = "step() adds up what is in self.losses: append what the last stage's forward returns"
LOSS_ITSELF = "append what forward returns, a tensor: step() takes the number out of it"
LAST_ALONE = "a loss comes from the model's last stage alone: what other stages return is sent"
SRC = (
    "`src` is a rank of the whole world, even with a group; a rank of the group, such as "
    "self.rank, is `group_src=peer`"
)
OWN_LEFT = (
    "what a rank sends to itself lies in self.own, and receive takes it out: "
    "self.own.pop(tag_of(action)). What stays there is memory for nothing"
)
ERRORS = {
    "'float' object has no attribute 'item'": LOSS_ITSELF,
    "has no attribute 'tag'": "the tag is tag_of(action)",
    "'tuple' object has no attribute": "an action is a named tuple: _, i, chunk = action",
    "unexpected keyword argument 'src'": "a rank of the group is group_src",
    "'NoneType' object is not": "on the last stage `then` is partial(self.part_of_loss, i)",
    "Invalid rank": NO_SUCH_RANK,
    "out of range": NO_SUCH_RANK,
    "roup rank": NO_SUCH_RANK,
    "EnforceNotMet": "a message is (samples, context, width), for the samples of its micro-batch",
}


class Model:
    """All that there is to know of a batch: what goes into each stage, and comes back.

    stages  how many the model has; a rank has every `ranks`-th of them
    """

    def __init__(self, case, ranks):
        self.sizes, self.stages = case.sizes, ranks * case.chunks
        shapes = [(size, CONTEXT) for size in case.sizes]
        letters = [(draw(i, *shape, 2) * 100).long() % LETTERS for i, shape in enumerate(shapes)]
        self.inputs = [both[..., 0] for both in letters]
        self.targets = [both[..., 1] for both in letters]

    def travels(self, kind, i, stage) -> torch.Tensor:
        """What goes from the stage before into this one, or back from it to the stage before."""
        seed = 1000 + 100 * stage + 10 * i + (kind == "F")
        return draw(seed, self.sizes[i], CONTEXT, WIDTH)

    def into(self, i, stage):
        return self.travels("F", i, stage) if stage else self.inputs[i]

    def scores(self, i):
        return draw(i, self.sizes[i], CONTEXT, LETTERS)

    def part(self, i):
        return loss_of(self.scores(i), self.targets[i]) * self.sizes[i] / sum(self.sizes)

    def loss(self) -> float:
        return float(loss_of(torch.cat([self.scores(i) for i in range(len(self.sizes))]),
                             torch.cat(self.targets)))  # fmt: skip


def loss_of(scores, targets):
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class Actor:
    """In place of a Stage: refuses what is wrong, and returns what is right."""

    def __init__(self, model, stage, watch):
        self.model, self.stage, self.watch = model, stage, watch
        self.is_last = stage == model.stages - 1
        self.piece = torch.nn.Linear(WIDTH, WIDTH).double()  # its weights tell the dtype

    def forward(self, i, x, then=None):
        self.watch.computing(i, self.stage)
        self.need(i, x, self.model.into(i, self.stage))
        asked_for_loss = then is not None and getattr(then, "__name__", "") != "no_change"
        if asked_for_loss != self.is_last:
            what = "has no `then`" if self.is_last else "has a `then`, and is not the last"
            raise Refused(f"stage {self.stage} {what}", CHUNKS_TOO if self.chunked() else NO_LOSS)
        if not self.is_last:
            return self.model.travels("F", i, self.stage + 1)
        return self.need_part(i, then(self.model.scores(i)))

    def chunked(self) -> bool:
        return self.watch.chunks > 1

    def need(self, i, x, wanted):
        if isinstance(x, torch.Tensor) and x.shape == wanted.shape and torch.equal(x, wanted):
            return
        got = kind_of(x) if isinstance(x, torch.Tensor) else f"{x!r:.40}"
        off = got != kind_of(wanted)
        what = f"is {got}, expected {kind_of(wanted)}" if off else "has wrong numbers"
        raise Refused(f"{self.watch.action}: what goes into stage {self.stage} {what}",
                      self.why_input(x))  # fmt: skip

    def why_input(self, x) -> str:
        if not isinstance(x, torch.Tensor):
            return "receive returns the tensor" if self.stage else RECEIVED
        if not x.is_floating_point():
            return CHUNKS_TOO if self.chunked() else LETTERS_FIRST
        return "" if self.watch.received else NO_MESSAGE

    def need_part(self, i, part):
        if isinstance(part, torch.Tensor) and close(part, self.model.part(i)):
            return part
        scores, targets = self.model.scores(i), self.model.targets
        alike = [j for j, other in enumerate(targets) if other.shape == targets[i].shape]
        own = loss_of(scores, targets[i])
        why = NOT_WEIGHED if isinstance(part, torch.Tensor) and close(part, own) else TARGETS
        known = why == NOT_WEIGHED or len(alike) > 1
        raise Refused(f"{self.watch.action}: the loss of this micro-batch is wrong",
                      why if known else NO_LOSS)  # fmt: skip

    def backward(self, i, gradient=None):
        self.watch.computing(i, self.stage)
        if not self.is_last:
            self.need(i, gradient, self.model.travels("B", i, self.stage + 1))
        return self.model.travels("B", i, self.stage) if self.stage else None

    input_gradient = backward

    def weight_gradients(self, i):
        self.watch.computing(i, self.stage)


class WatchInGroup(Watch):
    """In a group, what was right in the whole world fails by the numbers of the ranks alone."""

    def judge_recv(self, call, tag):
        is_wrong = self.ranks > 1 and call.peer not in (None, self.peer())
        if self.case.in_groups and is_wrong:
            self.refuse(f"it waits for a message of rank {call.peer} of the world", SRC)
        super().judge_recv(call, tag)


@contextlib.contextmanager
def known_ranks():
    """What it means that torch does not find a rank in the group."""
    try:
        yield
    except ValueError as error:
        if "is not part of group" not in str(error):
            raise
        raise Refused(str(error).partition(" <")[0], SRC) from error


# ---- On a rank ---------------------------------------------------------------------------------


def pipeline_on_rank(answer, group, case):
    """One step; returns its loss, and how many messages it has sent, of how many bytes."""
    place, ranks = dist.get_rank(group), dist.get_world_size(group)
    model = Model(case, ranks)
    bytes_of = {i: 8 * size * CONTEXT * WIDTH for i, size in enumerate(case.sizes)}
    watch = WatchInGroup(case, place, ranks, group, answer.lab.tag_of, bytes_of)
    actors = [Actor(model, chunk * ranks + place, watch) for chunk in range(case.chunks)]
    pipeline = answer(actors, loss_of, WIDTH, group, watch.around)
    with watch, to_itself(ranks), known_ranks():
        loss = pipeline.step(
            watch.followed(case.actions(place, ranks)), model.inputs, model.targets
        )
    if pipeline.own:
        raise Refused(f"after the step self.own has {len(pipeline.own)} tensors", OWN_LEFT)
    need_losses(model, pipeline, loss, place == ranks - 1)
    return {"loss": loss, "sent": [call.sent_bytes for call in watch.made if call.name == "send"]}


def need_losses(model, pipeline, loss, is_last):
    count, wanted = len(pipeline.losses), len(model.sizes) if is_last else 0
    if count != wanted:
        what = f"self.losses has {count} of {wanted} losses after the step"
        raise Refused(what, NO_APPEND if is_last else LAST_ALONE)
    if is_last and not close(loss, model.loss()):
        what = f"the loss of the batch is {loss:.8g}, expected {model.loss():.8g}"
        raise Refused(what, NO_APPEND)


def examine_pipeline(answer):
    run = one_world.try_cases(pipeline_on_rank, answer, CASES, ERRORS)
    for case, found in one_world.found_in(run, CASES):
        sent = [size for of in found for size in of["sent"]]
        last = max(of["loss"] for of in found)
        yield f"{case}: {len(sent)} messages, {sum(sent)} bytes; loss {last:.4f} on the last rank"


EXERCISE = Exercise(
    "8.7", "Pipeline", examine_pipeline,
    (
        "forward in words: get x, from the list or from another rank; compute; pass it on, or "
        "note the loss. is_first and is_last tell which of these; both ask for the chunk.",
        "receive: an empty tensor (samples, context, width) for this micro-batch, of "
        "self.dtype, and a peer: for an F the rank before, else the one after, both % "
        "self.ranks. If that is this rank, self.own has it.",
        "dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action)). send() "
        "shows the other side.",
        "On the last stage: self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)), "
        "which goes to self.losses. Only computing is inside of `with self.around(action):`.",
    ),
    lab="pipeline_parallel",
)  # fmt: skip
