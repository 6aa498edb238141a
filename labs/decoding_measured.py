# Built from chapters/ch07_tensor_parallel/labs/decoding_measured.py by `make build`.
"""Measurements of decoding with tensor parallelism: the text, and the bytes kept and sent.

torchrun --nproc-per-node 2 labs/decoding_measured.py
"""

import torch
import torch.distributed as dist
from decoding import decode, empty_cache, train_model
from language_model import Transformer, continue_text, standard_library
from tensor_parallel import parallelize

from pedagogy_lib import measure


def train_and_continue(text, steps, sizes, beginning, tokens):
    """Train a small model for some steps; return its weights and how it continues `beginning`."""
    model = train_model(text, steps, **sizes).double()
    state = {name: x.cpu() for name, x in model.state_dict().items()}
    return state, continue_text(model, beginning, tokens)


def measure_decode(state, sizes, beginning, tokens):
    """Decode with a split model; return its text and the bytes of this rank's weights and cache.

    Blocks  "decode", and "one sum": an all-reduce of one token's activation
    """
    torch.set_default_dtype(torch.float64)
    model = Transformer(**sizes)
    model.load_state_dict(state)
    parallelize(model)
    decode(model, beginning, 2)
    with measure("decode", memory=False):
        said = decode(model, beginning, tokens)
    with measure("one sum", memory=False):
        dist.all_reduce(torch.ones(sizes["width"]))
    weights = sum(p.nbytes for p in model.parameters())
    return said, weights, sum(room.nbytes for room in empty_cache(model))


def bytes_of_next(k, width, layers=2) -> float:
    """Return the bytes of tensors that one of k ranks sends for the next token, in float64."""
    sums = (2 * layers + 1) * 2 * (k - 1) / k * width * 8  # two per block, and the embedding
    return sums + (k - 1) * 16  # its best token and that token's logit, to each other rank


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    sizes = {"width": 64, "heads": 8, "kv_heads": 4}
    state, alone = train_and_continue(standard_library(), 20, sizes, "def ", 20)
    run = launch(measure_decode, state, sizes, "def ", 20, world_size=2)
    if run.rank == 0:
        print(f"the same text as one process: {run.values[0][0] == alone}")


if __name__ == "__main__":
    main()
