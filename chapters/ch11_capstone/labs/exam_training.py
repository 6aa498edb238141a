"""A small training run on four ranks that does what large ones do, for part 11b to break.

There are two copies of a model (axis "dp"), each cut over two ranks (axis "tp"): ranks 0 and 1 have
copy 0. Momentum is sharded over the copies (ZeRO 1). A step has four micro-batches. Training is
stopped once, and resumes from its checkpoint. In the last step, which the timeline shows, computing
and the link between the copies are emulated: they take as long as `SECONDS` and `LINK` say.

torchrun --nproc-per-node 4 labs/exam_training.py
"""

import codecs
import contextlib
import io
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from when_it_hangs import all_recorded, error_of

TP, DP = 2, 2
STEPS, RESTART = 21, 15  # number of steps; training is stopped before step 15
MICROBATCHES, SAMPLES = 4, 16  # micro-batches of a copy in each step; samples of a micro-batch
CONTEXT, LETTER, WIDTH, HIDDEN, BLOCKS = 8, 16, 64, 128, 2
GROUP = 16  # hidden numbers that are normalised together
EPOCH = 6  # steps
RATE, WARM_UP = 0.12, 10  # learning rate; the steps until it is reached
MOMENTUM, SHARE = 0.8, 0.1  # dropout sets this share of the numbers to 0
SECONDS, LINK = 0.012, 4e6  # of a block's forward; bytes per second between the copies
PATIENCE = 3.0  # seconds after which a call that waits raises an error
LABELS = ["test", "data", "forward", "backward", "tp sum", "dp sum", "dp gather", "log"]
STEPS_ON_SHEET = {2: "early step", STEPS - 2: "late step"}  # whose memory a sheet shows
LAST_CALLS = 16  # of each rank that the flight recorder shows


# ---- The samples -------------------------------------------------------------------------------


def samples() -> tuple[Tensor, Tensor, int]:
    """Return contexts of 8 letters, the letter that follows each, and the number of letter kinds.

    The text is the Zen of Python, which every Python has.
    """
    with contextlib.redirect_stdout(io.StringIO()):  # the module prints itself
        import this
    text = codecs.decode(this.s, "rot13")
    kinds = sorted(set(text))
    letters = torch.tensor([kinds.index(letter) for letter in text])
    windows = letters.unfold(0, CONTEXT + 1, 1)
    return windows[:, :-1], windows[:, -1], len(kinds)


# ---- The model: of each block, this rank has half of the hidden numbers -------------------------


class SumBackward(torch.autograd.Function):
    """The identity; its gradient is summed over the tensor ranks. A block's backward ends here."""

    @staticmethod
    def forward(ctx, x, training):
        ctx.training = training
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.training.compute(2)
        return ctx.training.sum_backward(gradient), None


class SumForward(torch.autograd.Function):
    """The sum over the tensor ranks, each of which has its gradient already."""

    @staticmethod
    def forward(ctx, x, training):
        return training.sum_forward(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def normalize_groups(x, weight) -> Tensor:
    """Normalise x in groups of GROUP numbers, as QK-norm does the heads; all share the weight."""
    groups = x.unflatten(-1, (-1, GROUP))  # (samples, groups, GROUP)
    return F.rms_norm(groups, (GROUP,), weight).flatten(-2)


class Block(nn.Module):
    def __init__(self, training, number, inner):
        super().__init__()
        self.inner = inner  # (GROUP)
        self.training_of, self.number = [training], number  # a list: it is no part of the module
        self.norm = nn.LayerNorm(WIDTH)
        self.column = nn.Parameter(training.half(torch.randn(HIDDEN, WIDTH) / WIDTH**0.5, 0))
        self.row = nn.Parameter(training.half(torch.randn(WIDTH, HIDDEN) / HIDDEN**0.5, 1))

    def forward(self, x):  # (samples, width)
        (training,) = self.training_of
        y = SumBackward.apply(self.norm(x), training)
        training.compute(1)
        hidden = normalize_groups(y @ self.column.T, self.inner)  # (samples, hidden / tp)
        y = F.gelu(hidden) @ self.row.T  # (samples, width): the part of this half
        y = SumForward.apply(y, training)
        return x + (training.drop(y, self.number) if self.training else y)


class Model(nn.Module):
    """A predictor of the next letter. Only the blocks are cut; tensor ranks share all else."""

    def __init__(self, training):
        super().__init__()
        torch.manual_seed(0)
        letters = training.kinds
        self.inner = nn.Parameter(torch.ones(GROUP))  # of the norm inside all blocks
        self.letters = nn.Embedding(letters, LETTER)
        self.enter = nn.Linear(CONTEXT * LETTER, WIDTH)
        self.blocks = nn.Sequential(*[Block(training, i, self.inner) for i in range(BLOCKS)])
        self.leave = nn.Linear(WIDTH, letters)

    def forward(self, contexts):  # (samples, context)
        return self.leave(self.blocks(self.enter(self.letters(contexts).flatten(1))))


def flatten_parameters(model) -> Tensor:
    """Move all parameters into one tensor, with each as a view of it. DP divides its length.

    The model's own parameter, `inner`, comes first.
    """
    sizes = [p.numel() for p in model.parameters()]
    flat = torch.zeros(-(-sum(sizes) // DP) * DP)
    for p, part in zip(model.parameters(), flat.split([*sizes, len(flat) - sum(sizes)])):
        p.data = part.copy_(p.detach().flatten()).view_as(p)
    return flat


# ---- The training ------------------------------------------------------------------------------


def null_watch(label):
    return contextlib.nullcontext()


class Training:
    """One rank of the training; `losses[step]` is the loss of this rank's own copy.

    watch  takes a label and returns a context manager, as `measure` does
    """

    def __init__(self, watch=null_watch):
        if dist.get_world_size() != DP * TP:
            raise ValueError(f"this training takes {DP * TP} ranks, not {dist.get_world_size()}")
        self.rank, self.step = dist.get_rank(), 0
        self.copy, self.part = divmod(self.rank, TP)  # which copy of the model; which part of it
        self.watch_all, self.losses, self.held_out = watch, [], []
        self.contexts, self.next, self.kinds = samples()
        self.groups = {"tp": group_of("tp", [[0, 1], [2, 3]], self.rank),
                       "dp": group_of("dp", [[0, 2], [1, 3]], self.rank),
                       "all": group_of("all", [[0, 1, 2, 3]], self.rank)}  # fmt: skip
        self.begin()

    def begin(self):
        self.model = Model(self)
        self.flat = flatten_parameters(self.model)
        self.optimizer = self.make_optimizer()

    def half(self, whole, dim) -> Tensor:
        """Return this rank's half of a weight."""
        return whole.chunk(TP, dim)[self.part].clone()

    def watch(self, label):
        """Return the context of a label; those of the last step are measured, as the timeline."""
        return self.watch_all(label) if self.is_drawn() else null_watch(label)

    def is_drawn(self) -> bool:
        return self.step == STEPS - 1

    def compute(self, forwards):
        """Take as long as so many forwards of a block would."""
        time.sleep(forwards * SECONDS * self.is_drawn())

    # ---- Communication ----

    def all_reduce(self, x, axis):
        dist.all_reduce(x, group=self.groups[axis])
        if axis == "dp":
            self.send(x.nbytes)

    def send(self, nbytes):
        """Take as long as the link between the copies needs for so many bytes."""
        time.sleep(nbytes / LINK * self.is_drawn())

    def sum_forward(self, x) -> Tensor:
        total = x.clone()
        with self.watch("tp sum"):
            self.all_reduce(total, "tp")
        return total

    def sum_backward(self, gradient) -> Tensor:
        return self.sum_forward(gradient)

    def exchange(self) -> Tensor:
        """Average the gradient of this rank's part of the model over the copies."""
        flat = torch.cat([p.grad.flatten() for p in self.model.parameters()])
        flat = F.pad(flat, (0, len(self.flat) - len(flat)))
        with self.watch("dp sum"):
            self.all_reduce(flat, "dp")
        return self.average_gradients(flat)

    def average_gradients(self, flat) -> Tensor:
        return flat / DP

    def complete(self, gradient) -> Tensor:
        """Sum the gradient of `inner` over the tensor ranks: each has used it in its half alone."""
        with self.watch("tp sum"):
            self.all_reduce(gradient[:GROUP], "tp")  # a view: it changes the gradient
        return gradient

    def gather(self):
        """Give the other copy the weights that this one has updated."""
        mine = self.shard().clone()
        with self.watch("dp gather"):
            dist.all_gather(list(self.flat.chunk(DP)), mine, group=self.groups["dp"])
            self.send(mine.nbytes)

    def shard(self) -> Tensor:
        """Return the half of the weights that this copy updates: see ZeRO stage 1."""
        return self.flat.chunk(DP)[self.copy]

    # ---- A step ----

    def run(self):
        for self.step in range(STEPS):
            if self.step == RESTART:
                self.restart()
            for label in LABELS:  # so that all timelines have all, in the same colours
                with self.watch(label):
                    pass
            label = STEPS_ON_SHEET.get(self.step)
            with self.watch_all(label) if label else null_watch(label):
                self.one_step()

    def one_step(self):
        self.losses.append(0.0)
        self.try_held_out()
        self.clear()
        self.update(self.complete(self.compute_gradient()))
        self.log()

    def clear(self):
        self.model.zero_grad()

    def compute_gradient(self) -> Tensor:
        for part in self.parts():
            self.backward(self.forward(part))
        return self.exchange()

    def forward(self, part) -> Tensor:
        self.first = int(part[0])  # the seed of dropout depends on it
        with self.watch("forward"):
            loss = F.cross_entropy(self.model(self.contexts[part]), self.next[part])
        self.losses[-1] += loss.item() / MICROBATCHES
        return loss

    def backward(self, loss):
        with self.watch("backward"):
            (loss / MICROBATCHES).backward()

    def update(self, gradient):
        self.take_step(gradient.chunk(DP)[self.copy])
        self.gather()

    def take_step(self, gradient):
        (group,) = self.optimizer.param_groups
        (mine,) = group["params"]
        group["lr"] = RATE * min(1, (self.step + 1) / WARM_UP)
        mine.grad = gradient
        self.optimizer.step()
        mine.grad = None

    def make_optimizer(self):
        mine = nn.Parameter(self.shard())
        return torch.optim.SGD([mine], lr=RATE, momentum=MOMENTUM)

    @torch.no_grad()
    def try_held_out(self):
        with self.watch("test"):
            self.held_out.append(self.validation_loss().item())

    def validation_loss(self) -> Tensor:
        self.model.eval()
        contexts, following = self.contexts[-SAMPLES:], self.next[-SAMPLES:]
        return F.cross_entropy(self.model(contexts), following)

    def log(self):
        """Sum the losses of all ranks, as if rank 0 printed their mean."""
        with self.watch("log"):
            self.all_reduce(torch.tensor(self.losses[-1]), "all")

    # ---- Samples, dropout, checkpoints ----

    def parts(self):
        """Return the indices of the samples of each of this copy's micro-batches."""
        self.model.train()
        with self.watch("data"):
            batch = self.order()[self.place()]
            return batch[self.share()].chunk(MICROBATCHES)

    def order(self) -> list[Tensor]:
        """Return the batches of this epoch, each of which has samples for all copies."""
        chance = torch.Generator().manual_seed(self.seed_of_order())
        batch = DP * MICROBATCHES * SAMPLES
        return torch.randperm(EPOCH * batch, generator=chance).split(batch)

    def seed_of_order(self) -> int:
        return self.step // EPOCH

    def place(self) -> int:
        """Return how many steps of this epoch came before this one."""
        return self.step % EPOCH

    def share(self) -> slice:
        return slice(self.copy, None, DP)

    def drop(self, x, layer) -> Tensor:
        """Apply dropout. All tensor ranks have the same x, so they need the same mask."""
        chance = torch.Generator().manual_seed(self.seed_of_mask(layer))
        return x * (torch.rand(x.shape, generator=chance) >= SHARE) / (1 - SHARE)

    def seed_of_mask(self, layer) -> int:
        return (self.step * 1000 + self.first) * BLOCKS + layer

    def restart(self):
        """Save everything, begin anew, and load it."""
        file = io.BytesIO()
        torch.save({"weights": self.flat, "optimizer": self.optimizer.state_dict()}, file)
        file.seek(0)
        self.begin()
        self.load(torch.load(file))

    def load(self, saved):
        self.flat.copy_(saved["weights"])
        self.optimizer.load_state_dict(saved["optimizer"])


def group_of(axis, all_ranks, rank):
    """Make this rank's group along an axis. A call in it that waits too long raises an error."""
    wait = timedelta(seconds=PATIENCE)
    groups = [dist.new_group(ranks, timeout=wait, group_desc=axis) for ranks in all_ranks]
    return next(group for ranks, group in zip(all_ranks, groups) if rank in ranks)


# ---- The record of a run -----------------------------------------------------------------------


def record(kind=Training) -> dict:
    """Train on this rank; return its losses, its held-out losses, and its last recorded calls.

    kind  `Training`, or a class that derives from it
    The run of the launch has the rest as measured blocks: the memory in "training", an "early step"
    and a "late step", the bytes in the latter, and the timeline of the last step.
    """
    from pedagogy_lib import measure

    steps = STEPS_ON_SHEET.values()
    training = kind(lambda label: measure(label, memory=label in steps))
    dist.barrier()
    with measure("training"):
        error = error_of(training.run)
    calls = last_calls(training.groups)
    dist.barrier()  # of the world: in this group, no rank is out of step
    done = len(training.losses) - bool(error)
    return {"losses": training.losses[:done], "held out": training.held_out, "calls": calls}


def last_calls(groups) -> list[tuple[str, str, int]]:
    """Return (axis, operation, numbers) of this rank's last calls, the oldest first."""
    axis_of = {group.group_name: axis for axis, group in groups.items()}
    entries = [e for e in all_recorded() if e["process_group"][0] in axis_of]
    return [
        (axis_of[e["process_group"][0]], e["profiling_name"].partition(":")[2],
         torch.Size(next(iter(e["input_sizes"]), [])).numel())
        for e in entries[-LAST_CALLS:]
    ]  # fmt: skip


def main():
    from pedagogy_lib import launch

    run = launch(record, world_size=DP * TP, device="cpu")
    if run.rank == 0:
        losses = run.values[0]["losses"]
        print(f"{len(losses)} steps: loss {losses[0]:.3f} to {losses[-1]:.3f}")


if __name__ == "__main__":
    main()
