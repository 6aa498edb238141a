"""The gradient of the mean loss over the tokens of all ranks, under DistributedDataParallel."""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ...basics.closeness import close_in_float32
from ..kit import At, Equals, Holds, RankExercise, Sends, World, answering, complains, never
from ..kit.one_process import flat, gradients_in

PADDING = -100
WORDS, HIDDEN, LARGE = 7, 3, 400
ONE_NUMBER = 500  # bytes that a rank may send beside the gradients: a number, and its headers
# For each rank its micro-batches: the lengths of their sentences, 0 is one of padding alone.
THREE_EACH = [[[7, 1], [3, 5, 2], [6]], [[1, 2], [1], [2, 2]]]
RANK_OF_PADDING = [[[4, 2], [5]], [[0], [0, 0]], [[1], [2, 3, 1]]]
ENDS_WITH_PADDING = [[[3, 1], [0, 0], [0]], [[6, 6], [2], [4, 1]]]
SINGLE = [[[2]], [[5, 3]]]
MANY = [[[1500, 1501]], [[8]]]  # more than a number of float16 counts one by one
OF_LARGE = [[2], [1], [1]]  # of each rank


def model_of(words=WORDS, hidden=HIDDEN):
    model = nn.Sequential(nn.Embedding(words, hidden), nn.Tanh(), nn.Linear(hidden, words)).double()
    source = torch.Generator().manual_seed(5)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7, generator=source)
    return model


def pieces_of(rank, lengths, words=WORDS):
    """(tokens, targets) of each micro-batch, padded to one place more than the longest sentence."""
    source = torch.Generator().manual_seed(17 + rank)
    return [rectangle(some, source, words) for some in lengths]


def rectangle(some, source, words):
    shape = len(some), max(some) + 1
    tokens, targets = (torch.randint(words, shape, generator=source) for _ in range(2))
    for row, length in enumerate(some):
        tokens[row, length:], targets[row, length:] = 0, PADDING
    return tokens, targets


# ---- On a rank ---


def count_and_go_back(answer, group, case):
    """The gradients, how the micro-batches went through the model, and what else has changed."""
    rank, lengths = dist.get_rank(), case.args[0]
    ddp, most, kept, backwards = DistributedDataParallel(model_of()), [], [], []

    def forward(_, inputs):
        most.append(len(inputs[0]))
        kept.append(len(most) - len(backwards))

    last, before = ddp.module[2].weight, flat(ddp.parameters())
    last.register_post_accumulate_grad_hook(backwards.append)
    ddp.module.register_forward_pre_hook(forward)
    pieces = pieces_of(rank, lengths[rank])
    value = answer(ddp, pieces)
    del value
    found = {"grad": gradients_in(ddp), "backwards": len(backwards) - len(lengths[rank])}
    found["sentences"] = max(most, default=0) - max(map(len, lengths[rank]))
    found["together"] = max(kept, default=1) - 1
    found["moved"] = not torch.equal(before, flat(ddp.parameters()))
    found["silent"] = not ddp.require_backward_grad_sync
    found["changed"] = not are_equal(pieces, pieces_of(rank, lengths[rank]))
    return found | (cost_of_large(answer, rank) if len(case.args) > 1 else {})


def are_equal(some, others) -> bool:
    return len(some) == len(others) and all(
        torch.equal(*pair) for one, other in zip(some, others) for pair in zip(one, other)
    )


def cost_of_large(answer, rank):
    """The same with a large model, whose backwards before have agreed on buckets."""
    ddp, pieces = DistributedDataParallel(model_of(LARGE, LARGE)), pieces_of(rank, OF_LARGE)
    for _ in range(2):
        ddp(pieces[0][0]).sum().backward()
    ddp.zero_grad()
    with answering():
        answer(ddp, pieces)
    gradient = gradients_in(ddp)
    return {"large_bytes": gradient.nbytes, "large": in_short(gradient)}


def in_short(gradient):
    """Three numbers that change if something is missing, or stands elsewhere."""
    place = torch.linspace(0, 1, len(gradient), dtype=gradient.dtype)
    return torch.stack([gradient.sum(), gradient @ place, gradient.norm()])


# ---- What is right, and what is not ---


def tables(lengths, model=None):
    """Of each rank's micro-batches: sums of gradients (ranks, pieces, parameters), and counts."""
    model, sums, counts = model or model_of(), [], []
    for rank, of_rank in enumerate(lengths):
        for tokens, targets in pieces_of(rank, of_rank):
            logits, wanted = model(tokens).flatten(0, 1), targets.flatten()
            loss = F.cross_entropy(logits, wanted, ignore_index=PADDING, reduction="sum")
            sums.append(flat(torch.autograd.grad(loss, list(model.parameters()))))
            counts.append([(targets != PADDING).sum(), targets.numel(), len(targets),
                           (targets > 0).sum(), (tokens != 0).sum()])  # fmt: skip
    shape = len(lengths), len(lengths[0])
    counts = torch.tensor(counts, dtype=torch.float64)
    return torch.stack(sums).unflatten(0, shape), counts.unflatten(0, shape).unbind(-1)


def mean(trial, place):
    sums, (tokens, *_) = tables(trial.case.args[0])
    return sums.sum((0, 1)) / tokens.sum()


def mean_of_large(trial, place):
    sums, (tokens, *_) = tables([OF_LARGE] * trial.n, model_of(LARGE, LARGE))
    return in_short(sums.sum((0, 1)) / tokens.sum())


def by_weights(sums, weights):
    return torch.einsum("rm,rmp->p", weights.expand(sums.shape[:2]), sums)


AGAIN = "DistributedDataParallel divides by the number of ranks after each backward"
OWN = (
    "each rank divides by its own count, and DistributedDataParallel takes the mean of these "
    "means: a token of a rank with few tokens counts more. Which number is the same on all ranks?"
)
TWICE = f"this is divided by the number of ranks once too often: {AGAIN}"


def mistakes(trial, place):
    sums, (tokens, places, sentences, above, nonzero) = tables(trial.case.args[0])
    n, pieces = sums.shape[:2]
    ones, total, own = torch.ones(n, pieces).double(), tokens.sum(), tokens.sum(1, keepdim=True)
    alone, last = torch.zeros(n, pieces).double(), torch.zeros(n, pieces).double()
    alone[place], last[:, -1] = 1, 1
    each = ones / tokens.clamp(min=1)
    weights = {
        OWN: ones / own.clamp(min=1) / n,
        "each rank divides by its own count, and these means are added up. Which number is the "
        "same on all ranks?": ones / own.clamp(min=1),
        "a mean of means: each micro-batch counts the same, and each rank. A token among few then "
        "counts more than a token among many": each / pieces / n,
        TWICE: ones / total / n,
        "this is the mean over the tokens, times the number of ranks: what is divided by the "
        "number of ranks, and how often?": ones * n / total,
        "this is the gradient of the sum over all tokens: divide by how many count": ones,
        "the mean of a micro-batch is divided by the tokens of all ranks: that divides twice. Its "
        "sum has to be divided, once": each / total,
        "`.grad` is clear, as it was: nothing goes back": 0 * ones,
        "this is a sum of gradients, divided by the number of ranks: divide by how many tokens "
        "count": ones / n,
        "the means of the micro-batches are added up": each / n,
        "positions are counted, padding included: only targets that are not PADDING count":
            ones / places.sum(),
        "the sum is divided by the number of sentences, not of tokens": ones / sentences.sum(),
        "targets above 0 are counted: 0 is a token, too, and only PADDING does not count":
            ones / above.sum(),
        "tokens that are not 0 are counted: 0 is a token, too. It is targets that may be PADDING":
            ones / nonzero.sum(),
        "nothing is averaged over the ranks: each has a share of its own. DistributedDataParallel "
        "communicates in a backward whose forward is not under no_sync()": n * alone / total,
        "nothing is averaged over the ranks: each has the mean over its own tokens":
            alone / own.clamp(min=1),
        "only the last micro-batch counts: the gradients of the others are set back, or are never "
        "computed": last / total,
        "the counts of the last micro-batches alone are added up": ones / tokens[:, -1].sum(),
        "each micro-batch is divided by what it has on all ranks: a mean of means again":
            ones / tokens.sum(0, keepdim=True).clamp(min=1) / pieces,
        "only the last micro-batch is averaged over the ranks; of the others, each rank has its "
        "own": (n * alone * (1 - last) + last) / total,
    }  # fmt: skip
    return {why: by_weights(sums, weight) for why, weight in weights.items()}


NAN = (
    "0/0: a mean over no tokens is not a number, and DistributedDataParallel gives it to all "
    "ranks. A micro-batch, or all of a rank, may be padding alone; its sum is 0"
)


def otherwise(trial) -> str:
    return NAN if any(of.grad.isnan().any() for of in trial) else ""


SMALL = 64  # bytes: what is no gradient


@complains
def counts_once(trial):
    for place, calls in enumerate(trial.calls):
        small = sum(call.name == "all_reduce" and call.tensor_bytes <= SMALL for call in calls)
        if small > 1:
            what = f"{trial.who(place)}: {small} all-reduces of single numbers"
            yield what, "how many tokens count is known before the first forward: ask once"


def why_so_many_bytes(trial, times) -> str:
    pieces = len(trial.case.args[0][0])
    if round(times) == pieces:
        return (
            f"the gradients are sent {pieces} times, once for each micro-batch: all backwards but "
            "the last have to be silent"
        )
    return "the gradients have to travel once, and beside them a single number"


def one_exchange_and_a_number(trial, place):
    bytes_of = trial.of("large_bytes")
    return bytes_of and 2 * (trial.n - 1) / trial.n * bytes_of[place] + ONE_NUMBER


EXERCISE = RankExercise(
    "3.15",
    "backward_tokens",
    lab="counted_over_ranks",
    cases=[
        At(World(2), (THREE_EACH, LARGE), ", 3 micro-batches each"),
        At(World(2), (SINGLE,), ", 1 micro-batch each"),
        At(World(3), (RANK_OF_PADDING,), ", rank 1 has nothing but padding"),
        At(World(2), (ENDS_WITH_PADDING,), ", rank 0 ends with padding"),
        At(World(2), (MANY,), ", 3,009 tokens"),
    ],
    work=count_and_go_back,
    found=lambda case: ("grad", "large")[: len(case.args)],
    facts=[
        Equals("grad", mean, mistakes, "`.grad`", otherwise, same=close_in_float32),
        Holds("sentences", lambda more: more <= 0,
              "the gradients are right, but several micro-batches pass through the model at once",
              "one forward takes several micro-batches, and keeps the activations of all of them"),
        Holds("backwards", lambda more: more <= 0,
              "the gradients are right, but there are {} backwards more than micro-batches",
              "a backward for each sentence, or for each token, is slow: a sum over the whole "
              "micro-batch has all of them"),
        Holds("backwards", lambda more: more >= 0,
              "the gradients are right, but there are fewer backwards than micro-batches",
              "a loss keeps the activations of its micro-batch until its backward. Each has one of "
              "its own, before the next one comes"),
        never("together", "the gradients are right, but a forward begins while the activations of "
              "{} micro-batches before are still kept",
              "a backward frees the activations of its forward: let it come before the next one"),
        never("moved", "the weights are changed",
              "a step of the optimizer comes later: asked is what `.grad` is before it"),
        never("changed", "micro_batches are changed",
              "whoever called may still need them: leave the list and its tensors as they are"),
        never("silent", "the gradients are right, but `ddp` stays silent afterwards",
              "a backward that comes later would not average any more. no_sync() ends with its "
              "block; what you switch off by yourself, you have to switch on again"),
        counts_once,
        Equals("large", mean_of_large,
               called="the sum, a weighted sum and the norm of the gradients of a large model",
               same=close_in_float32),
        Sends(one_exchange_and_a_number, "one all-reduce of all gradients and a number are",
              why_so_many_bytes),
    ],
    told="the gradient of one process with the tokens of all ranks",
    errors={
        "ZeroDivisionError": NAN,
        "division by zero": NAN,
        "Expected target size": "flatten: logits (n, vocabulary), targets (n)",
        "multi-target not supported": "flatten: logits (n, vocabulary), targets (n)",
        "has no attribute 'no_sync'": "no_sync is a method of the wrapped model, `ddp`",
        "does not require grad": "the number of tokens has no gradient; the loss has",
    },
    lost="every rank has to do as many forwards, backwards and all-reduces as the others. A "
    "micro-batch of padding alone takes part, too: its gradient is 0",
    warm=True,
    hints=(
        "Write the right gradient as one fraction. Its numerator is a sum over all ranks; what is "
        "its denominator? Which of them does each rank know by itself?",
        'Count with one all-reduce before the first backward. F.cross_entropy(…, reduction="sum") '
        "does not divide, and ignores PADDING.",
        "DDP divides the sum over the ranks by n. So each rank's loss is its sum times n, divided "
        "by the number of tokens of all ranks. And under no_sync() go all micro-batches but the "
        "last, their forward as well.",
    ),
)  # fmt: skip
