# %% right · dims from behind
# -         self.weight = part_of(linear.weight, 0, group, together)
# -         self.bias = None if linear.bias is None else part_of(linear.bias, 0, group, together)
# +         self.weight = part_of(linear.weight, -2, group, together)
# +         self.bias = None if linear.bias is None else part_of(linear.bias, -1, group, together)

# %% right · a linear layer itself
class ColumnLinear(nn.Linear):
    def __init__(self, linear, group=None, together=1, enter=enter):
        weight = part_of(linear.weight, 0, group, together)
        super().__init__(weight.shape[1], len(weight), linear.bias is not None, device="meta")
        self.group, self.enter, self.weight = group, enter, weight
        if linear.bias is not None:
            self.bias = part_of(linear.bias, 0, group, together)

    def forward(self, x):
        return super().forward(self.enter(x, self.group))

# %% wrong · columns are its rows, dim 0
# -         self.weight = part_of(linear.weight, 0, group, together)
# -         self.bias = None if linear.bias is None else part_of(linear.bias, 0, group, together)
# +         self.weight, self.bias = part_of(linear.weight, 1, group, together), linear.bias

# %% wrong · the whole layer is kept as well
# -         self.weight = part_of(linear.weight, 0, group, together)
# +         self.linear = linear
# +         self.weight = part_of(linear.weight, 0, group, together)

# %% wrong · the caller may bring another way
# -         return F.linear(self.enter(x, self.group), self.weight, self.bias)
# +         return F.linear(enter(x, self.group), self.weight, self.bias)

# %% wrong · part_of notes how the whole was cut
# -         self.weight = part_of(linear.weight, 0, group, together)
# -         self.bias = None if linear.bias is None else part_of(linear.bias, 0, group, together)
# +         self.weight = nn.Parameter(cut(linear.weight, 0, group, together))
# +         bias = linear.bias
# +         self.bias = None if bias is None else nn.Parameter(cut(bias, 0, group, together))

# %% wrong · f stands before the columns
# -         return F.linear(self.enter(x, self.group), self.weight, self.bias)
# +         return self.enter(F.linear(x, self.weight, self.bias), self.group)

# %% wrong · no way back from the output to x
# -         return F.linear(self.enter(x, self.group), self.weight, self.bias)
# +         return F.linear(self.enter(x, self.group), self.weight, self.bias).detach()

# %% wrong · right, in a group of some ranks
# -         self.weight = part_of(linear.weight, 0, group, together)
# -         self.bias = None if linear.bias is None else part_of(linear.bias, 0, group, together)
# +         self.weight = part_of(linear.weight, 0, None, together)
# +         self.bias = None if linear.bias is None else part_of(linear.bias, 0, None, together)

# %% wrong · the whole layer is kept as well
# -         self.weight = part_of(linear.weight, 0, group, together)
# +         self.kept = [linear]
# +         self.weight = part_of(linear.weight, 0, group, together)

# %% wrong · no way that autograd knows of
# -         return F.linear(self.enter(x, self.group), self.weight, self.bias)
# +         bias = None if self.bias is None else self.bias.data
# +         return F.linear(self.enter(x, self.group), self.weight, bias)
