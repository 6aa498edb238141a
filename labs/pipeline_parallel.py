# Built from chapters/ch08_pipeline_parallel/labs/pipeline_parallel.py by `make build`. Write your answers here.
"""Pipeline parallelism: each rank has some layers, and micro-batches go from rank to rank.

torchrun --nproc-per-node 2 labs/pipeline_parallel.py
"""

import contextlib
from functools import cache, partial
from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, draw_batch, mean_loss, standard_library
from schedules import one_f_one_b
from simple_ddp import now
from torch import Tensor, nn

# ---- The layers of each rank ----------------------------------------------------------------


class Embedding(nn.Module):
    """The first layer of a transformer: the vectors of tokens, plus those of their positions."""

    def __init__(self, letters, places):
        super().__init__()
        self.letters, self.places = letters, places

    def forward(self, letters):  # (samples, context) -> (samples, context, width)
        places = torch.arange(letters.shape[1], device=letters.device)
        return self.letters(letters) + self.places(places)


def layers_of(model) -> list[nn.Module]:
    """Return a transformer as consecutive layers: the embedding, the blocks, the logits."""
    has_table = model.places is not None  # of positions: a Llama has none
    embedding = Embedding(model.letters, model.places) if has_table else model.letters
    return [embedding, *model.blocks, nn.Sequential(model.norm, model.output)]


def even_sizes(layers, stages) -> list[int]:
    """Return how many layers each stage gets: as equal as possible, the larger numbers first.

    Raises  ValueError if there are fewer layers than stages
    """
    if layers < stages:
        raise ValueError(f"{layers} layers are too few for {stages} stages")
    return [len(part) for part in torch.arange(layers).tensor_split(stages)]


def balance(seconds, stages) -> list[int]:
    """Exercise 8.15. Return how many layers each stage gets.

    The slowest stage is as fast as possible. A stage is made of consecutive layers, at least one.

    seconds  the time of each layer, in the model's order
    Cost     stages * layers³ steps
    Raises   ValueError if there are fewer layers than stages
    """
    ...  # your code here


def pieces_of(layers, sizes) -> list[nn.Sequential]:
    """Group layers into stages of these sizes."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [nn.Sequential(*layers[end - size : end]) for size, end in zip(sizes, ends)]


def my_pieces(pieces, group=None) -> list[nn.Module]:
    """Return this rank's pieces, one per chunk: stage s is on rank s modulo the ranks."""
    return list(pieces[dist.get_rank(group) :: dist.get_world_size(group)])


# ---- One stage ------------------------------------------------------------------------------


def no_change(y):
    return y


class Stage:
    """Exercise 8.6. A piece of the model, with the tensors it keeps for each backward.

    kept       {micro-batch: (input, output)}: the output, and with it the graph that leads to it.
               self.keep(i, input, output) stores a pair, and counts
    most_kept  the most micro-batches that were kept at the same time
    """

    def __init__(self, piece):
        self.piece, self.kept, self.most_kept = piece, {}, 0
        self.postponed = {}  # {micro-batch: weight gradients to compute}; see postpone_weights
        self.later = getattr(piece, "later", [])

    def forward(self, i, x, then=no_change) -> Tensor:
        """Return then(piece(x)) of micro-batch i, and keep what the backward needs.

        The graph begins at a leaf of this rank: no other rank's operations are in it. The tensor x
        stays unchanged. Call self.keep once, with the output that still has its graph.

        then     a function that follows the piece: on the last stage the loss
        Shapes   x: as the piece takes it; on the first stage tokens (int64), which have no
                 gradient. Returns then(piece(x)) without a graph, to be sent
        """
        ...  # your code here

    def backward(self, i, gradient=None) -> Tensor:
        """Return the gradient of micro-batch i's input; add the weights' gradients to `.grad`.

        Afterwards self.kept has no entry for micro-batch i.

        gradient  of the output, from the next stage; None on the last stage, whose output is the
                  loss
        Returns   None on the first stage, whose input is tokens
        """
        ...  # your code here

    def clear(self):
        """Forget the micro-batches that a step has left unfinished because it raised."""
        for left in (self.kept, self.postponed, self.later):
            left.clear()

    def keep(self, i, x, y):
        self.kept[i] = x, y
        self.most_kept = max(self.most_kept, len(self.kept.keys() | self.postponed.keys()))

    def input_gradient(self, i, gradient=None) -> Tensor:
        """Run a backward's first half: return the input's gradient, postpone the weights'."""
        gradient = self.backward(i, gradient)
        self.postponed[i] = list(self.later)
        self.later.clear()
        return gradient

    def weight_gradients(self, i):
        """Run a backward's second half: add the weights' gradients to `.grad`."""
        for compute in self.postponed.pop(i):
            compute()


class RecomputingStage(Stage):
    """A stage that keeps inputs and random states, and recomputes the forward in the backward.

    Dropout has to draw the same numbers again, as in exercise 5.10; before the backward,
    other micro-batches have drawn theirs.

    Source  Huang et al. 2018, "GPipe", section 2.3
    """

    def forward(self, i, x, then=no_change):
        state = generator_for(x).get_state()
        with torch.no_grad():
            y = then(self.piece(x))
        self.keep(i, x, (then, state))
        return y

    def backward(self, i, gradient=None):
        x, (then, state) = self.kept.pop(i)
        with self.replay_randomness(x, state):
            super().forward(i, x, then)  # now with a graph
        return super().backward(i, gradient)

    def replay_randomness(self, x, state):
        return replay_random_state(generator_for(x), state)


def generator_for(x) -> torch.Generator:
    """Return the random generator of x's device."""
    if x.is_cuda:
        return torch.cuda.default_generators[x.get_device()]
    return torch.default_generator


@contextlib.contextmanager
def replay_random_state(generator, state):
    """Draw the same numbers again from this state; the generator then goes on where it was."""
    now = generator.get_state()
    generator.set_state(state)
    try:
        yield
    finally:
        generator.set_state(now)


# ---- The backward in two halves -------------------------------------------------------------


class LaterWeights(torch.autograd.Function):
    """Exercise 8.13. The layer x Aᵀ + b; the gradients of A and b are computed later.

    Forward   F.linear(x, weight, bias)
    Backward  the gradient of x at once. To `later` it adds a function without arguments that adds
              the other two to weight.grad and bias.grad, without a graph; there may be no bias.
              weight.grad is that of the parameter itself: save_for_backward is for x alone
    Shapes    x: (samples, ..., inputs); weight: (outputs, inputs); bias: (outputs,) or None
    Source    Qi et al. 2024, "Zero Bubble Pipeline Parallelism"
    """

    @staticmethod
    def forward(ctx, x, weight, bias, later):
        ...  # your code here

    @staticmethod
    def backward(ctx, gradient):
        ...  # your code here


@torch.no_grad()
def add_weight_gradients(x, gradient, weight, bias):
    """Add the gradients of weight and bias, given a linear layer's input and output gradient."""
    gradient = gradient.flatten(0, -2)
    add_gradient(weight, gradient.T @ x.flatten(0, -2))
    if bias is not None:
        add_gradient(bias, gradient.sum(0))


def add_gradient(parameter, gradient):
    if parameter.requires_grad:
        gradient = gradient.to(parameter.dtype)  # inside autocast, products are rounded
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


class LaterLinear(nn.Module):
    """A linear layer with the weight and bias of `linear`, whose gradients are computed later."""

    def __init__(self, linear, later):
        super().__init__()
        self.weight, self.bias, self.later = linear.weight, linear.bias, later

    def forward(self, x):
        return LaterWeights.apply(x, self.weight, self.bias, self.later)


def postpone_weights(piece) -> nn.Module:
    """Replace a piece's linear layers by LaterLinears; piece.later lists the pending gradients.

    Subclasses and layers with hooks stay, as they may compute something else.
    LaterLinears of another stage are replaced, too: a model's last stages get its gradients.
    """
    piece.later = []
    for module in list(piece.modules()):
        for name, child in module.named_children():
            if type(child) in (nn.Linear, LaterLinear) and not has_hooks(child):
                setattr(module, name, LaterLinear(child, piece.later))
    return piece


def has_hooks(module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or module._backward_hooks
                or module._backward_pre_hooks)  # fmt: skip


class SplitStage(Stage):
    """A stage that runs whole backwards, "B", and their halves, "I" and "W", in one schedule."""

    def __init__(self, piece):
        super().__init__(postpone_weights(piece))

    def backward(self, i, gradient=None) -> Tensor:
        gradient = self.input_gradient(i, gradient)
        self.weight_gradients(i)
        return gradient

    def input_gradient(self, i, gradient=None) -> Tensor:
        gradient = self.whole_backward(i, gradient)
        self.postponed[i] = list(self.later)
        self.later.clear()
        return gradient

    def whole_backward(self, i, gradient):
        return super().backward(i, gradient)


def stage_in_halves(piece) -> Stage:
    """Return a stage whose backward can run in two halves, "I" and "W", or as a whole, "B"."""
    return SplitStage(piece)


def refuse_pending(stages):
    """Raise RuntimeError if gradients of weights are still to be computed at the end of a step."""
    modules = (module for stage in stages for module in stage.piece.modules())
    pending = [module for module in modules if isinstance(module, LaterLinear) and module.later]
    if pending or any(getattr(stage, "postponed", ()) for stage in stages):
        raise RuntimeError(
            "gradients of weights were postponed in this step, and nothing has computed them: make "
            "all stages of a model whose weights are postponed anew with stage_in_halves, and give "
            'each "I" of the schedule a "W"'
        )


# ---- The pipeline ---------------------------------------------------------------------------


def no_context(action):
    return contextlib.nullcontext()


class Pipeline:
    """Exercise 8.7. A pipeline that runs a schedule's actions and messages in order.

    stages  this rank's stages, one per chunk
    width   messages have the shape (samples, context, width), forward and backward
    around  around(action) is a context in which each action computes, and nothing else: waiting,
            receiving and sending are outside. It can measure the action, for example
    waits   whether to wait for a send at once, and not at the end of the step
    dtype   the dtype of messages; by default that of the stages' weights. Under torch.autocast,
            what a stage returns may have another one
    Raises  ValueError if ranks differ in the dtype of messages
    Cost    per micro-batch and boundary one message forward and one back, of its activations
    """

    copies = 1  # of the model, among this rank's stages; a micro-batch goes through one of them

    def __init__(
        self, stages, loss_of, width, group=None, around=no_context, waits=False, dtype=None
    ):
        self.stages, self.loss_of, self.width = stages, loss_of, width
        self.around, self.waits = around, waits
        self.group, self.rank = group, dist.get_rank(group)
        self.ranks = dist.get_world_size(group)
        self.dtype = need_one_dtype(dtype or dtype_of(stages), group)
        self.lines = lines_of(group)
        self.under_way, self.own = [], {}

    def step(self, actions, inputs, targets) -> float:
        """Compute the gradients of one batch; return its loss on the last rank, elsewhere 0.

        After a step that raised on several ranks, messages may still be under way: make a new
        pipeline with new groups.

        inputs, targets  lists with a tensor per micro-batch, which all ranks have; the loss is that
                         of the whole batch, however many samples a micro-batch has, and however
                         many of its targets are -100, which F.cross_entropy ignores
        Raises  ValueError if a micro-batch is empty, or the first stage has nothing to train;
                RuntimeError at the end if the actions have left out a forward, or some of the
                backwards, or if gradients of weights were postponed and never computed
        """
        self.inputs, self.targets, self.losses = inputs, targets, []
        self.counts = [count_targets(of_part) for of_part in targets]
        self.refuse_nothing()
        for left in (self.own, *self.stages):
            left.clear()  # of what a step that raised has left behind
        do = {"F": self.forward, "B": self.backward, "I": self.input_half, "W": self.weight_half}
        done = []
        for action in actions:
            do[action.kind](action)
            done.append(action)
        for request, _ in self.under_way:
            request.wait()
        self.under_way.clear()
        self.refuse_incomplete(done)
        refuse_pending(self.stages)
        return sum(loss.item() for loss in self.losses)

    def forward(self, action):
        """Get the input of the action's micro-batch, compute, and send the output on.

        On the model's first stage the input is in self.inputs; otherwise self.receive(action) gets
        it. Only self.stages[chunk].forward is inside `with self.around(action):`. On the model's
        last stage, `then` is partial(self.part_of_loss, i), the result of forward is appended to
        self.losses, and nothing is sent. Otherwise self.send sends the result.
        """
        _, i, chunk = action
        ...  # your code here

    def backward(self, action):
        self.back(action, self.stages[action.chunk].backward)

    def input_half(self, action):
        self.back(action, self.stages[action.chunk].input_gradient)

    def back(self, action, compute):
        gradient = None if self.is_last(action.chunk) else self.receive(action)
        with self.around(action):
            gradient = compute(action.microbatch, gradient)
        if not self.is_first(action.chunk):
            self.send(gradient, action)

    def weight_half(self, action):
        with self.around(action):
            self.stages[action.chunk].weight_gradients(action.microbatch)

    def refuse_nothing(self):
        """Raise ValueError if there are no samples (a NaN loss) or weights to train (no graph)."""
        if not all(x.numel() for x in self.inputs):
            samples = sum(map(len, self.inputs))
            raise ValueError(f"{samples} samples are too few for {len(self.inputs)} micro-batches")
        if not any(self.counts):
            raise ValueError("no target counts: all are -100, and a mean of nothing is nan")
        for chunk, stage in enumerate(self.stages):
            if self.is_first(chunk) and not self.inputs[0].is_floating_point():
                need_something_to_train(stage.piece)

    def refuse_incomplete(self, actions):
        """Raise RuntimeError unless each stage has done all forwards, and all backwards or none."""
        every = sorted([*range(len(self.inputs))] * (len(self.stages) // self.copies))
        for kinds, may_be_none in (("F", False), ("BI", True)):
            done = sorted(i for kind, i, _ in actions if kind in kinds)
            if done != every and (done or not may_be_none):
                raise RuntimeError(
                    f"{len(done)} of {len(every)} {kinds[0]} actions were in the schedule of rank "
                    f"{self.rank}: make it for {len(self.inputs)} micro-batches, as the batch has"
                )

    def part_of_loss(self, i, logits):
        """Return what micro-batch i adds to the mean loss over the batch's targets that count."""
        if not self.counts[i]:
            return (0 * logits).sum()  # not the mean of nothing, which is nan
        return self.counts[i] / sum(self.counts) * self.loss_of(logits, self.targets[i])

    # The place of a stage in the model, and the messages between stages.

    def is_first(self, chunk) -> bool:
        return self.rank == 0 and chunk == 0

    def is_last(self, chunk) -> bool:
        return self.rank == self.ranks - 1 and chunk == len(self.stages) - 1

    def line(self, action, sending=False):
        """Return the group through which an action receives its input, or sends its result."""
        forward = action.kind == "F"
        return self.lines[forward, self.rank == (self.ranks - 1 if forward == sending else 0)]

    def receive(self, action) -> Tensor:
        """Return the tensor that an action needs from another rank, once it has arrived.

        For "F", an input comes from the rank before; for "B" and "I", a gradient comes from the
        rank after. Ranks form a circle: after the last one comes the first, with its next chunk.

        A message goes through the group self.line(action), and has the tag tag_of(action). If there
        is only one rank, send has put the tensor into self.own[tag]: take it out there.

        Shapes  (samples, tokens, width) of self.dtype, for the samples and tokens of this
                micro-batch, self.inputs[action.microbatch]
        """
        ...  # your code here

    def send(self, x, action):
        """Send the result of an action; the tensor is kept until it has left.

        Raises  ValueError if the next stage, in `receive`, makes room for another shape or dtype
        """
        peer = (self.rank + (1 if action.kind == "F" else -1)) % self.ranks
        if peer == self.rank:
            self.own[tag_of(action)] = x
            return
        self.refuse_other(x, action)
        line = self.line(action, sending=True)
        request = dist.isend(x, group=line, group_dst=peer, tag=tag_of(action))
        if self.waits:
            request.wait()
        else:
            self.under_way.append((request, x))

    def shape_of_message(self, microbatch) -> tuple:
        return *self.inputs[microbatch].shape, self.width

    def refuse_other(self, x, action):
        """Raise ValueError if x has another shape or dtype than the messages of its micro-batch.

        A message is bytes alone: two bfloat16 numbers would be read as one float32.
        """
        shape = self.shape_of_message(action.microbatch)
        if (x.shape, x.dtype) != (shape, self.dtype):
            raise ValueError(
                f"{action} has computed {x.dtype}, {tuple(x.shape)}, but messages are {self.dtype},"
                f" {shape}: let the stage return such a tensor, or give the pipelines of all ranks "
                "another `width` or `dtype`, as under torch.autocast"
            )


def count_targets(targets) -> int:
    """Return over how many targets F.cross_entropy takes the mean: those that are not -100."""
    is_class = not targets.is_floating_point()
    return (targets != -100).sum().item() if is_class else targets.numel()


def need_something_to_train(piece):
    """Raise ValueError if the first stage, fed with tokens, is frozen: then it has no gradients."""
    weights = list(piece.parameters())
    if weights and not any(p.requires_grad for p in weights):
        raise ValueError(
            "the first stage has no weight to train: give it more layers, or fewer to the others"
        )


def dtype_of(stages) -> torch.dtype:
    """Return the dtype of some stages' weights, or torch's default one if they have none."""
    weights = (p for stage in stages for p in stage.piece.parameters())
    return next((p.dtype for p in weights), torch.get_default_dtype())


def need_one_dtype(dtype, group=None) -> torch.dtype:
    """Return the dtype; raise ValueError on all ranks if they differ in it."""
    found = [None] * dist.get_world_size(group)
    dist.all_gather_object(found, dtype, group=group)
    if len(set(found)) > 1:
        raise ValueError(
            f"messages would be {', '.join(map(str, found))} on these ranks: give the pipelines of "
            "all ranks the same `dtype`"
        )
    return dtype


def lines_of(group=None) -> dict:
    """Return {(is an activation, goes around): a group of the same ranks}; Gloo needs only one.

    NCCL has no tags. It runs single messages between two ranks in the order of the calls, for both
    directions together. With one group, one rank's second activation and the other's first gradient
    would wait for each other, so each direction has its own group, with its own communicator.

    A message *goes around* if it passes between the last rank and the first, as with several chunks
    per rank. With two ranks, an activation that goes around travels from rank 1 to rank 0, against
    the others, so it needs its own group, too.

    NCCL's documentation warns of communicators that work at the same time: they may block each
    other if a GPU has no room for both. Engines put messages in both directions into one
    dist.batch_isend_irecv. None of this is measured here.
    """
    keys = [(forward, around) for forward in (True, False) for around in (False, True)]
    if "nccl" not in dist.get_backend_config(group):  # "cpu:gloo,cuda:nccl", for example
        return dict.fromkeys(keys, group)
    ranks = dist.get_process_group_ranks(group)
    return {key: dist.new_group(ranks, use_local_synchronization=True) for key in keys}


def tag_of(action) -> int:
    """Return a number for a message between two ranks, from its direction and micro-batch."""
    return 2 * action.microbatch + (action.kind != "F")


# ---- Weights that two stages share ----------------------------------------------------------


def ends_of(group=None):
    """Return a group of the first and the last rank; all ranks have to call this."""
    ranks = dist.get_process_group_ranks(group)
    return dist.new_group(sorted({ranks[0], ranks[-1]}))


def sum_tied(weight, ends):
    """Sum the gradient of a weight that the first and last rank share.

    Call it once, after the last `step` of the pipeline before the optimizer's: it sums all that is
    in `.grad`, and a second call would count the first sum again on both ranks.

    Cost  an all-reduce of weight.nbytes between these two
    """
    dist.all_reduce(weight.grad, group=ends)


# ---- The program ----------------------------------------------------------------------------


def my_stages(model, sizes=None, group=None, chunks=1, make=Stage) -> list[Stage]:
    """Return this rank's stages; `sizes` is how many layers each stage of the model gets."""
    layers = layers_of(model)
    sizes = sizes or even_sizes(len(layers), dist.get_world_size(group) * chunks)
    return [make(piece) for piece in my_pieces(pieces_of(layers, sizes), group)]


def my_pipeline(
    model, sizes=None, group=None, chunks=1, make=Stage, kind=Pipeline, **options
) -> Pipeline:
    """Return this rank's part of a transformer, as a pipeline of class `kind` with `options`."""
    width = model.letters.weight.shape[1]
    return kind(my_stages(model, sizes, group, chunks, make), mean_loss, width, group, **options)


def parameters_of(pipeline) -> list[nn.Parameter]:
    return [p for stage in pipeline.stages for p in stage.piece.parameters()]


def train(
    pipeline, schedule, text, steps, samples=16, microbatches=8
) -> tuple[float, float, float]:
    """Train with Adam; return the first and the last loss, and a step's median seconds.

    The loss is known on the last rank; on the others it is 0
    """
    optimizer, losses, times = torch.optim.Adam(parameters_of(pipeline), lr=5e-3), [], []
    actions = list(schedule(pipeline.rank, pipeline.ranks, microbatches))
    for number in range(steps):
        inputs, targets = draw_batch(text, samples, number)  # all ranks read the same
        batch = inputs.tensor_split(microbatches), targets.tensor_split(microbatches)
        began = now()
        optimizer.zero_grad()
        losses.append(pipeline.step(actions, *batch))
        optimizer.step()
        times.append(now() - began)
    return losses[0], losses[-1], median(times)


def one_batch(
    rows, around=no_context, link_seconds=0.0, layers=None, waits=False, samples=2, **sizes
):
    """Run one batch through a small transformer, as this rank's row says, measured as "step".

    It runs twice, the first time to warm up. Returns the most micro-batches that were kept.

    rows          the schedule, for all ranks
    link_seconds  seconds per message on a throttled link
    layers        how many layers each stage of the model gets; by default as equal as possible
    waits         whether to wait for a send at once
    samples       per micro-batch
    """
    from pedagogy_lib import measure, throttle

    torch.manual_seed(0)
    row = rows[dist.get_rank()]
    microbatches, chunks = (1 + max(action[part] for action in row) for part in (1, 2))
    blocks = sum(layers) - 2 if layers else max(2, len(rows) * chunks)
    sizes = {"width": 32, "heads": 2, "context": 16, "layers": blocks} | sizes
    in_halves = any(action.kind == "W" for action in row)
    make = stage_in_halves if in_halves else Stage
    pipeline = my_pipeline(Transformer(**sizes), layers, chunks=chunks, make=make, waits=waits)
    text = standard_library(20_000)
    batch = draw_batch(text, samples * microbatches, 0, sizes["context"])
    inputs, targets = (part.tensor_split(microbatches) for part in batch)
    pipeline.step(row, inputs, targets)
    pipeline.around = around
    message_bytes = samples * sizes["context"] * sizes["width"] * 4
    dist.barrier()
    slow = throttle(message_bytes / link_seconds) if link_seconds else contextlib.nullcontext()
    with slow, measure("step", memory=False):
        pipeline.step(row, inputs, targets)
    return sum(stage.most_kept for stage in pipeline.stages)


def program(text, steps=20):
    """Train a small transformer in stages; one more step is measured as "step"."""
    from pedagogy_lib import measure

    torch.manual_seed(0)
    pipeline = my_pipeline(Transformer(layers=max(4, dist.get_world_size())))
    found = train(pipeline, one_f_one_b, text, steps)
    with measure("step"):
        train(pipeline, one_f_one_b, text, 1)
    return *found, pipeline.stages[0].most_kept


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    run = launch(program, text, world_size=2)
    if run.rank != 0:
        return
    first, last, _, _ = run.values[-1]
    print(f"{run.world_size} stages, 1F1B: loss {first:.4f} to {last:.4f}")
    for rank, (_, _, seconds, kept) in enumerate(run.values):
        print(
            f"  rank {rank}: {1e3 * seconds:.0f} ms a step, at most {kept} micro-batches kept, "
            f"{run['step'].sent_bytes[rank] / 1e3:.0f} kB sent"
        )


if __name__ == "__main__":
    main()
