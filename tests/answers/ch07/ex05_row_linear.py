# %% right · a product, and a bias of its own
class RowLinear(nn.Module):
    def __init__(self, linear, group=None, unit=1, leave=leave):
        super().__init__()
        self.group, self.leave = group, leave
        self.weight = part_of(linear.weight, -1 % 2, group, unit)
        bias = linear.bias
        if bias is not None:
            bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
        self.register_parameter("bias", bias)

    def forward(self, x):
        y = self.leave(x @ self.weight.t(), self.group)
        return y + (0 if self.bias is None else self.bias)

# %% right · the bias added by a function
class RowLinear(nn.Module):
    def __init__(self, linear, group=None, unit=1, leave=leave):
        super().__init__()
        self.weight, self.bias = part_of(linear.weight, 1, group, unit), linear.bias
        self.leave = lambda y: leave(y, group)

    def forward(self, x):
        total = self.leave(torch.einsum("...i,oi->...o", x, self.weight))
        return total if self.bias is None else torch.add(total, self.bias)

# %% wrong · so it is there n times
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias
# +         return self.leave(F.linear(x, self.weight, self.bias), self.group)

# %% wrong · each rank 1/n of its gradient
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias
# +         n = dist.get_world_size(self.group)
# +         bias = None if self.bias is None else self.bias / n
# +         return self.leave(F.linear(x, self.weight, bias), self.group)

# %% wrong · only one rank has added the bias
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias
# +         bias = None if dist.get_rank(self.group) else self.bias
# +         return self.leave(F.linear(x, self.weight, bias), self.group)

# %% wrong · a row layer's bias is whole
# -         self.weight, self.bias = part_of(linear.weight, 1, group, unit), linear.bias
# +         self.weight, self.bias = (part_of(p, p.dim() - 1, group) for p in linear.parameters())

# %% wrong · each rank has its own summand still
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias
# +         return F.linear(x, self.weight, self.bias)

# %% wrong · gets this rank's inputs already
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias
# +         x = cut(x, -1, self.group)
# +         return self.leave(F.linear(x, self.weight), self.group) + self.bias

# %% wrong · n times too much
# -         y = self.leave(F.linear(x, self.weight), self.group)
# +         y = self.leave(enter(F.linear(x, self.weight), self.group), self.group)

# %% wrong · a row layer needs no f
# -         y = self.leave(F.linear(x, self.weight), self.group)
# +         y = self.leave(F.linear(enter(x, self.group), self.weight), self.group)

# %% wrong · autograd does not know dist.all_reduce
# -         y = self.leave(F.linear(x, self.weight), self.group)
# +         y = summed(F.linear(x, self.weight), self.group)

# %% wrong · linear.bias is None then
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias
# +         return self.leave(F.linear(x, self.weight), self.group) + self.bias

# %% wrong · A's rows its columns, dim 1
# -         self.weight, self.bias = part_of(linear.weight, 1, group, unit), linear.bias
# +         self.weight, self.bias = part_of(linear.weight, 0, group, unit), linear.bias
