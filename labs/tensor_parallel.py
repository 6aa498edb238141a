# Built from chapters/ch07_tensor_parallel/labs/tensor_parallel.py by `make build`. Write your answers here.
"""Tensor parallelism: every matrix of a transformer is cut, and each rank computes with its part.

torchrun --nproc-per-node 2 labs/tensor_parallel.py
"""

from statistics import median

import torch
import torch.distributed as dist
import torch.nn.functional as F
from collectives import all_gather_ring
from language_model import CHARACTERS, Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import now
from torch import Tensor, nn

IGNORED = -100  # a target that F.cross_entropy leaves out, such as a token of padding

# ---- Parts of tensors -----------------------------------------------------------------------


def part_sizes(length, n, together=1) -> list[int]:
    """Return the lengths of n parts of a length: multiples of `together`, longer ones first.

    Raises  ValueError if `length` is no multiple of `together`, or makes fewer groups than parts
    """
    groups = torch.arange(length // together).tensor_split(n)
    if length % together or length < n * together:
        raise ValueError(f"{length} cannot be cut into {n} parts in groups of {together}")
    return [together * len(part) for part in groups]


def cut(x: Tensor, dim, group=None, together=1) -> Tensor:
    """Exercise 7.1. Return this rank's part of a tensor, cut along `dim` as part_sizes says.

    The part is contiguous and has its own memory, so that the whole tensor can be freed.

    together  how many indices stay together along `dim`: in attention, the rows of one head
    """
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    ...  # your code here


def part_of(parameter, dim, group=None, together=1) -> nn.Parameter:
    """Return this rank's part of a parameter, as a parameter that records how the whole was cut.

    copy.deepcopy of a model loses this record: cut the copy of a whole model instead.
    """
    part = nn.Parameter(cut(parameter.detach(), dim, group, together), parameter.requires_grad)
    part.cut_dim = dim
    part.cut_sizes = part_sizes(parameter.shape[dim], dist.get_world_size(group), together)
    return part


def whole(parameter, group=None, of=None) -> Tensor:
    """Return all parts of a parameter, put together, or those of a tensor `of` cut in the same way.

    of  for example the parameter's gradient, unless that is None. A tensor that is not cut is
        returned unchanged
    """
    mine = (parameter if of is None else of).detach()
    if not hasattr(parameter, "cut_dim"):
        return mine
    shapes = [list(mine.shape) for _ in parameter.cut_sizes]
    for shape, size in zip(shapes, parameter.cut_sizes):
        shape[parameter.cut_dim] = size
    parts = [mine.new_empty(shape) for shape in shapes]
    parts[dist.get_rank(group)].copy_(mine)
    all_gather_ring(parts, group)
    return torch.cat(parts, parameter.cut_dim)


# ---- Entry to the parallel region, and exit -------------------------------------------------


def summed(x: Tensor, group=None) -> Tensor:
    """Return the sum of all ranks' `x` in a new tensor. Autograd does not see it: see AllReduce.

    Cost  an all-reduce: each rank sends 2(n-1)/n * x.nbytes
    """
    total = x.clone(memory_format=torch.contiguous_format)
    dist.all_reduce(total, group=group)
    return total


def refuse_second_derivative():
    """Raise RuntimeError in a backward that is to be differentiated itself."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            "create_graph=True would make second derivatives that miss the other ranks' part: "
            "differentiate once, without it"
        )


class Copy(torch.autograd.Function):
    """Exercise 7.2. The entry to the parallel region, where all ranks have `x`.

    Forward   x unchanged, without a copy or a saved tensor; each rank then uses its part of A
    Backward  each rank has the gradient that came through its part alone; their sum is x's. The
              incoming gradient stays unchanged, as it may be part of other gradients
    total     total(x, group) returns the sum in a new tensor, as `summed` does (07g has another)
    Cost      forward nothing; backward an all-reduce of x.nbytes
    Source    Shoeybi et al. 2019, "Megatron-LM", section 3: their f
    """

    @staticmethod
    def forward(ctx, x, group=None, total=summed):
        ...  # your code here

    @staticmethod
    def backward(ctx, gradient):
        ...  # your code here


class AllReduce(torch.autograd.Function):
    """Exercise 7.3. The exit from the parallel region, with the sum of all summands.

    Forward   the sum of all ranks' x, in a new tensor; each rank's x is one summand of it
    Backward  behind the sum all ranks compute the same, so each has the sum's gradient already; and
              the derivative of a sum with respect to each summand is 1
    total     total(x, group) returns the sum in a new tensor, as `summed` does (07g has another)
    Cost      forward an all-reduce of x.nbytes; backward nothing
    Source    Shoeybi et al. 2019, "Megatron-LM", section 3: their g
    """

    @staticmethod
    def forward(ctx, x, group=None, total=summed):
        ...  # your code here

    @staticmethod
    def backward(ctx, gradient):
        refuse_second_derivative()
        ...  # your code here


def enter(x, group=None) -> Tensor:
    """Enter the parallel region: apply Copy."""
    return Copy.apply(x, group)


def leave(x, group=None) -> Tensor:
    """Leave the parallel region: apply AllReduce."""
    return AllReduce.apply(x, group)


# ---- Layers ---------------------------------------------------------------------------------


class ColumnLinear(nn.Module):
    """Exercise 7.4. The layer x A + b; each rank has some columns of A, and of b.

    nn.Linear stores A transposed, as (outputs, inputs): A's columns are its rows.

    linear  the whole layer, equal on all ranks; it may have no bias, and may be frozen
    together  how many columns stay together
    weight  and bias: this rank's parts, made by part_of; without a bias, `bias` is None
    enter   enter(x, group) is applied to the input first
    Shapes  (…, inputs), the same on every rank -> (…, this rank's outputs)
    Equals  this rank's part of linear(x); the gradient of x is that of the whole layer
    Cost    backward: an all-reduce of x
    """

    def __init__(self, linear, group=None, together=1, enter=enter):
        super().__init__()
        self.group, self.enter = group, enter
        ...  # your code here

    def forward(self, x):
        ...  # your code here


class RowLinear(nn.Module):
    """Exercise 7.5. The layer x A + b; each rank has some rows of A, and all of b.

    linear  the whole layer, equal on all ranks; it may have no bias, and may be frozen
    together  how many rows stay together
    weight  this rank's part, made by part_of
    bias    all of it, a parameter on every rank, or None
    leave   leave(x, group) sums the ranks' summands
    Shapes  (…, this rank's inputs) -> (…, outputs), the same on every rank
    Equals  linear(x) of all ranks' inputs, joined in rank order
    Cost    forward: an all-reduce of the output
    """

    def __init__(self, linear, group=None, together=1, leave=leave):
        super().__init__()
        self.group, self.leave = group, leave
        ...  # your code here

    def forward(self, x):
        ...  # your code here


def refuse_options(embedding):
    """Raise ValueError if an embedding has an option that its parts would not follow."""
    for option in ("padding_idx", "max_norm", "scale_grad_by_freq", "sparse"):
        value = getattr(embedding, option)
        if value is not None and value is not False:  # 0 is a padding_idx
            raise ValueError(f"an embedding that is cut cannot have {option}: leave it out")


def refuse_unknown(tokens, vocabulary):
    """Raise IndexError if some token is none of the vocabulary's, as PyTorch does.

    All ranks have the same tokens, so all of them raise.
    """
    if tokens.numel() and not 0 <= tokens.min() <= tokens.max() < vocabulary:
        raise IndexError(
            f"tokens are {tokens.min()} to {tokens.max()}, but a vocabulary of {vocabulary} has 0 "
            f"to {vocabulary - 1}"
        )


class VocabularyEmbedding(nn.Module):
    """Exercise 7.13. An embedding; each rank has the rows of some tokens.

    embedding  the whole embedding, equal on all ranks; without padding_idx and the like
    leave      leave(rows, group) sums the rows that each rank has, and zeros, over the ranks
    Shapes     tokens: any, int64 -> (…, width), the same on every rank
    Equals     embedding(tokens): one rank has the row of a token, all others add zeros
    Cost       forward: an all-reduce of the output
    Raises     IndexError on every rank if a token is not in the vocabulary; ValueError if the
               embedding has an option such as padding_idx
    """

    def __init__(self, embedding, group=None, leave=leave):
        super().__init__()
        refuse_options(embedding)
        self.group, self.leave = group, leave
        self.weight = part_of(embedding.weight, 0, group)
        self.first = sum(self.weight.cut_sizes[: dist.get_rank(group)])  # this rank's first token

    def forward(self, tokens):
        refuse_unknown(tokens, sum(self.weight.cut_sizes))
        ...  # your code here


def split_cross_entropy(
    logits: Tensor, targets: Tensor, group=None, vocabulary=CHARACTERS
) -> Tensor:
    """Exercise 7.14. Return the mean cross-entropy of split logits.

    A target's loss is the logarithm of the sum of exp(logit), less the target's logit. The highest
    logit of all tokens is subtracted from each of its logits first, so that no exp overflows.

    vocabulary  the number of tokens over all ranks
    Shapes   logits: (…, this rank's tokens); targets: (…), int64, the same on every rank -> a
             number, the same on every rank
    Equals   F.cross_entropy of all logits, in float32 at least; logits of 16 bits are widened, and
             targets of -100 left out, before the solution
    Cost     forward: all-reduces of at most three numbers per target; backward: nothing
    Raises   ValueError if this rank's logits are not its part of the vocabulary; IndexError on
             every rank if a target is not in the vocabulary
    """
    sizes, rank = part_sizes(vocabulary, dist.get_world_size(group)), dist.get_rank(group)
    first = sum(sizes[:rank])  # this rank's first token
    if logits.shape[-1] != sizes[rank]:
        raise ValueError(
            f"of {vocabulary} tokens, rank {rank} has {sizes[rank]}, but there are "
            f"{logits.shape[-1]} logits: say with vocabulary= how many tokens there are in all"
        )
    counts = targets != IGNORED
    if not counts.all():
        logits, targets = logits[counts], targets[counts]
    refuse_unknown(targets, vocabulary)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    ...  # your code here


# ---- The model ------------------------------------------------------------------------------


def parallelize(
    model: Transformer, group=None, enter=enter, leave=leave, column=ColumnLinear
) -> Transformer:
    """Cut a model in place and return it. Its logits are split: use split_cross_entropy.

    All ranks have to bring the same model, so its weights do not depend on the number of ranks.
    The matrices of attention and MLP are cut, and over the tokens the embedding and last layer.
    Layer norms, the positions' embedding, and biases behind a sum are on every rank.

    column  the class of the layers that are cut by columns
    Raises  ValueError if there are more ranks than key-value heads
    """
    for block in model.blocks:
        parallelize_attention(block.attention, group, enter, leave, column)
        parallelize_mlp(block.mlp, group, enter, leave, column)
    tied = model.output.weight is model.letters.weight
    model.letters = VocabularyEmbedding(model.letters, group, leave)
    model.output = column(model.output, group, enter=enter)
    if tied:
        model.output.weight = model.letters.weight
    return model


def parallelize_attention(attention, group=None, enter=enter, leave=leave, column=ColumnLinear):
    """Give each rank some key-value heads, with all their queries."""
    queries = attention.queries * attention.size  # rows of the queries of one key
    together = queries + 2 * attention.size
    heads, n = len(attention.query_key_value.weight) // together, dist.get_world_size(group)
    if heads < n:
        raise ValueError(
            f"{n} ranks, but {heads} key-value heads: take fewer ranks, or FewHeads of "
            "labs/replicated_heads.py, where several ranks have the same head"
        )
    attention.query_key_value = column(attention.query_key_value, group, together, enter)
    attention.output = RowLinear(attention.output, group, queries, leave)


def parallelize_mlp(mlp, group=None, enter=enter, leave=leave, column=ColumnLinear):
    """Cut the first linear layer of an nn.Sequential by columns, the second one by rows.

    In a gated MLP two columns, a gate and its factor, make one of the second layer's inputs.
    """
    first, second = (i for i, layer in enumerate(mlp) if isinstance(layer, nn.Linear))
    together = mlp[first].out_features // mlp[second].in_features
    mlp[first] = column(mlp[first], group, together, enter)
    mlp[second] = RowLinear(mlp[second], group, leave=leave)


def sum_of_squares(x) -> Tensor:
    """Return the sum of x's squares, in float32 at least: in float16, that of 300 is infinite."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return torch.linalg.vector_norm(x, dtype=dtype).square()


def need_finite(norm) -> Tensor:
    """Return the norm of all gradients; raise RuntimeError if it is infinite or nan.

    All ranks have the same norm, so all of them raise, or none.
    """
    if not norm.isfinite():
        raise RuntimeError(
            f"the norm of all gradients is {norm.item()}: clipping would make them 0 or nan. Leave "
            "out this step, on all ranks"
        )
    return norm


def gradient_norm(model, group=None) -> Tensor:
    """Exercise 7.16. Return the norm of the whole model's gradient on every rank.

    A gradient that is None counts as zeros. A parameter is cut if it has `cut_dim`. There may be no
    cut parameter, or none with a gradient, on all ranks or on some of them. Whole parameters, if
    there are any, are on all ranks, and have the same gradients there.

    Returns  one number, in float64 for float64 parameters, else in float32. It is infinite or nan
             if a gradient is so, or its square: in float32, that of 1e20 is infinite, as in torch's
             own norm (model_in_parts.py handles shared parts)
    Equals  the norm of real gradients that clip_grad_norm_ finds in one process
    Cost    an all-reduce of one number
    """
    ...  # your code here


# ---- Randomness -----------------------------------------------------------------------------


class OwnRandomness:
    """A second stream of random numbers, different on each rank.

    Outside the parallel region all ranks have to draw the same numbers; inside they must not,
    because they have different features. `with randomness:` draws from this rank's own stream, and
    the common stream continues afterwards as if nothing had been drawn.

    Dropout draws from the generator of its tensor's device: this is for the default device.

    seed    the same on the n ranks of a group; seeds of other copies of the model are n or more
            apart, because their samples need other masks
    Source  Megatron-LM, core/tensor_parallel/random.py
    """

    def __init__(self, seed, group=None):
        self.random = torch.cuda if torch.get_default_device().type == "cuda" else torch
        with torch.random.fork_rng():
            torch.manual_seed(seed + 1 + dist.get_rank(group))
            self.state = self.random.get_rng_state()
        self.outside = []  # states to restore afterwards; several if contexts are nested

    def __enter__(self):
        self.outside.append(self.random.get_rng_state())
        if len(self.outside) == 1:
            self.random.set_rng_state(self.state)

    def __exit__(self, *_):
        before = self.outside.pop()
        if not self.outside:
            self.state = self.random.get_rng_state()
            self.random.set_rng_state(before)


# ---- The program ----------------------------------------------------------------------------


def train(model, loss_of, text, steps, samples=16, complete=None) -> tuple[float, float, float]:
    """Train with Adam; return the first and the last loss, and a step's median seconds.

    complete  called with the model after each backward
    """
    optimizer, losses, times = torch.optim.Adam(model.parameters(), lr=5e-3), [], []
    for number in range(steps):
        inputs, targets = draw_batch(text, samples, number)  # all ranks read the same
        began = now()
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        if complete is not None:
            complete(model)
        optimizer.step()
        times.append(now() - began)
        losses.append(loss.item())
    return losses[0], losses[-1], median(times)


def program(text, steps=20):
    """Train a small transformer on all ranks; one more step is measured as "step"."""
    from pedagogy_lib import measure

    torch.manual_seed(0)
    model = parallelize(Transformer(heads=8))
    found = train(model, split_cross_entropy, text, steps)
    with measure("step"):
        train(model, split_cross_entropy, text, 1)
    return *found, sum(p.nbytes for p in model.parameters())


def alone(text, steps=20):
    """Train the same small transformer in one process."""
    torch.manual_seed(0)
    model = Transformer(heads=8)
    return *train(model, mean_loss, text, steps), sum(p.nbytes for p in model.parameters())


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library()
    run = launch(program, text, world_size=2)
    if run.rank != 0:
        return
    for name, found in {
        "one process": alone(text),
        f"{run.world_size} ranks": run.values[0],
    }.items():
        first, last, seconds, kept = found
        print(
            f"{name}: loss {first:.4f} to {last:.4f}, {1e3 * seconds:.0f} ms a step, "
            f"{kept / 1e3:.0f} kB of parameters on a rank"
        )
    print(f"a rank sent {run['step'].sent_bytes[0] / 1e3:.0f} kB in a step")


if __name__ == "__main__":
    main()
