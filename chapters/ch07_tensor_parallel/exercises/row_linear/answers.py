# %% right · a dim from behind, and a bias of its own
# -         self.weight, self.bias = part_of(linear.weight, 1, group, together), linear.bias
# +         self.weight = part_of(linear.weight, -1, group, together)
# +         bias = linear.bias
# +         if bias is not None:
# +             bias = nn.Parameter(bias.detach().clone(), requires_grad=bias.requires_grad)
# +         self.register_parameter("bias", bias)
# -         return y if self.bias is None else y + self.bias.to(y)  # autocast rounds y
# +         return y + (0 if self.bias is None else self.bias)

# %% right · the bias added by a function
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias.to(y)  # autocast rounds y
# +         total = self.leave(torch.einsum("...i,oi->...o", x, self.weight), self.group)
# +         return total if self.bias is None else torch.add(total, self.bias)

# %% wrong · so it is there n times
# -         y = self.leave(F.linear(x, self.weight), self.group)
# -         return y if self.bias is None else y + self.bias.to(y)  # autocast rounds y
# +         return self.leave(F.linear(x, self.weight, self.bias), self.group)

# %% wrong · only one rank has added the bias to the sum
# -         return y if self.bias is None else y + self.bias.to(y)  # autocast rounds y
# +         return y if self.bias is None or dist.get_rank(self.group) else y + self.bias

# %% wrong · gets this rank's inputs already
# -         y = self.leave(F.linear(x, self.weight), self.group)
# +         y = self.leave(F.linear(cut(x, -1, self.group), self.weight), self.group)

# %% wrong · autograd does not know dist.all_reduce
# -         y = self.leave(F.linear(x, self.weight), self.group)
# +         y = summed(F.linear(x, self.weight), self.group)

# %% wrong · linear.bias is None then
# -         return y if self.bias is None else y + self.bias.to(y)  # autocast rounds y
# +         return y + self.bias

# %% wrong · A new nn.Parameter requires a gradient unless
class RowLinear(RowLinear):
    def __init__(self, linear, group=None, together=1, leave=leave):
        super().__init__(linear, group, together, leave)
        self.bias = None if linear.bias is None else nn.Parameter(linear.bias.detach().clone())

# %% wrong · the sum of sums is n times too large
# -         y = self.leave(F.linear(x, self.weight), self.group)
# +         y = self.leave(self.leave(F.linear(x, self.weight), self.group), self.group)

# %% wrong · no way that autograd knows of
# -         return y if self.bias is None else y + self.bias.to(y)  # autocast rounds y
# +         return y if self.bias is None else y + self.bias.data

# %% wrong · the whole weight is still there
# -         self.weight, self.bias = part_of(linear.weight, 1, group, together), linear.bias
# +         self.weight, self.bias = part_of(linear.weight, 1, group, together), linear.bias
# +         self.whole = lambda: linear.weight
