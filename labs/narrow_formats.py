# Built from chapters/ch05_memory/labs/narrow_formats.py by `make build`.
"""Products of numbers in 8 and in 4 bits, compared with float32.

python labs/narrow_formats.py
"""

from typing import NamedTuple

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch import Tensor

E4M3, E5M2, E2M1 = torch.float8_e4m3fn, torch.float8_e5m2, "E2M1"
OF_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # and the same below 0

# ---- Numbers and their scales ---------------------------------------------------------------


class Format(NamedTuple):
    """A format for the numbers of a product, and the scales by which they are divided.

    numbers    a dtype of PyTorch with 8 bits, or E2M1, which has 4
    gradients  the same for gradients
    block      how many neighbours have a scale in common; None: all numbers of a tensor
    scales     "float32"; "E8M0": a power of two, rounded up; "E4M3": times one for the tensor, in
               float32; None: numbers are not scaled
    """

    numbers: torch.dtype | str
    gradients: torch.dtype | str
    block: int | None
    scales: str | None

    @property
    def bits(self) -> float:
        """Return the bits per number, with its share of the block's scale."""
        of_scale = {"float32": 32}.get(self.scales, 8)
        return (4 if self.numbers == E2M1 else 8) + (of_scale / self.block if self.block else 0)


FORMATS = {
    "E4M3, not scaled": Format(E4M3, E4M3, None, None),
    "E4M3": Format(E4M3, E4M3, None, "float32"),
    "E4M3, gradients E5M2": Format(E4M3, E5M2, None, "float32"),
    "MXFP8: E4M3": Format(E4M3, E4M3, 32, "E8M0"),
    "E2M1": Format(E2M1, E2M1, None, "float32"),
    "MXFP4: E2M1": Format(E2M1, E2M1, 32, "E8M0"),
    "NVFP4: E2M1": Format(E2M1, E2M1, 16, "E4M3"),
}


def largest_of(numbers) -> float:
    return OF_E2M1[-1] if numbers == E2M1 else torch.finfo(numbers).max


def round_to(x, numbers) -> Tensor:
    """Return x, rounded to the nearest number of a format; larger ones become its largest."""
    if numbers != E2M1:
        return x.clamp(-largest_of(numbers), largest_of(numbers)).to(numbers).to(x.dtype)
    all_of_it = torch.tensor(OF_E2M1, dtype=x.dtype, device=x.device)
    between = (all_of_it[1:] + all_of_it[:-1]) / 2
    return all_of_it[torch.bucketize(x.abs(), between)] * x.sign()


def round_in_blocks(x, numbers, block, scales) -> Tensor:
    """Return x as a format keeps it. Blocks lie along the last dimension, and fill the rows."""
    if scales is None:
        return round_to(x, numbers)
    parts = x.reshape(-1, block or x.numel())
    tiny = torch.finfo(x.dtype).tiny
    scale = parts.abs().amax(-1, keepdim=True).clamp(min=tiny) / largest_of(numbers)
    if scales == "E8M0":
        scale = scale.log2().ceil().exp2()
    if scales == "E4M3":
        of_tensor = scale.max() / largest_of(E4M3)
        scale = (round_to(scale / of_tensor, E4M3) * of_tensor).clamp(min=tiny)
    return (round_to(parts / scale, numbers) * scale).view_as(x)


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

    They are the output, the gradient of x and that of the weight. Sums run along blocks.
    """
    found = []
    for one, other, of_one in ((x, weight, form.numbers), (gradient, weight.T, form.gradients),
                               (gradient.T, x.T, form.gradients)):  # fmt: skip
        exact = one @ other.T
        rounded = [
            round_in_blocks(tensor.contiguous(), numbers, form.block, form.scales)
            for tensor, numbers in ((one, of_one), (other, form.numbers))
        ]
        found.append(((rounded[0] @ rounded[1].T - exact).norm() / exact.norm()).item())
    return found


def compare_formats(text) -> dict[str, list[float]]:
    tensors = tensors_of_layer(text)
    return {name: errors_of(form, *tensors) for name, form in FORMATS.items()}


def main():
    for name, errors in compare_formats(standard_library(50_000)).items():
        told = ", ".join(f"{error:.1%}" for error in errors)
        print(f"{name}: output, gradient of the input and of the weight are off by {told}")


if __name__ == "__main__":
    main()
