# %% right · rows of a padded matrix
class EightBits(EightBits):
    def pack(self, x):
        flat = x.flatten()
        rows = torch.nn.functional.pad(flat, (0, -len(flat) % self.block)).view(-1, self.block)
        scales = rows.abs().amax(dim=1) / 127
        codes = torch.nan_to_num(rows / scales[:, None]).round().to(torch.int8)
        return codes.flatten()[: len(flat)].clone(), scales

    def unpack(self, codes, scales, shape):
        which = torch.arange(len(codes)) // self.block
        return (codes.float() * scales[which]).reshape(shape)

# %% right · a loop over the blocks
class EightBits(EightBits):
    def pack(self, x):
        codes, scales = [], []
        for block in x.reshape(-1).split(self.block):
            scale = float(block.abs().max()) / 127
            scales.append(scale)
            codes.append((block / scale).round().char() if scale else torch.zeros_like(block).char())
        return torch.cat(codes), torch.tensor(scales)

    def unpack(self, codes, scales, shape):
        parts = [c * s for c, s in zip(codes.split(self.block), scales)]
        return torch.cat(parts).view(shape)

# %% right · multiplied by the inverse
class EightBits(EightBits):
    def pack(self, x):
        blocks = x.flatten().split(self.block)
        largest = torch.stack([b.abs().amax() for b in blocks])
        inverse = torch.where(largest > 0, 127 / largest, 0.0)
        codes = torch.cat([torch.round(b * i) for b, i in zip(blocks, inverse)]).to(torch.int8)
        return codes, largest / 127

# %% wrong · all blocks have the same scale
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([x.abs().max() for block in blocks]) / 127

# %% wrong · one scale is used for the whole tensor
class EightBits(EightBits):
    def pack(self, x):
        scale = x.abs().max() / 127
        return (x.flatten() / scale).round().to(torch.int8), scale.view(1)

# %% wrong · take magnitudes first
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([block.max() for block in blocks]) / 127

# %% wrong · which an int8 does not have
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([block.abs().max() for block in blocks]) / 128

# %% wrong · the codes of an unsigned number
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([block.abs().max() for block in blocks]) / 255

# %% wrong · a scale is what a code of 1 is worth
class EightBits(EightBits):
    def pack(self, x):
        codes, scales = super().pack(x)
        return codes, scales * 127

    def unpack(self, codes, scales, shape):
        return super().unpack(codes, scales, shape) / 127

# %% wrong · converting to int8 does not round
# -         codes = (x.flatten() / each.where(each > 0, 1)).round().clamp(-127, 127)
# +         codes = x.flatten() / each.where(each > 0, 1)

# %% wrong · rounded down
# -         codes = (x.flatten() / each.where(each > 0, 1)).round().clamp(-127, 127)
# +         codes = (x.flatten() / each.where(each > 0, 1)).floor()

# %% wrong · what fills up the last block is kept
class EightBits(EightBits):
    def pack(self, x):
        flat = torch.nn.functional.pad(x.flatten(), (0, -x.numel() % self.block))
        rows = flat.view(-1, self.block)
        scales = rows.abs().amax(1) / 127
        return torch.nan_to_num(rows / scales[:, None]).round().to(torch.int8).flatten(), scales

# %% wrong · the last block may be shorter
class EightBits(EightBits):
    def pack(self, x):
        rows = x.flatten().view(-1, min(self.block, x.numel()))
        scales = rows.abs().amax(1) / 127
        return (rows / scales[:, None]).round().to(torch.int8).flatten(), scales

# %% wrong · a block of zeros has scale 0
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([block.abs().max() for block in blocks]).clamp(min=1e-8) / 127

# %% wrong · dealt out in turns
# -         return (codes * scales.repeat_interleave(self.block)[: len(codes)]).view(shape)
# +         return (codes * scales.repeat(self.block)[: len(codes)]).view(shape)

# %% wrong · each has to be multiplied by the scale
# -         return (codes * scales.repeat_interleave(self.block)[: len(codes)]).view(shape)
# +         return codes.float().view(shape)

# %% wrong · `shape` is given to `unpack`
# -         return (codes * scales.repeat_interleave(self.block)[: len(codes)]).view(shape)
# +         return codes * scales.repeat_interleave(self.block)[: len(codes)]

# %% wrong · a code takes one byte
# -         return codes.to(torch.int8), scales
# +         return codes, scales

# %% wrong · Each block of `self.block` numbers has a scale
# -         blocks = x.flatten().split(self.block)
# +         blocks = x.flatten().split(256)
# -         each = scales.repeat_interleave(self.block)[: x.numel()]
# +         each = scales.repeat_interleave(256)[: x.numel()]

# %% wrong · the order is codes, scales
# -         return codes.to(torch.int8), scales
# +         return scales, codes.to(torch.int8)

# %% wrong · each row has a scale. Blocks are pieces
class EightBits(EightBits):
    def pack(self, x):
        if x.dim() < 2:
            return super().pack(x)
        scales = x.abs().amax(1) / 127
        return (x / scales[:, None]).round().to(torch.int8).flatten(), scales

# %% wrong · what comes back is float32
# -         return (codes * scales.repeat_interleave(self.block)[: len(codes)]).view(shape)
# +         return (codes.double() * scales.repeat_interleave(self.block)[: len(codes)]).view(shape)

# %% right · a maximum for each number's block
class EightBits(EightBits):
    def pack(self, x):
        f = x.reshape(-1)
        idx = torch.arange(f.numel()) // self.block
        scales = torch.zeros(int(idx[-1]) + 1).scatter_reduce(0, idx, f.abs(), "amax") / 127
        return (f / scales.clamp(min=1e-38)[idx]).round().clamp(-127, 127).char(), scales
    def unpack(self, codes, scales, shape):
        return (codes.float() * scales[torch.arange(len(codes)) // self.block]).reshape(shape)

# %% right · divided in float64
class EightBits(EightBits):
    def pack(self, x):
        f = x.flatten().double()
        s = torch.stack([b.abs().max() / 127 for b in f.split(self.block)])
        e = s.repeat_interleave(self.block)[: f.numel()]
        return torch.nan_to_num((f / e).round()).to(torch.int8), s.float()

# %% wrong · what an int8 makes of that depends on the CPU
# -         codes = (x.flatten() / each.where(each > 0, 1)).round().clamp(-127, 127)
# +         codes = (x.flatten() / each).round()

# %% wrong · largest minus smallest is for codes
class EightBits(EightBits):
    def pack(self, x):
        bl = x.flatten().split(self.block)
        s = torch.stack([(b.max() - b.min()) / 255 for b in bl])
        e = s.repeat_interleave(self.block)[: x.numel()]
        return (x.flatten() / e.where(e > 0, 1)).round().to(torch.int8), s

# %% wrong · it is not the number of blocks
# -         blocks = x.flatten().split(self.block)
# +         blocks = x.flatten().chunk(self.block)

# %% wrong · The scale itself stays 0
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales[scales == 0] = 1

# %% wrong · these are the numbers of x: unpack
LAST = {}
class EightBits(EightBits):
    def pack(self, x):
        LAST["x"] = x.clone()
        return super().pack(x)
    def unpack(self, codes, scales, shape):
        return LAST["x"].view(shape)

# %% wrong · rounded away from 0
# -         codes = (x.flatten() / each.where(each > 0, 1)).round().clamp(-127, 127)
# +         q = x.flatten() / each.where(each > 0, 1); codes = q.sign() * q.abs().ceil()

# %% wrong · from the mean magnitude
# -         scales = torch.stack([block.abs().max() for block in blocks]) / 127
# +         scales = torch.stack([block.abs().mean() for block in blocks]) / 127
