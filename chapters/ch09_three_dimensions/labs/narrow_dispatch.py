"""Rows that travel to the experts in 8 bits, and come back in bfloat16.

torchrun --nproc-per-node 2 labs/narrow_dispatch.py
"""

from functools import partial

import torch
import torch.distributed as dist
from expert_parallel import RemoteExperts, exchanged
from experts import ExpertLayer
from narrow_formats import E4M3, MXFP8, join_rows, largest_of, split_rows
from torch import Tensor

# ---- Rows as bytes --------------------------------------------------------------------------


class Plain:
    """Rows in a dtype of PyTorch."""

    def __init__(self, dtype):
        self.dtype = dtype

    def pack(self, rows: Tensor) -> Tensor:
        return rows.to(self.dtype).contiguous().view(torch.uint8)

    def unpack(self, packed: Tensor, width) -> Tensor:
        return packed.view(self.dtype).float()


class ScaledE4M3:
    """Rows in E4M3, with a float32 for each block of a row behind the elements.

    A block's scale is its largest magnitude in float32, divided by 448, or float32's smallest
    normal number if that is larger.

    block  numbers that share a scale; None: all of a row
    """

    def __init__(self, block=None):
        self.block = block

    def pack(self, rows):
        blocks = split_rows(rows.float(), self.block or rows.shape[-1])
        largest = blocks.abs().amax(-1, keepdim=True)
        scales = (largest / largest_of(E4M3)).clamp(min=torch.finfo(torch.float32).tiny)
        elements = join_rows(blocks / scales, rows.shape).to(E4M3)
        scales = scales.squeeze(-1).contiguous()
        return torch.cat([elements.view(torch.uint8), scales.view(torch.uint8)], dim=1)

    def unpack(self, packed, width):
        elements, scales = packed[:, :width].view(E4M3), packed[:, width:]
        scales = scales.clone(memory_format=torch.contiguous_format)  # so that float32 is aligned
        scales = scales.view(torch.float32).unsqueeze(-1)
        blocks = split_rows(elements.float(), self.block or width) * scales
        return join_rows(blocks, elements.shape)


class PackedMXFP8:
    """Rows in MXFP8, with a byte for each block of 32 behind the elements."""

    def pack(self, rows):
        if len(rows) == 0:  # MXFP8 takes no empty tensors
            return rows.new_empty(0, bytes_of_row("MXFP8", rows.shape[1]), dtype=torch.uint8)
        elements, scales = MXFP8().quantize(rows)
        return torch.cat([elements.view(torch.uint8), scales.view(torch.uint8)], dim=1)

    def unpack(self, packed, width):
        if len(packed) == 0:
            return packed.new_empty(0, width, dtype=torch.float32)
        elements, scales = packed.split([width, packed.shape[1] - width], dim=1)
        scales = scales.contiguous().view(torch.float8_e8m0fnu)
        return MXFP8().dequantize(elements.contiguous().view(E4M3), scales)


FORMATS = {
    "float32": Plain(torch.float32),
    "bfloat16": Plain(torch.bfloat16),
    "E4M3, a scale per row": ScaledE4M3(),
    "E4M3, a scale per 128": ScaledE4M3(128),
    "MXFP8": PackedMXFP8(),
}
WAYS = {name: (name, "float32" if name == "float32" else "bfloat16") for name in FORMATS}
WAYS["E4M3 both ways, per 128"] = ("E4M3, a scale per 128",) * 2


def bytes_of_row(name, width) -> int:
    """Return the bytes of a row, by the formula of its format."""
    blocks = {"E4M3, a scale per row": 4, "E4M3, a scale per 128": 4 * -(-width // 128),
              "MXFP8": -(-width // 32)}  # fmt: skip
    return {"float32": 4 * width, "bfloat16": 2 * width}.get(name, width + blocks.get(name, 0))


# ---- The layer ------------------------------------------------------------------------------


class NarrowRemoteExperts(RemoteExperts):
    """RemoteExperts whose rows travel in other formats; forward only.

    there, back  the names of the formats
    """

    def __init__(self, experts, group, there, back):
        super().__init__(experts, group)
        self.there, self.back = FORMATS[there], FORMATS[back]

    @torch.no_grad()
    def forward(self, rows, counts):
        send, receive, came = self.exchange_counts(counts)
        mine = self.exchange(rows, send, receive, self.there)
        return self.exchange(self.run_mine(mine, came), receive, send, self.back)

    def exchange(self, rows, send, receive, form) -> Tensor:
        packed = exchanged(form.pack(rows), send, receive, self.group)
        return form.unpack(packed, rows.shape[1]).to(rows.dtype)


def compare(ways=WAYS, tokens=512, width=256, k=2) -> dict[str, tuple[int, float]]:
    """Measure a forward in each way, under its name.

    Returns  for each way, the rows that this rank sends to others in a forward (there, back), and
             the error of the layer's output, as a share of the output's length
    """
    from pedagogy_lib import measure

    rank, ranks, found = dist.get_rank(), dist.get_world_size(), {}
    chance = torch.Generator().manual_seed(rank)
    x = torch.randn(tokens, width, generator=chance)
    make = partial(ExpertLayer, width, 4 * ranks, k=k, hidden=width)
    torch.manual_seed(0)
    with torch.no_grad():
        wanted = make()(x)
        for name, formats in ways.items():
            torch.manual_seed(0)
            layer = make()
            layer.mlps = NarrowRemoteExperts(layer.mlps, dist.group.WORLD, *formats)
            layer(x)  # opens connections
            dist.barrier()
            with measure(name):
                y = layer(x)
            owner = layer.experts // 4
            counts = owner.flatten().bincount(minlength=ranks)
            from_all = torch.empty_like(counts)
            dist.all_to_all_single(from_all, counts)
            crossing = (
                (counts.sum() - counts[rank]).item(),
                (from_all.sum() - from_all[rank]).item(),
            )
            found[name] = (*crossing, ((y - wanted).norm() / wanted.norm()).item())
    return found


def error_beside_outlier(name, factor, rows=512, width=256) -> float:
    """Return the error of all other numbers if a row's first one is `factor` times larger.

    It is the length of the difference as a share of these numbers' length.
    """
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(0))
    x[:, 0] *= factor
    gap = FORMATS[name].unpack(FORMATS[name].pack(x), width) - x
    return (gap[:, 1:].norm() / x[:, 1:].norm()).item()


def predict_bytes(ways, name, there, back, experts, ranks, width=256) -> int:
    """Return the bytes of a rank's rows in a forward, with the counts: 8 for each other expert."""
    to, fro = (bytes_of_row(form, width) for form in ways[name])
    return there * to + back * fro + 8 * experts * (ranks - 1) // ranks


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    run = launch(compare, world_size=2)
    if run.rank == 0:
        for name, (_, _, error) in run.values[0].items():
            print(f"{name}: {run[name].sent_bytes[0]:,} bytes sent, output off by {error:.2%}")


if __name__ == "__main__":
    main()
