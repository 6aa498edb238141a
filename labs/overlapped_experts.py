# Built from chapters/ch09_three_dimensions/labs/overlapped_experts.py by `make build`.
"""Two halves of a batch in turns: the rows of one half travel while the other half is computed.

torchrun --nproc-per-node 2 labs/overlapped_experts.py
"""

from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from expert_parallel import RemoteExperts, no_context, share_out
from expert_training import JOINT, SIZES, average_gradients
from experts import Experts, load_of, make_expert_transformer, route
from language_model import draw_batch, mean_loss, standard_library
from meshes import Mesh
from torch import Tensor

# ---- An all-to-all that is under way --------------------------------------------------------


class Transfer:
    """An all-to-all of rows, forward or backward, between its beginning and its end.

    watch  takes a name and returns a context manager, as `measure` does
    """

    def __init__(self, send, receive, group, watch=no_context):
        self.send, self.receive, self.group, self.watch = send, receive, group, watch

    def begin(self, x, send, receive) -> Tensor:
        """Begin to exchange rows; return the tensor that will hold them after `end`."""
        self.sent = x.contiguous()  # has to live as long as it is being sent
        self.rows = x.new_empty(sum(receive), *x.shape[1:])  # arbitrary numbers until `end`
        self.request = dist.all_to_all_single(
            self.rows, self.sent, receive, send, self.group, async_op=True
        )
        return self.rows

    def end(self) -> Tensor:
        with self.watch("waiting"):
            self.request.wait()
        self.sent = None
        return self.rows

    def wait(self) -> Tensor:
        """Return the rows that have come, as a tensor that autograd knows."""
        return EndTransfer.apply(self.coming, self)


class BeginTransfer(torch.autograd.Function):
    """The beginning of an all-to-all; its backward is the end of that of the gradients."""

    @staticmethod
    def forward(ctx, x, transfer):
        ctx.transfer = transfer
        return transfer.begin(x, transfer.send, transfer.receive)

    @staticmethod
    def backward(ctx, unused):
        return ctx.transfer.end(), None


class EndTransfer(torch.autograd.Function):
    """The end of an all-to-all; its backward is the beginning of that of the gradients."""

    @staticmethod
    def forward(ctx, coming, transfer):
        ctx.transfer = transfer
        return transfer.end().view_as(coming)

    @staticmethod
    def backward(ctx, gradient):
        transfer = ctx.transfer
        transfer.begin(gradient, transfer.receive, transfer.send)
        return gradient, None  # what BeginTransfer returns is what has come by then


def begin_exchange(x, send, receive, group=None, watch=no_context) -> Transfer:
    """Begin an all-to-all of rows, like Exchange, and return a transfer that can be waited for."""
    transfer = Transfer(send, receive, group, watch)
    transfer.coming = BeginTransfer.apply(x, transfer)
    return transfer


# ---- The model, with a yield wherever rows are under way ------------------------------------


def block_steps(block, x, watch=no_context):
    """Run a block with remote experts, yield while rows travel, and return the block's output."""
    layer, remote = block.mlp, block.mlp.mlps
    begin = partial(begin_exchange, group=remote.group, watch=watch)
    with watch("attention"):
        x = x + block.attention(block.norm_1(x))
        tokens = block.norm_2(x).flatten(0, -2)
        weights, experts = route(layer.router(tokens), layer.k, layer.bias)
        order = experts.flatten().argsort(stable=True)  # of the choices, sorted by expert
    with watch("waiting"):
        send, receive, came = remote.exchange_counts(load_of(experts, layer.n))
    there = begin(tokens[order // layer.k], send, receive)
    yield
    rows = there.wait()
    with watch("experts"):
        y = remote.run_mine(rows, came)
    back = begin(y, receive, send)
    yield
    y = back.wait()
    y = torch.zeros_like(y).index_copy(0, order, y).view(*experts.shape, -1)
    return x + (y * weights.unsqueeze(-1)).sum(1).view_as(x)


def model_steps(model, letters, watch=no_context):
    """Run a whole model as block_steps runs a block, and return its scores."""
    places = torch.arange(letters.shape[1])
    x = model.letters(letters) + model.places(places)
    for block in model.blocks:
        x = yield from block_steps(block, x, watch)
    return model.output(model.norm(x))


def one_after_another(parts) -> list:
    """Run each of several generators to its end, and return what they return."""
    return [in_turns([part])[0] for part in parts]


def in_turns(parts) -> list:
    """Run several generators in turns, each to its next yield, and return what they return."""
    results, running = {}, dict(enumerate(parts))
    while running:
        for place, part in list(running.items()):
            try:
                next(part)
            except StopIteration as end:
                results[place] = end.value
                del running[place]
    return [results[place] for place in sorted(results)]


def loss_of(model, inputs, targets, parts, order=in_turns, watch=no_context) -> Tensor:
    """Return a batch's mean loss, computed in parts of its samples; `order` runs the generators."""
    scores = order([model_steps(model, part, watch) for part in inputs.tensor_split(parts)])
    return mean_loss(torch.cat(scores), targets)


# ---- Comparison with one process, and measurement -------------------------------------------


def compare_with_one_process(text, parts, order, samples=6, **of_model) -> float:
    """Return the largest difference of loss and gradients from one process, in float64.

    It is a share of the largest number of the same tensor.
    """
    torch.set_default_dtype(torch.float64)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh, of_model = Mesh({"edp": 1, "ep": ranks}, JOINT), SIZES | {"n": 2 * ranks} | of_model
    alone = make_expert_transformer(**of_model)
    model = share_out(make_expert_transformer(**of_model), mesh["ep"])
    inputs, targets = draw_batch(text, samples * ranks, 0, of_model["context"])
    mean_loss(alone(inputs), targets).backward()
    mine = [x.chunk(ranks)[rank] for x in (inputs, targets)]
    loss_of(model, *mine, parts, order).backward()
    average_gradients(list(model.parameters()), mesh)
    worst = 0.0
    for p, whole in zip(model.parameters(), alone.parameters(), strict=True):
        wanted = whole.grad.chunk(ranks)[rank] if hasattr(p, "is_of_expert") else whole.grad
        worst = max(worst, ((p.grad - wanted).abs().max() / whole.grad.abs().max()).item())
    return worst


WAYS = {  # parts of the batch, and how they are run
    "whole batch": (1, one_after_another),
    "two halves": (2, one_after_another),
    "two halves in turns": (2, in_turns),
}


def race(text, flops, rounds=5, draw=None, samples=4, ways=WAYS) -> None:
    """Measure a step's forward and backward in each of several ways, in turns.

    Each step is measured under the name of its way, and the waiting in it as "NAME: waiting".
    Products are emulated.

    draw  the way of one more step, measured as "attention", "experts", "waiting" and "backward"
    """
    from pedagogy_lib import SlowProducts, measure

    watch = partial(measure, memory=False)
    model = share_out(make_expert_transformer(2 * dist.get_world_size(), k=2), dist.group.WORLD)
    inputs, targets = draw_batch(text, samples * dist.get_world_size(), 0)
    mine = [x.chunk(dist.get_world_size())[dist.get_rank()] for x in (inputs, targets)]

    def step(parts, order, label, inner):
        dist.barrier()
        with SlowProducts(flops, measured=False), watch(label):
            loss = loss_of(model, *mine, parts, order, inner)
            with inner("backward"):
                loss.backward()

    def only_waiting(label):
        return lambda name: watch(f"{label}: waiting") if name == "waiting" else no_context(name)

    for number in range(1 + rounds):  # the first one opens connections
        for name, way in ways.items():
            label = name if number else "warm-up"
            step(*way, label, only_waiting(label))
    if draw is not None:
        step(*ways[draw], "step", watch)


@torch.no_grad()
def try_halves(experts_in_halves, tokens=480, width=64) -> float:
    """Run two halves through experts on other ranks; return the share of rows that are wrong."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    remote = RemoteExperts(Experts(width, width, ranks), dist.group.WORLD)
    counts = torch.full((ranks,), tokens // ranks)
    send, receive, came = remote.exchange_counts(counts)
    chance = torch.Generator().manual_seed(rank)
    halves = [torch.randn(int(counts.sum()), width, generator=chance) for _ in range(2)]
    got = experts_in_halves(
        halves,
        lambda rows, number: begin_exchange(rows, send, receive),
        lambda rows, number: remote.run_mine(rows, came),
        lambda rows, number: begin_exchange(rows, receive, send),
    )
    dist.barrier()  # whatever was not waited for has arrived by now, or does not matter
    wrong = [(x - remote(half, counts)).abs().amax(-1) > 1e-5 for x, half in zip(got, halves)]
    return torch.cat(wrong).float().mean().item()


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(race, standard_library(100_000), 1e9, world_size=2)
    if run.rank == 0:
        for name in WAYS:
            waited = run[f"{name}: waiting"].seconds[0] / run[name].seconds[0]
            print(f"{name}: {1e3 * median(run[name].rounds):.0f} ms a step, of which rank 0 waited "
                  f"{waited:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
