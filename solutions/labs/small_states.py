"""Adam with smaller states: bfloat16 with two ways to round, and 8 bits by blocks.

python labs/small_states.py
"""

import math

import torch
from language_model import Transformer, draw_batch, mean_loss, standard_library
from torch import Tensor
from torch.optim import Optimizer

BLOCK = 256  # numbers with a scale of their own; bitsandbytes and torchao take as many

# ---- Ways to keep a state -------------------------------------------------------------------


def round_stochastically(x: Tensor) -> Tensor:
    """Exercise 5.5. x in bfloat16, rounded up or down by chance, so that the mean is x.

    A bfloat16 is the upper half of a float32: its 16 lower bits are cut off. So x lies between two
    neighbours in bfloat16. The one that is nearer to 0 has the upper half of x. The other one is
    taken with a probability of the lower half, divided by 2**16.

    x        float32, any shape, all numbers finite; it does not change
    Returns  bfloat16, the same shape
    """
    ### BEGIN SOLUTION
    bits = x.contiguous().view(torch.int32)
    bits = bits + torch.randint(0, 1 << 16, x.shape, dtype=torch.int32, device=x.device)
    return (bits & -(1 << 16)).view(torch.float32).bfloat16()
    ### END SOLUTION


class EightBits:
    """Exercise 5.6. A tensor in 8 bits a number, by blocks.

    The numbers of x, one after another, are cut into blocks of `block`; the last one may be
    shorter. Each block has a scale: its largest magnitude, divided by 127. A number's code is the
    number divided by its block's scale, rounded to the nearest whole number: from -127 to 127.

    x           float32, any shape; it does not change
    codes       int8, (numbers of x,)
    scales      float32, (blocks,); 0 for a block of zeros, whose codes are 0, too
    restored()  float32, in the shape of x: codes times scales
    Cost        a byte for each number, and 4 for each block
    """

    def __init__(self, x: Tensor, block=BLOCK):
        self.shape, self.block = x.shape, block
        ### BEGIN SOLUTION
        flat = x.flatten()
        rows = torch.nn.functional.pad(flat, (0, -len(flat) % block)).view(-1, block)
        self.scales = rows.abs().amax(dim=1) / 127
        whole = (rows / self.scales.clamp(min=1e-45)[:, None]).round()
        self.codes = whole.flatten()[: len(flat)].to(torch.int8)
        ### END SOLUTION

    def restored(self) -> Tensor:
        ### BEGIN SOLUTION
        each = self.scales.repeat_interleave(self.block)[: len(self.codes)]
        return (self.codes * each).view(self.shape)
        ### END SOLUTION
