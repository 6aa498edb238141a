# Built from chapters/ch08_pipeline_parallel/labs/slices_measured.py by `make build`.
"""Measurements of attention in slices: whether it equals attention at once, and its speed.

python labs/slices_measured.py
"""

import time

import torch
import torch.nn.functional as F
from language_model import standard_library
from sequence_slices import alone, program


def compare_two_slices(is_causal) -> tuple[bool, bool]:
    """Return whether each half of 16 tokens gets, as a slice, the same as at once."""
    from pedagogy_lib import close

    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 16, 8, dtype=torch.float64)
    at_once = F.scaled_dot_product_attention(q, k, v, is_causal=is_causal).split(8, dim=2)
    half = [x[:, :, :8] for x in (q, k, v)]
    first = F.scaled_dot_product_attention(*half, is_causal=is_causal)
    seen = torch.ones(8, 16, dtype=torch.bool).tril(8) if is_causal else None
    second = F.scaled_dot_product_attention(q[:, :, 8:], k, v, attn_mask=seen)
    return close(first, at_once[0]), close(second, at_once[1])


def call_in_float64(function, *args):
    torch.set_default_dtype(torch.float64)
    return function(*args)


def compare_slices(text, counts, ranks=2) -> list[list[str]]:
    """Return a table's rows: one sample, per count of slices in a pipeline, next to one process."""
    from pedagogy_lib import close, launch

    loss, squares = launch(call_in_float64, alone, text, ranks, world_size=1).values[0]
    rows = []
    for count in counts:
        of_ranks = launch(call_in_float64, program, count, text, world_size=ranks).values
        found = of_ranks[-1][0]
        same = close([gradients for _, gradients in of_ranks], squares)
        rows.append([str(count), f"{found:.4f}", str(close(found, loss)), str(same)])
    return rows


def attention_seconds(slices, tokens=4096, heads=4, size=32, rounds=5) -> list[float]:
    """Return the quickest seconds of each slice's attention to itself and all slices before."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, heads, tokens, size)
    length, best = tokens // slices, [float("inf")] * slices
    with torch.no_grad():
        for _ in range(rounds):
            for i in range(slices):
                so_far, part = (i + 1) * length, slice(i * length, (i + 1) * length)
                mask = torch.ones(length, so_far, dtype=torch.bool).tril(so_far - length)
                began = time.perf_counter()
                F.scaled_dot_product_attention(
                    q[:, :, part], k[:, :, :so_far], v[:, :, :so_far], attn_mask=mask
                )
                best[i] = min(best[i], time.perf_counter() - began)
    return best


def work_of_slices(lengths, width) -> list[float]:
    """Return the multiplications and additions of a block's forward, per slice of these lengths.

    With s tokens and width h, a slice has 24 s h² in the products with weights, and 4 s h per key
    so far (the mean over the slice).
    """
    work, before = [], 0
    for s in lengths:
        work.append(24 * s * width**2 + 4 * s * width * (before + s / 2))
        before += s
    return work


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for is_causal in (True, False):
        print("causal" if is_causal else "both ways", *compare_two_slices(is_causal))
    for row in compare_slices(standard_library(20_000), (1, 3, 8)):
        print("slices, loss, as at once, gradients as at once:", *row)


if __name__ == "__main__":
    main()
