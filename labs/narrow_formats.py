# Built from chapters/ch05_memory/labs/narrow_formats.py by `make build`. Write your answers here.
"""Numbers of 8 and of 4 bits, and the scales that they need.

python labs/narrow_formats.py
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch import Tensor

E4M3, E5M2, E2M1 = torch.float8_e4m3fn, torch.float8_e5m2, "E2M1"
E8M0 = torch.float8_e8m0fnu  # powers of two from 2**-127 to 2**127, and nan
OF_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # and the same below 0
BLOCK = 32  # neighbours that share a scale in MXFP8

# ---- The numbers of a format ----------------------------------------------------------------


def list_numbers(dtype) -> Tensor:
    """Return all finite numbers of an 8-bit or 16-bit dtype in ascending order, as float32."""
    of_bits = torch.uint8 if dtype.itemsize == 1 else torch.int16
    limits = torch.iinfo(of_bits)
    codes = torch.arange(limits.min, limits.max + 1).to(of_bits)
    numbers = codes.view(dtype).float()
    return numbers[numbers.isfinite()].unique()


def largest_of(numbers) -> float:
    return OF_E2M1[-1] if numbers == E2M1 else torch.finfo(numbers).max


def round_to(x, numbers) -> Tensor:
    """Return x rounded to the nearest number of a format; larger ones become its largest."""
    if numbers != E2M1:
        return x.clamp(-largest_of(numbers), largest_of(numbers)).to(numbers).to(x.dtype)
    magnitude = x.abs().clamp(max=6)
    step = torch.where(magnitude < 2, 0.5, torch.where(magnitude < 4, 1.0, 2.0)).to(x.dtype)
    return (magnitude / step).round() * step * x.sign()


# ---- A scale for each block -----------------------------------------------------------------


class MXFP8:
    """Exercise 5.13. Numbers in E4M3, with a power of two as the scale of each block.

    A block is `block` neighbours along the last dimension of x; the last block of a row may be
    shorter. Its scale is the smallest power of two, from 2**-127 on, by which its largest magnitude
    can be divided without exceeding 448.

    quantize    takes x, float32 or bfloat16, at least one dimension, not empty; x stays as it is.
                Returns elements, float8_e4m3fn, the shape of x, and scales, float8_e8m0fnu, the
                shape of x with blocks in place of the last dimension. If a block has an inf or a
                nan, its scale is nan
    dequantize  takes these two; returns each element times the scale of its block, in float32
    Cost        a byte per number, and a byte per block
    """

    def __init__(self, block=BLOCK):
        self.block = block

    def quantize(self, x: Tensor) -> tuple[Tensor, Tensor]:
        ...  # your code here

    def dequantize(self, elements: Tensor, scales: Tensor) -> Tensor:
        ...  # your code here


def split_rows(x, block) -> Tensor:
    """Cut each row into blocks, after adding zeros to a row until blocks fill it.

    Shapes  (…, length) -> (…, blocks, block)
    """
    return F.pad(x, (0, -x.shape[-1] % block)).unflatten(-1, (-1, block))


def join_rows(blocks, shape) -> Tensor:
    """Undo `split_rows` for an x of this shape."""
    return blocks.flatten(-2)[..., : shape[-1]].contiguous()


# ---- Formats, with the scales that belong to them -------------------------------------------


class Format(NamedTuple):
    """A format for the numbers of a product, and the scales by which they are divided.

    numbers    a dtype of PyTorch, or E2M1, which has 4 bits
    gradients  the same for gradients
    share      the numbers that share a scale: "tensor", "row", or this many neighbours in a row
    scales     "float32"; "E8M0": a power of two, rounded up; "E4M3": times one for the tensor, in
               float32; None: numbers are not scaled
    """

    numbers: torch.dtype | str
    gradients: torch.dtype | str
    share: str | int = "tensor"
    scales: str | None = None

    def pack(self, x, is_gradient=False) -> tuple[Tensor, Tensor | None]:
        """Return what the format keeps of x: elements, and scales. A row is what is summed over.

        An element of E2M1 takes a byte here, where two could share it.
        """
        numbers = self.gradients if is_gradient else self.numbers
        return divide_by_scales(x, numbers, self.share, self.scales)

    def unpack(self, elements, scales, dtype=torch.float32) -> Tensor:
        """Return the numbers that `pack` has kept."""
        numbers = decode(elements).to(dtype)
        if scales is None:
            return numbers
        blocks = cut_blocks(numbers, self.share) * scales.to(dtype).unsqueeze(-1)
        return join_blocks(blocks, numbers.shape, self.share)

    def cast(self, x, is_gradient=False) -> Tensor:
        """Return x as it comes back."""
        return self.unpack(*self.pack(x, is_gradient), x.dtype)


FORMATS = {
    "bfloat16": Format(torch.bfloat16, torch.bfloat16),
    "E4M3, not scaled": Format(E4M3, E4M3),
    "E4M3, gradients E5M2, not scaled": Format(E4M3, E5M2),
    "E4M3, per tensor": Format(E4M3, E4M3, "tensor", "float32"),
    "E4M3, gradients E5M2, per tensor": Format(E4M3, E5M2, "tensor", "float32"),
    "E4M3, per row": Format(E4M3, E4M3, "row", "float32"),
    "MXFP8 (E4M3)": Format(E4M3, E4M3, BLOCK, "E8M0"),
    "E2M1, per tensor": Format(E2M1, E2M1, "tensor", "float32"),
    "MXFP4 (E2M1)": Format(E2M1, E2M1, BLOCK, "E8M0"),
    "NVFP4 (E2M1)": Format(E2M1, E2M1, 16, "E4M3"),
}


def divide_by_scales(x, numbers, share, scales) -> tuple[Tensor, Tensor | None]:
    """Return elements and scales, which belong to a tensor, to its rows or to blocks."""
    if scales is None:
        return encode(x, numbers), None
    if (numbers, scales) == (E4M3, "E8M0"):
        return MXFP8(share).quantize(x)
    blocks = cut_blocks(x, share)
    tiny = torch.finfo(x.dtype).tiny
    scale = blocks.abs().amax(-1, keepdim=True).clamp(min=tiny) / largest_of(numbers)
    if scales == "E8M0":
        scale = scale.double().log2().ceil().exp2().to(x.dtype)
    if scales == "E4M3":
        of_tensor = scale.max() / largest_of(E4M3)
        scale = (round_to(scale / of_tensor, E4M3) * of_tensor).clamp(min=tiny)
    return join_blocks(encode(blocks / scale, numbers), x.shape, share), scale.squeeze(-1)


def cut_blocks(x, share) -> Tensor:
    """Cut x into the blocks that share a scale: (…, blocks, numbers of a block)."""
    rows = x.reshape(1, -1) if share == "tensor" else x
    return split_rows(rows, share if isinstance(share, int) else rows.shape[-1])


def join_blocks(blocks, shape, share) -> Tensor:
    """Undo `cut_blocks` for an x of this shape."""
    rows = (1, shape.numel()) if share == "tensor" else shape
    return join_rows(blocks, rows).reshape(shape)


def encode(x, numbers) -> Tensor:
    """Return x rounded to a format's numbers, in its dtype; E2M1 as twice the number, in int8."""
    rounded = round_to(x, numbers)
    return (2 * rounded).to(torch.int8) if numbers == E2M1 else rounded.to(numbers)


def decode(elements) -> Tensor:
    return elements.float() / 2 if elements.dtype == torch.int8 else elements


def median_error(form: Format, outlier) -> float:
    """Return how far half of 32 × 128 normal numbers are off at most, with one outlier among them.

    The error is a share of each number.
    """
    x = torch.randn(32, 128, generator=torch.Generator().manual_seed(0))
    x[3, 100] = outlier
    return ((form.cast(x) - x) / x).abs().median().item()


# ---- The three products of a layer ----------------------------------------------------------


def tensors_of_layer(text, width=64, steps=15) -> tuple[Tensor, Tensor, Tensor]:
    """Return a layer's inputs, weight and gradients of its outputs after some steps of training.

    Shapes  (tokens, inputs), (outputs, inputs), (tokens, outputs)
    """
    torch.manual_seed(0)
    model, found = Transformer(width, 2), {}
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    layer = model.blocks[0].mlp[0]
    layer.register_forward_hook(lambda layer, x, y: found.update(x=x[0].detach()))
    layer.register_full_backward_hook(lambda layer, gx, gy: found.update(gradient=gy[0]))
    for step in range(steps):
        inputs, targets = draw_batch(text, 16, step)
        optimizer.zero_grad()
        mean_loss(model(inputs), targets).backward()
        optimizer.step()
    return found["x"].flatten(0, 1), layer.weight.detach(), found["gradient"].flatten(0, 1)


def errors_of(form: Format, x, weight, gradient) -> list[float]:
    """Return how far a layer's three products are off, as shares of their lengths.

    They are the output, the gradient of x and that of the weight.
    """
    found = []
    for one, other, is_gradient in (
        (x, weight, False), (gradient, weight.T, True), (gradient.T, x.T, True),
    ):  # fmt: skip
        exact = one @ other.T
        rounded = form.cast(one, is_gradient) @ form.cast(other).T
        found.append(((rounded - exact).norm() / exact.norm()).item())
    return found


def compare_formats(text, factor=1.0) -> dict[str, list[float]]:
    """Return the errors of all formats; factor: how much larger one feature of x becomes."""
    x, weight, gradient = tensors_of_layer(text)
    x[:, 5] *= factor
    return {name: errors_of(form, x, weight, gradient) for name, form in FORMATS.items()}


def main():
    from pedagogy_lib.unwritten import misses_something

    if misses_something(__file__):
        return
    for name, errors in compare_formats(standard_library(50_000)).items():
        told = ", ".join(f"{error:.1%}" for error in errors)
        print(f"{name}: output, gradient of the input and of the weight are off by {told}")


if __name__ == "__main__":
    main()
