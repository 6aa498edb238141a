# Built from chapters/ch09_three_dimensions/labs/long_contexts.py by `make build`. Write your answers here.
"""Long contexts: each rank has a piece of the text, while attention needs all of it.

torchrun --nproc-per-node 4 labs/long_contexts.py
"""

import textwrap
from functools import wraps

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, draw_batch, mean_loss, standard_library
from simple_ddp import average_gradients, now
from torch import Tensor, nn

# Queries, keys and values are (samples, heads, places, size) everywhere in this file.

# ---- Places of each rank --------------------------------------------------------------------


def contiguous_places(context: int, n: int) -> list[Tensor]:
    """Return the places in the text of each of n ranks: one contiguous piece per rank."""
    need_equal_pieces(context, n)
    return list(torch.arange(context, device="cpu").chunk(n))


def zigzag(context: int, n: int) -> list[Tensor]:
    """Exercise 9.28. Give each rank two pieces, so that all have as much to compute.

    The text is cut into 2n equal pieces. Rank r has piece r, and then piece 2n - 1 - r.

    Returns  for each rank its places, ascending: (context / n,)
    """
    need_equal_pieces(context, 2 * n)
    ...  # your code here


def need_equal_pieces(context, n):
    if context % n:
        raise ValueError(f"a context of {context} cannot be cut into {n} equal pieces")


def runs_in(places: Tensor) -> list[slice]:
    """Find the runs of consecutive places: one slice for a contiguous piece, two for zigzag."""
    ends = [*((places[1:] - places[:-1] != 1).nonzero().flatten() + 1).tolist(), len(places)]
    return [slice(a, b) for a, b in zip([0, *ends], ends)]


# ---- Attention over some of the keys --------------------------------------------------------


def wide(x: Tensor) -> Tensor:
    """Return x in float32 if its numbers have 16 bits, which are too few for scores and sums."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def without_autocast(function):
    """Return a function that computes in the dtypes of its tensors, also under autocast."""

    @wraps(function)
    def call(q, *args):
        with torch.autocast(q.device.type, enabled=False):
            return function(q, *args)

    return call


def scores_of(q: Tensor, k: Tensor, q_places: Tensor, k_places: Tensor) -> Tensor:
    """Multiply queries by keys; scores are minus infinity where a key is later than the query."""
    scores = (q @ k.transpose(-1, -2)).mul_(q.shape[-1] ** -0.5)
    if k_places[-1] > q_places[0]:
        later = k_places.to(q.device) > q_places.to(q.device).unsqueeze(-1)
        scores.masked_fill_(later, float("-inf"))
    return scores


@without_autocast
def attend(q, k, v, q_places, k_places) -> tuple[Tensor, Tensor]:
    """Compute attention over these keys alone; each query sees at least one of them.

    Returns  the output, and for each query the logarithm of the sum of exp(score): in float32 at
             least
    """
    q, k, v = wide(q), wide(k), wide(v)
    scores = scores_of(q, k, q_places, k_places)
    highest = scores.amax(-1, keepdim=True)
    scores.sub_(highest).exp_()
    total = scores.sum(-1, keepdim=True)
    return (scores @ v).div_(total), highest.add_(total.log_()).squeeze(-1)


def merge(out: Tensor, lse: Tensor, more: Tensor, more_lse: Tensor) -> tuple[Tensor, Tensor]:
    """Exercise 9.25. Merge the attention over two sets of keys into attention over both.

    lse      the logarithm of the sum of exp(score) over the keys of a set: of none, -inf. At least
             one set has keys
    Shapes   out, more: (…, size); lse, more_lse: (…) -> out and lse of both sets, in these shapes
    """
    ...  # your code here


# ---- Ring attention -------------------------------------------------------------------------


def passed_on(tensors, group=None) -> list[Tensor]:
    """Send each tensor to the next rank, and return the tensors from the previous one."""
    rank, n = dist.get_rank(group), dist.get_world_size(group)
    came = [x.new_empty(x.shape) for x in tensors]
    messages = [dist.P2POp(dist.isend, x.contiguous(), group=group, group_peer=(rank + 1) % n)
                for x in tensors]  # fmt: skip
    messages += [dist.P2POp(dist.irecv, x, group=group, group_peer=(rank - 1) % n) for x in came]
    for request in dist.batch_isend_irecv(messages):
        request.wait()
    return came


def blocks(mine: Tensor, theirs: Tensor):
    """Yield runs of places, of queries and of keys, in pairs in which the queries see some key."""
    for a in runs_in(mine):
        for b in runs_in(theirs):
            if theirs[b][0] <= mine[a][-1]:
                yield a, b


def ring_attention(q, k, v, places, group=None) -> tuple[Tensor, Tensor]:
    """Exercise 9.27. Compute causal attention: queries stay, and keys go round.

    q        in float32 or float64, in which everything is added up; k and v may have 16 bits
    places   of each rank in the group: see contiguous_places, zigzag
    Returns  what `attend` would return for this rank's queries and all keys
    Cost     n - 1 sends of keys and values to the next rank, and no more than one block's scores
    """
    ...  # your code here


@without_autocast
def add_gradients(q, gradient, lse, rest, dq, k, v, dk, dv, q_places, k_places):
    """Add one block's part to the gradients of its queries, keys and values, in place.

    gradient  of the output; rest: the sum of its product with the output, over the features
    """
    q, k, v = wide(q), wide(k), wide(v)
    p = scores_of(q, k, q_places, k_places).sub_(lse.unsqueeze(-1)).exp_()
    dv += p.transpose(-1, -2) @ gradient
    ds = (gradient @ v.transpose(-1, -2)).sub_(rest).mul_(p).mul_(q.shape[-1] ** -0.5)
    dq += ds @ k
    dk += ds.transpose(-1, -2) @ q


class RingAttention(torch.autograd.Function):
    """ring_attention with a backward: keys, values and their gradients go round once more.

    No scores are saved: the backward recomputes them, block by block.
    """

    @staticmethod
    def forward(ctx, q, k, v, places, group=None):
        out, lse = ring_attention(wide(q), k, v, places, group)
        out = out.to(q.dtype)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.places, ctx.group = places, group
        return out

    @staticmethod
    def backward(ctx, gradient):
        q, k, v, out, lse = ctx.saved_tensors
        rank, n = dist.get_rank(ctx.group), dist.get_world_size(ctx.group)
        dq, dk, dv = (torch.zeros_like(wide(x)) for x in (q, k, v))
        gradient = wide(gradient)
        rest, mine = (gradient * out).sum(-1, keepdim=True), ctx.places[rank]
        for step in range(n):
            theirs = ctx.places[(rank - step) % n]
            for a, b in blocks(mine, theirs):
                of_queries = (x[:, :, a] for x in (q, gradient, lse, rest, dq))
                of_keys = (x[:, :, b] for x in (k, v, dk, dv))
                add_gradients(*of_queries, *of_keys, mine[a], theirs[b])
            if step < n - 1:
                k, v, dk, dv = passed_on([k, v, dk, dv], ctx.group)
        if n > 1:  # gradients take one step more than keys, to return to the keys' rank
            dk, dv = passed_on([dk, dv], ctx.group)
        return *(x.to(q.dtype) for x in (dq, dk, dv)), None, None


# ---- Attention by heads (Ulysses) -----------------------------------------------------------


def swap(x: Tensor, split: int, join: int, group=None) -> Tensor:
    """Exercise 9.30. Swap the dimension along which x is cut over the ranks.

    x is cut along dimension `split` into n equal parts, and part r goes to rank r. The received
    parts are joined along dimension `join`, in rank order.

    Cost  an all-to-all: each rank sends (n - 1) / n of x
    """
    ...  # your code here


class Swap(torch.autograd.Function):
    """swap with a backward, which swaps the other way."""

    @staticmethod
    def forward(ctx, x, split, join, group=None):
        ctx.back = join, split, group
        return swap(x, split, join, group)

    @staticmethod
    def backward(ctx, gradient):
        return swap(gradient, *ctx.back), None, None, None


HEADS, PLACES = 1, 2  # dimensions


def attend_by_heads(q, k, v, places, group=None) -> Tensor:
    """Compute attention as Ulysses does: each rank has all places of some heads meanwhile.

    Raises  ValueError if the number of ranks does not divide the number of heads
    """
    n = dist.get_world_size(group)
    if q.shape[HEADS] % n:
        raise ValueError(f"{q.shape[HEADS]} heads for {n} ranks")
    order = torch.cat(places).argsort().to(q.device)  # from the order of ranks to that of places
    q, k, v = (Swap.apply(x, HEADS, PLACES, group)[:, :, order] for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return Swap.apply(out[:, :, order.argsort()], PLACES, HEADS, group)


# ---- Attention over gathered keys -----------------------------------------------------------


class AllGather(torch.autograd.Function):
    """The pieces of all ranks, joined in rank order; the backward sums each piece's gradient."""

    @staticmethod
    def forward(ctx, x, group=None):
        ctx.group = group
        pieces = [x.new_empty(x.shape) for _ in range(dist.get_world_size(group))]
        dist.all_gather(pieces, x.contiguous(), group)
        return torch.cat(pieces, PLACES)

    @staticmethod
    def backward(ctx, gradient):
        n, rank = dist.get_world_size(ctx.group), dist.get_rank(ctx.group)
        total = gradient.clone(memory_format=torch.contiguous_format)  # it is autograd's own
        dist.all_reduce(total, group=ctx.group)
        return total.chunk(n, PLACES)[rank], None


@without_autocast
def attend_to_all_keys(q, k, v, places, group=None) -> Tensor:
    """Gather all keys and values on every rank, and attend to them with all scores at once."""
    k, v = AllGather.apply(k, group), AllGather.apply(v, group)
    mine = places[dist.get_rank(group)].to(q.device)
    sees = torch.cat(places).to(q.device) <= mine.unsqueeze(-1)
    scores = wide(q) @ wide(k).transpose(-1, -2) * q.shape[-1] ** -0.5
    return (scores.masked_fill(~sees, float("-inf")).softmax(-1) @ wide(v)).to(q.dtype)


WAYS = {"ring": RingAttention.apply, "by heads": attend_by_heads, "all keys": attend_to_all_keys}


# ---- In a model -----------------------------------------------------------------------------


class PieceOfAttention(nn.Module):
    """A replacement for Attention whose input is this rank's piece of the context."""

    def __init__(self, attention, way, places, group):
        super().__init__()
        self.attention, self.way, self.places, self.group = attention, way, places, group

    def forward(self, x):
        q, k, v = self.attention.split(self.attention.query_key_value(x))
        if (queries := self.attention.queries) > 1:  # the ways take a key and a value per query
            k, v = (x.repeat_interleave(queries, HEADS) for x in (k, v))
        mixed = WAYS[self.way](q, k, v, self.places, self.group)
        return self.attention.output(mixed.transpose(1, 2).flatten(2))


class PieceOfPlaces(nn.Module):
    """A replacement for the embedding of places: it returns this rank's, whatever its input."""

    def __init__(self, embedding, places):
        super().__init__()
        self.embedding, self.places = embedding, places

    def forward(self, _):
        return self.embedding(self.places.to(self.embedding.weight.device))


def split_context(model: Transformer, way, places, group=None) -> Transformer:
    """Let a model compute this rank's piece of the context; its weights stay whole."""
    mine = places[dist.get_rank(group)]
    for block in model.blocks:
        block.attention.places = mine  # by which a Llama rotates queries and keys
        block.attention = PieceOfAttention(block.attention, way, places, group)
    if model.places is not None:
        model.places = PieceOfPlaces(model.places, mine)
    return model


def bytes_of_ring(context, n, rank, heads, size, itemsize=4, samples=1) -> tuple[int, int]:
    """Return the peak bytes of ring attention with contiguous places: of the forward, and in all.

    A tensor is the rank's piece of queries, keys or values; few is a number for each of its rows.
    Forward: three tensors, the result, lse, and the places of all ranks. A block adds its scores,
    and next to them first a mask, a bool for each pair of places, and then the block's result,
    maxima and sums. In all blocks but the first, received keys and values are held as well; rank 0
    has only one block. Backward: the output's gradient, three more gradients, and scores twice.
    This holds if a piece has at least three times `size` places: with shorter ones, the peak is at
    another moment.
    """
    piece, rows = context // n, samples * heads * context // n
    scores, tensor, few = (itemsize * rows * numbers for numbers in (piece, size, 1))
    came, places, of_block = 2 * tensor * (rank > 0), 8 * context, tensor + 2 * few
    forward = scores + 4 * tensor + few + places + max(piece * piece, came + of_block)
    backward = 2 * scores + 9 * tensor + 2 * few + places + came
    return forward, backward


def attention_alone(way, layout, context, heads=4, size=16, backward=True) -> float:
    """Measure attention on random numbers as "attention": forward and backward, or forward alone.

    Returns  the seconds of a second run, without measuring
    """
    from pedagogy_lib import measure

    places = layout(context, dist.get_world_size())
    chance = torch.Generator().manual_seed(dist.get_rank())
    shape = 1, heads, len(places[0]), size
    tensors = [torch.randn(shape, generator=chance).requires_grad_() for _ in range(3)]
    slope = torch.randn(shape, generator=chance) if backward else None

    def work():
        out = WAYS[way](*tensors, places, None)
        if backward:
            torch.autograd.grad(out, tensors, slope)

    dist.barrier()
    with measure("attention"):
        work()
    dist.barrier()
    began = now()
    work()
    dist.barrier()
    return now() - began


def try_context_parallel() -> str:
    """Try PyTorch's own context parallelism on attention here, and describe what happens."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.experimental import context_parallel

    device = torch.get_default_device().type
    mesh = init_device_mesh(device, (dist.get_world_size(),))
    q, k, v = (torch.randn(1, 4, 64, 16) for _ in range(3))
    try:
        with context_parallel(mesh, buffers=(q, k, v), buffer_seq_dims=(PLACES,) * 3):
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
    except (NotImplementedError, RuntimeError) as error:
        what = f"on {device}: {type(error).__name__}: {str(error).splitlines()[0]}"
        return textwrap.fill(what, 88)
    return f"on {device}: it runs"


def compare_with_one_process(
    way, layout, text, steps=3, samples=4, context=48, make=Transformer
) -> tuple:
    """Train on pieces of the context and in this process on all of it, in float64, and compare.

    Returns  the losses of both, and the relative difference of weights and gradients
    """
    from pedagogy_lib import relative_gap

    torch.set_default_dtype(torch.float64)
    places, models, losses = layout(context, dist.get_world_size()), [], ([], [])
    for _ in range(2):
        torch.manual_seed(0)
        models.append(make(width=32, heads=4, context=context, tied=True))
    split_context(models[0], way, places)
    adams = [torch.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3) for model in models]
    for number in range(steps):
        batch, mine = draw_batch(text, samples, number, context), places[dist.get_rank()]
        for model, adam, told, (inputs, targets) in zip(
            models, adams, losses, ([x[:, mine] for x in batch], batch)
        ):
            adam.zero_grad()
            loss = mean_loss(model(inputs), targets)
            loss.backward()
            if model is models[0]:
                average_gradients(model)
                dist.all_reduce(loss := loss.detach() / dist.get_world_size())
            adam.step()
            told.append(loss.item())
    pairs = zip(*(model.parameters() for model in models))
    both = ((f(p), f(q)) for p, q in pairs for f in (torch.detach, lambda p: p.grad))
    return *losses, max(relative_gap(a, b) for a, b in both)


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    text = standard_library(100_000)
    for way in WAYS:
        run = launch(compare_with_one_process, way, zigzag, text, world_size=4)
        if run.rank == 0:
            losses, _, gap = run.values[0]
            print(f"{way}: loss {losses[0]:.2f} to {losses[-1]:.2f}, as one process to {gap:.0e}")


if __name__ == "__main__":
    main()
