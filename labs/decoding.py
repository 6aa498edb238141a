# Built from chapters/ch07_tensor_parallel/labs/decoding.py by `make build`. Write your answers here.
"""Decoding with tensor parallelism: one token after another, from a model that no rank has whole.

torchrun --nproc-per-node 2 labs/decoding.py
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from language_model import Transformer, mean_loss, standard_library
from simple_ddp import now
from tensor_parallel import parallelize, part_sizes, train
from torch import Tensor

# ---- The key-value cache -------------------------------------------------------------------


def empty_cache(model, samples=1, context=None) -> list[Tensor]:
    """Return zeros for the keys and values of each block, for as many heads as this rank has.

    context  the most tokens; as many as the model can see, if it is None
    Shapes  each (2, samples, kv_heads of this rank, context, size)
    """
    shapes, context = [], context or len(model.places.weight)
    for block in model.blocks:
        attention = block.attention
        heads = len(attention.query_key_value.weight) // attention.size // (attention.queries + 2)
        shapes.append((2, samples, heads, context, attention.size))
    like = model.places.weight
    return [like.new_zeros(shape) for shape in shapes]


def attend(attention, x, cache, before) -> Tensor:
    """Compute the attention of new tokens to themselves and all before them; update the cache.

    before  how many tokens the cache already has; unless it is 0, pass one new token at a time
    Shapes  x: (samples, new, width) -> the same shape
    Raises  ValueError if the cache has no room
    """
    q, k, v = attention.split(attention.query_key_value(x))
    until = before + x.shape[1]
    if until > cache.shape[3]:
        raise ValueError(f"the cache has room for {cache.shape[3]} tokens, and these are {until}")
    cache[0][:, :, before:until], cache[1][:, :, before:until] = k, v
    keys, values = cache[:, :, :, :until]
    mixed = F.scaled_dot_product_attention(
        q, keys, values, is_causal=before == 0, enable_gqa=attention.queries > 1
    )
    return attention.output(mixed.transpose(1, 2).flatten(2))


def logits_of_next(model, tokens, cache, before=0) -> Tensor:
    """Return this rank's logits for the next token, and cache the new tokens' keys and values.

    Shapes  tokens: (samples, new) -> (samples, this rank's tokens)
    """
    positions = torch.arange(before, before + tokens.shape[1])
    x = model.letters(tokens) + model.places(positions)
    for block, room in zip(model.blocks, cache):
        x = x + attend(block.attention, block.norm_1(x), room, before)
        x = x + block.mlp(block.norm_2(x))
    return model.output(model.norm(x[:, -1]))


def likeliest(logits: Tensor, first: int, group=None) -> Tensor:
    """Exercise 7.22. Return the token with the highest logit over all ranks.

    No rank has all logits. Of two equal logits, that of the first token counts, as in argmax.

    first   the number of the first token that this rank has a logit for
    Shapes  logits: (samples, this rank's tokens, at least one), of any floating dtype ->
            (samples,), int64, the same on every rank
    Equals  argmax(-1) of all ranks' logits
    Cost    an all-gather of two numbers per sample
    """
    ...  # your code here


@torch.no_grad()
def decode(model, beginning: str, tokens, group=None) -> str:
    """Continue `beginning` by `tokens` tokens, each the likeliest one of a split model.

    Raises  ValueError if `beginning` is empty or not ASCII, or if the model cannot see that many
            tokens
    """
    if not beginning.isascii():
        raise ValueError(f"the model knows the characters of ASCII alone, not all of {beginning!r}")
    text = torch.tensor([list(beginning.encode())])
    if not beginning or text.shape[1] + tokens > len(model.places.weight):
        raise ValueError(
            f"give from 1 to {len(model.places.weight)} tokens in all: those of the beginning, "
            "and those that are to be added"
        )
    sizes = part_sizes(sum(model.output.weight.cut_sizes), dist.get_world_size(group))
    first = sum(sizes[: dist.get_rank(group)])
    cache, new = empty_cache(model), text
    for _ in range(tokens):
        logits = logits_of_next(model, new, cache, text.shape[1] - new.shape[1])
        new = likeliest(logits, first, group).unsqueeze(1)
        text = torch.cat([text, new], dim=1)
    return bytes(text[0].tolist()).decode()


# ---- The program ----------------------------------------------------------------------------


def train_model(text, steps=150, **sizes) -> Transformer:
    """Return a briefly trained model, which is the same in every process that trains it."""
    torch.manual_seed(0)
    model = Transformer(**sizes)
    train(model, mean_loss, text, steps)
    return model


def program(state, beginning, tokens, sizes):
    """Decode with all ranks; return the text and the tokens per second."""
    model = Transformer(**sizes).to(next(iter(state.values())).dtype)
    model.load_state_dict(state)
    parallelize(model)
    decode(model, beginning, 2)  # to warm up
    began = now()
    text = decode(model, beginning, tokens)
    return text, tokens / (now() - began)


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    sizes = {"heads": 8, "kv_heads": 4}
    state = train_model(standard_library(), **sizes).double().state_dict()
    run = launch(program, state, "def ", 40, sizes, world_size=2)
    if run.rank == 0:
        text, speed = run.values[0]
        print(text)
        print(f"{run.world_size} ranks: {speed:.0f} tokens per second")


if __name__ == "__main__":
    main()
