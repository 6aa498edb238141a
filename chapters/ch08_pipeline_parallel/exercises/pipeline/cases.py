"""The cases, and the code that runs next to the answer."""

import torch
import torch.distributed as dist
import torch.nn.functional as F

from coursekit.kit import RankCase, World
from coursekit.kit.diagnoses import kind_of
from coursekit.kit.tables import tabulate
from pedagogy_lib.basics.closeness import close

from ..part_of_loss.cases import EQUAL_SHARES
from ..shared.actions import actions_of, make_memory_schedule
from ..stage.cases import draw
from .pipeline_watch import Lines, Watch

LETTERS, CONTEXT, WIDTH = 5, 2, 3

CHUNKS = "F0 F1 F0.1 F1.1 B0.1 B1.1 B0 B1"

NO_LOSS = (
    "the loss follows the model's last stage: its `then` is partial(self.part_of_loss, i), the "
    "other stages have none"
)

CHUNKS_TOO = (
    "a rank may have several chunks. Which stage an action is for, self.is_first(chunk) and "
    "self.is_last(chunk) tell, not the rank alone"
)


def case_of(world, what, row, sizes=(2, 1, 3, 2), chunks=1):
    return RankCase(world, (row, sizes, chunks), f", {what}")


@tabulate(lambda: [(place, ranks, 4) for ranks in (2, 3) for place in range(ranks)], beside=True)
def one_f_one_b(place, ranks, m) -> list:
    return list(make_memory_schedule(lambda rank, ranks, m: ranks - rank)(place, ranks, m))


def actions_in(case, place, ranks):
    """Return a rank's actions: those of the case's row, or 1F1B if it has none."""
    row, sizes, _ = case.args
    return actions_of(row) if row else one_f_one_b(place, ranks, len(sizes))


class Model:
    """The tensors of a batch: the inputs and gradients of every stage, targets and logits.

    stages  the number of stages of the model; a rank has every `ranks`-th of them
    """

    def __init__(self, case, ranks):
        _, self.sizes, self.chunks = case.args
        self.stages = ranks * self.chunks
        shapes = [(size, CONTEXT) for size in self.sizes]
        tokens = [(draw(i, *shape, 2) * 100).long() % LETTERS for i, shape in enumerate(shapes)]
        self.inputs = [both[..., 0] for both in tokens]
        self.targets = [both[..., 1] for both in tokens]
        self.logits = [draw(i, *shape, LETTERS) for i, shape in enumerate(shapes)]

    def travels(self, kind, i, stage) -> torch.Tensor:
        """Return the tensor sent from the stage before to this one, or back to the stage before."""
        seed = 1000 + 100 * stage + 10 * i + (kind == "F")
        return draw(seed, self.sizes[i], CONTEXT, WIDTH)

    def comes(self, kind, i, stage) -> torch.Tensor | None:
        """Return the tensor that an action of a stage needs: an input, a gradient or None."""
        if kind == "F":
            return self.travels("F", i, stage) if stage else self.inputs[i]
        needs_gradient = kind in "BI" and stage < self.stages - 1
        return self.travels("B", i, stage + 1) if needs_gradient else None

    def mean(self, i, others=None):
        """Return a micro-batch's loss, with the targets of micro-batch `others` if given."""
        return loss_of(self.logits[i], self.targets[i if others is None else others])

    def loss(self) -> float:
        return loss_of(torch.cat(self.logits), torch.cat(self.targets)).item()


def part_of(i) -> str:
    return f"the loss of micro-batch {i}"


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Actor:
    """A stand-in for a Stage, which refuses wrong inputs and returns right outputs."""

    def __init__(self, model, stage, watch):
        self.model, self.stage, self.watch = model, stage, watch
        self.is_last = stage == model.stages - 1
        self.piece = torch.nn.Linear(WIDTH, WIDTH).double()  # with the pipeline's dtype

    def clear(self):
        pass  # it keeps nothing

    def forward(self, i, x, then=None):
        model = self.model
        self.watch.note_compute(i, self.stage)
        self.need_input(x, model.travels("F", i, self.stage) if self.stage else model.inputs[i])
        has_then = then is not None and getattr(then, "__name__", "") != "no_change"
        what = "has no `then`" if self.is_last else "has a `then`, and is not the last"
        why = CHUNKS_TOO if model.chunks > 1 else NO_LOSS
        self.watch.need((has_then == self.is_last, f"stage {self.stage} {what}", why))
        if not self.is_last:
            return model.travels("F", i, self.stage + 1)
        part = self.watch.came[part_of(i)] = then(model.logits[i])
        self.need_part(i, part, model.mean(i), model.sizes[i] / sum(model.sizes))
        return part

    def need_part(self, i, part, own, share):
        sizes = self.model.sizes
        alike = [
            self.model.mean(i, j) for j, size in enumerate(sizes) if size == sizes[i] and j != i
        ]
        self.watch.need((close(part, share * own), "the loss of this micro-batch is wrong", [
            (close(part, own), "this is the micro-batch's own mean. The batch's loss is that over "
             "all samples, so each part has a share: self.part_of_loss(i, logits)"),
            (any(close(part, share * mean) for mean in alike),
             "these are the targets of another micro-batch. Which i has `then` when it is called?"),
            (close(part, own / len(sizes)), EQUAL_SHARES),
            (True, NO_LOSS),
        ]))  # fmt: skip

    def need_input(self, x, wanted):
        self.watch.came[str(self.watch.action)] = x
        got, expected = kind_of(x), kind_of(wanted)
        what = "has wrong numbers" if got == expected else f"is {got}, expected {expected}"
        is_tensor = isinstance(x, torch.Tensor)
        are_letters = is_tensor and not x.is_floating_point()
        what = f"what goes into stage {self.stage} {what}"
        self.watch.need((is_tensor and close(x, wanted), what, [
            (not is_tensor and self.stage, "receive returns the tensor"),
            (not is_tensor, "what comes in is self.inputs[i] on the model's first stage, else "
             "self.receive(action)"),
            (are_letters and self.model.chunks > 1, CHUNKS_TOO),
            (are_letters, "self.inputs[i] are tokens, for the model's first stage. All others get "
             "what the stage before has made: self.receive(action)"),
            (not self.watch.received, "nothing has been received: what is in torch.empty is "
             "whatever memory held before"),
            (True, ""),
        ]))  # fmt: skip

    def backward(self, i, gradient=None):
        self.watch.note_compute(i, self.stage)
        if not self.is_last:
            self.need_input(gradient, self.model.travels("B", i, self.stage + 1))
        return self.model.travels("B", i, self.stage) if self.stage else None

    input_gradient = backward

    def weight_gradients(self, i):
        self.watch.note_compute(i, self.stage)


def step_on_rank(answer, group, case):
    """Run one step on a rank, and return what was found."""
    place, ranks = dist.get_rank(group), dist.get_world_size(group)
    model, is_last = Model(case, ranks), place == ranks - 1
    bytes_of = {i: 8 * size * CONTEXT * WIDTH for i, size in enumerate(model.sizes)}
    watch = Watch(case, group, answer.lab.tag_of, bytes_of)
    actors = [Actor(model, chunk * ranks + place, watch) for chunk in range(model.chunks)]
    pipeline = answer(actors, loss_of, WIDTH, group, watch.check_action)
    pipeline.lines = watch.lines = Lines(pipeline.lines)
    actions = watch.follow_actions(actions_in(case, place, ranks))
    with watch:
        loss = pipeline.step(actions, model.inputs, model.targets)
    sent = [call.sent_bytes for call in watch.made if call.name == "send"]
    found = {"own": len(pipeline.own), "losses": len(pipeline.losses), "sent": sent}
    found |= {"loss": loss if is_last else None, "begun": watch.not_waited(), "came": watch.came}
    return found | ({"off_line": watch.off_line} if case == CASES[-1] else {})


CASES = [
    case_of(World(3), "one micro-batch after another", "F0 B0 F1 B1", (2, 2)),
    case_of(World(3), "GPipe, unequal micro-batches", "F0 F1 F2 B0 B1 B2", (2, 1, 3)),
    case_of(World(3), "1F1B", None),
    case_of(World(3), "backwards in halves", "F0 F1 I0 I1 W0 W1", (1, 2)),
    case_of(World(3), "two chunks on each", CHUNKS, (2, 1), chunks=2),
    case_of(World(1), "two chunks on it", CHUNKS, (2, 1), chunks=2),
    case_of(World(3, (1, 2)), "1F1B", None),
    case_of(World(3, (1, 2)), "two chunks on each", CHUNKS, (2, 1), chunks=2),
]
