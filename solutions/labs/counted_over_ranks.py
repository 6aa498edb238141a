# Built from chapters/ch03_data_parallel/labs/counted_over_ranks.py by `make build`.
"""Means over all ranks: BatchNorm's statistics, ranks with fewer batches, and tokens.

torchrun --nproc-per-node 2 labs/counted_over_ranks.py
"""

import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from gradient_accumulation import PADDING, count_tokens
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

# ---- A differentiable sum over the ranks ----------------------------------------------------


class SumOverRanks(torch.autograd.Function):
    """An all-reduce that has a backward.

    Each rank's input is part of the sum that all ranks get. The gradient of the input is therefore
    the sum of the gradients that all ranks have for their outputs, which is an all-reduce again.
    """

    @staticmethod
    def forward(ctx, x):
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx, slope):
        total = slope.clone()
        dist.all_reduce(total)
        return total


def sum_over_ranks(x: Tensor) -> Tensor:
    """Return the sum of x over all ranks, with a gradient."""
    return SumOverRanks.apply(x)


def model_with(norm) -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Linear(8, 16, bias=False), norm(16), nn.ReLU(), nn.Linear(16, 1)
    return nn.Sequential(*layers).double()


def one_backward(norm, samples=12) -> tuple[dict, dict]:
    """Return gradients, and running mean and variance, after a backward with this BatchNorm type.

    Each rank takes every n-th sample, so a single process takes all of them.
    norm  a type of layer that takes a number of features
    """
    model = model_with(norm)
    share = slice(dist.get_rank(), None, dist.get_world_size())
    inputs, targets = (x[share] for x in draw_samples(samples, 8))
    ddp = DistributedDataParallel(model)
    F.mse_loss(ddp(inputs), targets).backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters()}
    running = {name: x.clone() for name, x in model.named_buffers() if x.is_floating_point()}
    return gradients, running


def largest_gaps(run, alone) -> list[float]:
    """Return how far gradients and statistics are from those of one process, at most on any rank.

    run    a launch of one_backward; alone is its result on one rank
    """
    from pedagogy_lib import relative_gap

    return [max(relative_gap(of_rank[what][name], alone[what][name])
                for of_rank in run.values for name in alone[what]) for what in (0, 1)]  # fmt: skip


def gap_of_shares(norm, n, samples=12) -> float:
    """Return the gap of the mean gradients of n shares to the gradients of all samples.

    One process takes the samples in n shares, one after another, and then all at once.
    """
    from pedagogy_lib import relative_gap

    shared, whole = model_with(norm), model_with(norm)
    inputs, targets = draw_samples(samples, 8)
    for rank in range(n):
        (F.mse_loss(shared(inputs[rank::n]), targets[rank::n]) / n).backward()
    F.mse_loss(whole(inputs), targets).backward()
    pairs = zip(shared.parameters(), whole.parameters())
    return max(relative_gap(a.grad, b.grad) for a, b in pairs)


def draw_samples(samples, features, seed=1):
    """Draw inputs and targets, the same on every rank: (samples, features), (samples, 1)."""
    chance = torch.Generator().manual_seed(seed)
    shapes = (samples, features), (samples, 1)
    numbers = [torch.randn(shape, generator=chance, device="cpu").double() for shape in shapes]
    return [x.to(torch.get_default_device()) for x in numbers]


# ---- A rank with fewer batches --------------------------------------------------------------

BATCHES_OF = (6, 4)  # numbers of batches of ranks 0 and 1


def start_model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 1).double()


def uneven_batches(rank) -> list:
    """Draw the batches of a rank: (inputs, targets), four samples each."""
    return [draw_samples(4, 3, seed=100 * rank + number) for number in range(BATCHES_OF[rank])]


def train_uneven(ddp, optimizer) -> None:
    """Train with all batches of this rank."""
    for inputs, targets in uneven_batches(dist.get_rank()):
        optimizer.zero_grad()
        F.mse_loss(ddp(inputs), targets).backward()
        optimizer.step()


def weights_of(model) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def train_alone(always_by_2) -> Tensor:
    """Return the weights of one process, whose steps take a batch of each rank that still has one.

    always_by_2  whether gradients are divided by 2 even where only one rank still has a batch
    """
    model, own = start_model(), [uneven_batches(rank) for rank in (0, 1)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(max(BATCHES_OF)):
        still = [batches[step] for batches in own if step < len(batches)]
        optimizer.zero_grad()
        for inputs, targets in still:
            divisor = 2 if always_by_2 else len(still)
            (F.mse_loss(model(inputs), targets) / divisor).backward()
        optimizer.step()
    return weights_of(model)


# ---- Tokens ---------------------------------------------------------------------------------


class WeightOfToken(nn.Module):
    """A model with a separate loss for each token k, so that `.grad[k]` shows how much k counts."""

    def __init__(self, tokens):
        super().__init__()
        self.number = nn.Parameter(torch.zeros(tokens))

    def forward(self, tokens):
        return self.number[tokens]


def backward_tokens(ddp, micro_batches) -> None:
    """Exercise 3.16. Compute the gradient of the mean loss over all ranks' tokens.

    Every rank calls it with its own micro-batches, as many as the other ranks. The loss is the
    cross-entropy. `.grad` is clear before the call. After it, `.grad` is on every rank the gradient
    of the mean loss over all tokens that count, in all micro-batches of all ranks.

    ddp            a model in DistributedDataParallel, which averages gradients over the ranks
    micro_batches  a list of (tokens, targets). Targets that are PADDING do not count. A micro-
                   batch, or a rank, may have no other targets; at least one rank has some
    Shapes         tokens, targets: (sentences, length); ddp(tokens): (sentences, length,
                   vocabulary)
    Cost           one all-reduce of the gradients, and one of a single number; a forward and a
                   backward per micro-batch, with the activations of one at a time
    Unchanged      weights, micro_batches, and whether ddp communicates in later backwards
    """
    ### BEGIN SOLUTION
    here = sum(count_tokens(targets) for _, targets in micro_batches)
    counted = torch.tensor(here, device=next(ddp.parameters()).device)
    dist.all_reduce(counted)
    factor = dist.get_world_size() / counted.item()  # DDP divides by the number of ranks
    for number, (tokens, targets) in enumerate(micro_batches, 1):
        is_last = number == len(micro_batches)
        with contextlib.nullcontext() if is_last else ddp.no_sync():
            logits, wanted = ddp(tokens).flatten(0, 1), targets.flatten()
            loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, reduction="sum")
            (loss * factor).backward()
    ### END SOLUTION


def mean_of_means(ddp, micro_batches) -> None:
    """Run the loop that most people write first: micro-batches count the same, and so do ranks."""
    for tokens, targets in micro_batches:
        logits, wanted = ddp(tokens).flatten(0, 1), targets.flatten()
        loss = F.cross_entropy(logits, wanted, ignore_index=PADDING)
        (loss / len(micro_batches)).backward()


WORDS = 5


def sentences_of_rank(lengths, seed=0) -> list:
    """Draw micro-batches (tokens, targets) of sentences of these lengths, padded to the longest."""
    chance, found = torch.Generator().manual_seed(seed), []
    for some in lengths:
        pair = torch.randint(WORDS, (2, len(some), max(some)), generator=chance, device="cpu")
        for row, length in enumerate(some):
            pair[1, row, length:] = PADDING
        found.append(tuple(pair.to(torch.get_default_device())))
    return found


LENGTHS = ([[7, 2], [5, 4]], [[1, 1], [1, 2]])  # lengths of the sentences of ranks 0 and 1


def word_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(WORDS, 6), nn.Tanh(), nn.Linear(6, WORDS)).double()


def gradients_with(way) -> Tensor:
    """Return all gradients that way(ddp, micro_batches) leaves on this rank, as one flat tensor."""
    ddp, rank = DistributedDataParallel(word_model()), dist.get_rank()
    way(ddp, sentences_of_rank(LENGTHS[rank], seed=rank))
    return torch.cat([p.grad.flatten() for p in ddp.parameters()])


def gradients_alone() -> Tensor:
    """Return the gradients of the mean over all tokens that count, from one process."""
    model = word_model()
    pieces = [piece for rank in (0, 1) for piece in sentences_of_rank(LENGTHS[rank], seed=rank)]
    logits = torch.cat([model(tokens).flatten(0, 1) for tokens, _ in pieces])
    targets = torch.cat([targets.flatten() for _, targets in pieces])
    F.cross_entropy(logits, targets, ignore_index=PADDING).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# ---- The program ----------------------------------------------------------------------------


def program() -> str:
    from pedagogy_lib import relative_gap

    alone, lines = gradients_alone(), []
    for name, way in {"a mean of means": mean_of_means, "tokens counted": backward_tokens}.items():
        gap = relative_gap(gradients_with(way), alone)
        lines.append(f"{name:16} gradients differ from one process by {gap:.0e} of the largest")
    return "\n".join(lines)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(program, world_size=2)
    if run.rank == 0:
        print(run.values[0])


if __name__ == "__main__":
    main()
