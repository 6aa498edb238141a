# %% right · a loop over rows and blocks
import math

class MXFP8(MXFP8):
    def quantize(self, x):
        rows, shape = x.float().reshape(-1, x.shape[-1]), x.shape
        elements, scales = [], []
        for row in rows:
            for piece in row.split(self.block):
                most = float(piece.abs().max())
                power = -127
                if not math.isfinite(most):
                    power = 128
                while power < 128 and most > 448 * 2.0**power:
                    power += 1
                scales.append(math.nan if power == 128 else 2.0**power)
                elements.append((piece / scales[-1]).to(torch.float8_e4m3fn).float())
        elements = torch.cat(elements).view(shape).to(torch.float8_e4m3fn)
        return elements, torch.tensor(scales).view(*shape[:-1], -1).to(torch.float8_e8m0fnu)

    def dequantize(self, elements, scales):
        each = scales.float().repeat_interleave(self.block, -1)[..., : elements.shape[-1]]
        return elements.float() * each

# %% right · the exponent from frexp
class MXFP8(MXFP8):
    def quantize(self, x):
        parts = split_rows(x.double(), self.block)
        mantissa, power = torch.frexp(parts.abs().amax(-1) / 448)
        power = torch.where(mantissa == 0.5, power - 1, power).clamp(-127, 127)
        scales = torch.where(mantissa.isfinite(), 2.0 ** power.double(), torch.nan)
        elements = (parts / scales[..., None]).clamp(-448, 448).float()
        return join_rows(elements, x.shape).to(E4M3), scales.float().to(E8M0)

# %% right · codes of the exponents
class MXFP8(MXFP8):
    def quantize(self, x):
        parts = split_rows(x.float(), self.block)
        power = torch.ceil(torch.log2(parts.double().abs().amax(-1) / 448)).clamp(min=-127)
        codes = torch.where(power.isfinite(), power + 127, 255.0).to(torch.uint8)
        scales = codes.view(E8M0)
        return join_rows(parts / scales.float()[..., None], x.shape).to(E4M3), scales

# %% right · one is the scale of zeros
# -         scales = power.clamp(min=-127).exp2().float()
# +         scales = power.clamp(min=-127).exp2().float()
# +         scales = torch.where(largest == 0, 1.0, scales)

# %% wrong · rounded down: the OCP specification
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = largest.log2().floor() - 8

# %% wrong · rounded to the nearest power of two
# -         scales = power.clamp(min=-127).exp2().float()
# +         scales = (largest / 448).clamp(min=2.0**-127).to(E8M0).float()

# %% wrong · all scales come from the largest magnitude of x
# -         largest = blocks.abs().amax(-1, keepdim=True)
# +         largest = blocks.abs().amax().expand(*blocks.shape[:-1], 1)

# %% wrong · all blocks of a row have the same scale
# -         largest = blocks.abs().amax(-1, keepdim=True)
# +         largest = blocks.abs().amax((-1, -2), keepdim=True).expand(*blocks.shape[:-1], 1)

# %% wrong · take magnitudes first
# -         largest = blocks.abs().amax(-1, keepdim=True)
# +         largest = blocks.amax(-1, keepdim=True).clamp(min=0)

# %% wrong · the largest magnitude of a block becomes at most 1
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = largest.log2().ceil()

# %% wrong · E4M3 ends at 448
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = (largest / 57344).log2().ceil()

# %% wrong · E4M3 has numbers up to 448
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = (largest / 240).log2().ceil()

# %% wrong · makes 448 of an inf
# -         blocks = split_rows(x.float(), self.block)
# +         blocks = split_rows(x.float().nan_to_num(448, 448, -448), self.block)

# %% wrong · divide each by the scale of its block first
# -         elements = join_rows(blocks / scales, x.shape)
# +         elements = join_rows(blocks.clamp(-448, 448), x.shape)

# %% wrong · are multiplied by their scales: divide
# -         elements = join_rows(blocks / scales, x.shape)
# +         elements = join_rows((blocks * scales).clamp(-448, 448), x.shape)

# %% wrong · a scale takes one byte
# -         return elements.to(E4M3), scales.squeeze(-1).to(E8M0)
# +         return elements.to(E4M3), scales.squeeze(-1)

# %% wrong · an element takes one byte
# -         return elements.to(E4M3), scales.squeeze(-1).to(E8M0)
# +         return elements.round(), scales.squeeze(-1).to(E8M0)

# %% wrong · return the elements first
# -         return elements.to(E4M3), scales.squeeze(-1).to(E8M0)
# +         return scales.squeeze(-1).to(E8M0), elements.to(E4M3)

# %% wrong · each row has its own blocks
class MXFP8(MXFP8):
    def quantize(self, x):
        elements, scales = super().quantize(x.flatten())
        return elements.view(x.shape), scales

# %% wrong · the last block of a row may be shorter
class MXFP8(MXFP8):
    def quantize(self, x):
        parts = x.float().unflatten(-1, (-1, self.block))
        scales = (parts.abs().amax(-1) / 448).log2().ceil().clamp(min=-127).exp2()
        return (parts / scales[..., None]).flatten(-2).to(E4M3), scales.to(E8M0)

# %% wrong · are not part of the result
# -         elements = join_rows(blocks / scales, x.shape)
# +         elements = (blocks / scales).flatten(-2)

# %% wrong · the scale of its block
# -         return join_rows(blocks * scales.float().unsqueeze(-1), elements.shape)
# +         return join_rows(blocks, elements.shape)

# %% wrong · are divided by their scales
# -         return join_rows(blocks * scales.float().unsqueeze(-1), elements.shape)
# +         return join_rows(blocks / scales.float().unsqueeze(-1), elements.shape)

# %% wrong · convert them with .float() first
# -         return join_rows(blocks * scales.float().unsqueeze(-1), elements.shape)
# +         return join_rows(blocks * scales.unsqueeze(-1), elements.shape)

# %% wrong · what comes back is a tensor in float32
# -         return join_rows(blocks * scales.float().unsqueeze(-1), elements.shape)
# +         return join_rows(blocks * scales.float().unsqueeze(-1), elements.shape).bfloat16()

# %% wrong · uses nothing else
LAST = {}
class MXFP8(MXFP8):
    def quantize(self, x):
        LAST["x"] = x.float()
        return super().quantize(x)
    def dequantize(self, elements, scales):
        return LAST["x"]

# %% wrong · the numbers of x stay as they are
class MXFP8(MXFP8):
    def quantize(self, x):
        kept = super().quantize(x)
        x.clamp_(-448, 448)
        return kept

# %% wrong · log2 is a whole number then
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = (largest.double() / largest_of(E4M3)).log2().floor() + 1

# %% wrong · float64 has enough digits
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = (largest / largest_of(E4M3)).log2().ceil()

# %% wrong · compute in float32
# -         blocks = split_rows(x.float(), self.block)
# +         blocks = split_rows(x, self.block)
# -         power = (largest.double() / largest_of(E4M3)).log2().ceil()  # float32 would round log2
# +         power = (largest / largest_of(E4M3)).log2().ceil()

# %% wrong · float32 and float8_e8m0fnu also have 2**-127
# -         scales = power.clamp(min=-127).exp2().float()
# +         scales = power.clamp(min=-126).exp2().float()

# %% wrong · its scale has to be larger than 0
# -         scales = power.clamp(min=-127).exp2().float()
# +         scales = power.exp2().float()

# %% wrong · which need not be 32
# -         blocks = split_rows(x.float(), self.block)
# +         blocks = split_rows(x.float(), BLOCK)

# %% wrong · the scales of the last quantize are used here
class MXFP8(MXFP8):
    def quantize(self, x):
        elements, self.scales = super().quantize(x)
        return elements, self.scales
    def dequantize(self, elements, scales):
        return super().dequantize(elements, self.scales)

# %% wrong · does not follow from the two shapes
# -         blocks = split_rows(elements.float(), self.block)
# +         blocks = split_rows(elements.float(), -(-elements.shape[-1] // scales.shape[-1]))

# %% wrong · x may have any number of dimensions
# -         blocks = split_rows(x.float(), self.block)
# +         rows, length = x.shape
# +         blocks = split_rows(x.float(), self.block)

# %% wrong · x may be permuted
# -         blocks = split_rows(x.float(), self.block)
# +         blocks = split_rows(x.view(-1, x.shape[-1]).float(), self.block)
# +         blocks = blocks.view(*x.shape[:-1], *blocks.shape[-2:])
