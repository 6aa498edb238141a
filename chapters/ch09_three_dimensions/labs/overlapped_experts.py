"""Two halves of a batch in turns: the rows of one half travel while the other half is computed.

torchrun --nproc-per-node 2 labs/overlapped_experts.py
"""

from functools import partial
from statistics import median

import torch
import torch.distributed as dist
from expert_parallel import RemoteExperts, no_context, share_out
from expert_training import JOINT, SIZES, average_gradients
from experts import Experts, balancing_loss, expert_layers, make_expert_transformer
from language_model import draw_batch, mean_loss, standard_library
from meshes import Mesh
from torch import Tensor

# ---- An all-to-all that is under way --------------------------------------------------------


class AllToAll:
    """An all-to-all of rows, forward or backward, between its beginning and its end.

    It holds rows only while they travel: autograd keeps it until the backward.

    watch  takes a name and returns a context manager, as `measure` does
    """

    def __init__(self, send, receive, group, watch=no_context):
        self.send, self.receive, self.group, self.watch = send, receive, group, watch

    def begin(self, x, send, receive) -> Tensor:
        """Begin to exchange rows; return the tensor that will hold them after `end`."""
        self.sent = x.contiguous()
        self.rows = x.new_empty(sum(receive), *x.shape[1:])  # arbitrary numbers until `end`
        self.request = dist.all_to_all_single(
            self.rows, self.sent, receive, send, self.group, async_op=True
        )
        return self.rows

    def end(self) -> Tensor:
        with self.watch("waiting"):
            self.request.wait()
        rows, self.rows, self.sent, self.request = self.rows, None, None, None
        return rows


class BeginTransfer(torch.autograd.Function):
    """The beginning of an all-to-all; its backward is the end of that of the gradients."""

    @staticmethod
    def forward(ctx, x, exchange):
        ctx.exchange = exchange
        return exchange.begin(x, exchange.send, exchange.receive)

    @staticmethod
    def backward(ctx, unused):
        return ctx.exchange.end(), None


class EndTransfer(torch.autograd.Function):
    """The end of an all-to-all; its backward is the beginning of that of the gradients."""

    @staticmethod
    def forward(ctx, rows, exchange):
        ctx.exchange = exchange
        return exchange.end().view_as(rows)

    @staticmethod
    def backward(ctx, gradient):
        exchange = ctx.exchange
        exchange.begin(gradient, exchange.receive, exchange.send)
        return gradient, None  # what BeginTransfer returns is what has come by then


class Transfer:
    """Rows under way: `rows` is the tensor that is being filled."""

    def __init__(self, rows, exchange):
        self.rows, self.exchange, self.has_arrived = rows, exchange, False

    def wait(self) -> Tensor:
        """Return the rows when all of them have arrived, as a tensor that autograd knows."""
        if not self.has_arrived:
            self.rows, self.has_arrived = EndTransfer.apply(self.rows, self.exchange), True
        return self.rows


def begin_exchange(x, send, receive, group=None, watch=no_context) -> Transfer:
    """Begin an all-to-all of rows, like Exchange, and return a transfer that can be waited for."""
    exchange = AllToAll(send, receive, group, watch)
    return Transfer(BeginTransfer.apply(x, exchange), exchange)


# ---- The model, with a yield wherever rows are under way ------------------------------------


def block_steps(block, x, watch=no_context):
    """Run a block with remote experts, yield while rows travel, and return the block's output.

    Returns  the output, and this part's scores, experts and fits, which ExpertLayer describes
    """
    layer, remote = block.mlp, block.mlp.mlps
    begin = partial(begin_exchange, group=remote.group, watch=watch)
    with watch("attention"):
        x = x + block.attention(block.norm_1(x))
        tokens = block.norm_2(x).flatten(0, -2)
        weights, chosen, counts = layer.choose(tokens)
        choices = layer.scores, layer.experts, layer.fits
    with watch("counts"):  # how many rows come has to be known before they can
        send, receive, came = remote.exchange_counts(counts)
    transfer = begin(tokens[chosen // layer.k], send, receive)
    yield
    rows = transfer.wait()
    with watch("experts"):
        y = remote.run_mine(rows, came)
    transfer = begin(y, receive, send)
    del rows, y  # the other part's rows are next
    yield
    return x + layer.combine(tokens, weights, chosen, transfer.wait()).view_as(x), choices


def model_steps(model, letters, watch=no_context):
    """Run a model as block_steps runs a block; return its scores, and each block's choices."""
    places = torch.arange(letters.shape[1])
    x, choices = model.letters(letters) + model.places(places), []
    for block in model.blocks:
        x, of_block = yield from block_steps(block, x, watch)
        choices.append(of_block)
    return model.output(model.norm(x)), choices


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
    """Return a batch's mean loss, computed in parts of its samples; `order` runs the generators.

    Afterwards each layer's scores, experts and fits are those of all parts, as a balancing loss
    needs them. A capacity holds for each part by itself.

    Raises  ValueError on a rank with fewer samples than parts. The others are not told and wait
            for its rows, until torchrun or `launch` ends them
    """
    if len(inputs) < parts:
        raise ValueError(f"{len(inputs)} samples cannot be cut into {parts} parts")
    results = order([model_steps(model, part, watch) for part in inputs.tensor_split(parts)])
    outputs, choices = zip(*results)
    for layer, of_layer in zip(expert_layers(model), zip(*choices)):
        layer.scores, layer.experts, layer.fits = map(torch.cat, zip(*of_layer))
    return mean_loss(torch.cat(outputs), targets)


# ---- Comparison with one process, and measurement -------------------------------------------


def add_balance(loss, model, group=None, weight=0.1) -> Tensor:
    """Add the balancing losses of a model's layers after a forward."""
    layers = expert_layers(model)
    return loss + weight * sum(balancing_loss(of.scores, of.experts, group) for of in layers)


def compare_with_one_process(text, parts, order, samples=6, **of_model) -> float:
    """Return the largest difference of gradients from one process, in float64.

    It is a share of the largest number of the same tensor. The loss has balancing losses in it.

    samples   of a rank; with a capacity, a multiple of the parts
    of_model  arguments of make_expert_transformer
    """
    torch.set_default_dtype(torch.float64)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh, of_model = Mesh({"edp": 1, "ep": ranks}, JOINT), SIZES | {"n": 2 * ranks} | of_model
    alone = make_expert_transformer(**of_model, parts=ranks * parts)
    model = share_out(make_expert_transformer(**of_model), mesh["ep"])
    inputs, targets = draw_batch(text, samples * ranks, 0, of_model["context"])
    add_balance(mean_loss(alone(inputs), targets), alone).backward()
    mine = [x.chunk(ranks)[rank] for x in (inputs, targets)]
    add_balance(loss_of(model, *mine, parts, order), model, mesh["ep"]).backward()
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

    Each step is measured under the name of its way, and in it the waiting for rows and for their
    counts as "NAME: waiting" and "NAME: counts". Products are emulated.

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
        waits = {name: f"{label}: {name}" for name in ("waiting", "counts")}
        return lambda name: watch(waits[name]) if name in waits else no_context(name)

    for number in range(1 + rounds):  # the first one opens connections
        for name, way in ways.items():
            label = name if number else "warm-up"
            step(*way, label, only_waiting(label))
    if draw is not None:
        step(*ways[draw], "step", lambda name: watch("waiting" if name == "counts" else name))


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
            waits = [run[f"{name}: {what}"].seconds[0] for what in ("waiting", "counts")]
            waited = sum(waits) / run[name].seconds[0]
            print(f"{name}: {1e3 * median(run[name].rounds):.0f} ms a step, of which rank 0 waited "
                  f"{waited:.0%}")  # fmt: skip


if __name__ == "__main__":
    main()
