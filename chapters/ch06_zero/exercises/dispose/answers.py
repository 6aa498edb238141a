# %% right · a new tensor without elements
# -         p.data = unit.shard.data[:0]  # without elements: a use by mistake is an error
# +         p.data = p.new_empty(0)

# %% right · first the memory, with an empty part of flat
def dispose(unit):
    unit.flat.untyped_storage().resize_(0)
    for p in unit.parameters:
        p.data = unit.flat[:0]

# %% right · first the memory, then empty parts of themselves
def dispose(unit):
    unit.flat.untyped_storage().resize_(0)
    for p in unit.parameters:
        p.data = p.data.view(-1)[:0]

# %% wrong · and it looks as before:
def dispose(unit):
    unit.flat.untyped_storage().resize_(0)

# %% wrong · nothing is freed
def dispose(unit):
    for p in unit.parameters:
        p.data.view(-1)[:0]

# %% wrong · flat tensor itself is to stay
# -     unit.flat.untyped_storage().resize_(0)
# +     unit.flat = None

# %% wrong · flat stays the tensor that it is
# -     unit.flat.untyped_storage().resize_(0)
# +     unit.flat.data = torch.empty_like(unit.shard)[:0]

# %% wrong · resize_ of a tensor gives it another shape
# -     unit.flat.untyped_storage().resize_(0)
# +     unit.flat.resize_(0)

# %% wrong · resizing or cutting what p.data returns
# -         p.data = unit.shard.data[:0]  # without elements: a use by mistake is an error
# +         p.data.resize_(0)

# %% wrong · A parameter keeps its dtype
# -         p.data = unit.shard.data[:0]  # without elements: a use by mistake is an error
# +         p.data = torch.empty(0)

# %% wrong · the shard has to stay
# -     unit.flat.untyped_storage().resize_(0)
# +     unit.flat.untyped_storage().resize_(0)
# +     unit.shard.untyped_storage().resize_(0)

# %% wrong · with their hooks
def dispose(unit):
    unit.parameters = [nn.Parameter(p.data[:0] if p.dim() else p.data) for p in unit.parameters]
    unit.flat.untyped_storage().resize_(0)

# %% wrong · no dimension to cut
# -         p.data = unit.shard.data[:0]  # without elements: a use by mistake is an error
# +         p.data = p.data[:0]

# %% wrong · a parameter cannot be resized
# -         p.data = unit.shard.data[:0]  # without elements: a use by mistake is an error
# +         p.resize_(0)

# %% wrong · a parameter cannot be without
# -         p.data = unit.shard.data[:0]  # without elements: a use by mistake is an error
# +         p.data = None

# %% wrong · another `.data` does not
def dispose(unit):
    with torch.no_grad():
        for p in unit.parameters:
            p.set_(p.new_empty(0))
    unit.flat.untyped_storage().resize_(0)

# %% wrong · the optimizer's step is still to come
# -     for p in unit.parameters:
# +     for p in [*unit.parameters, unit.shard]:
# +         p.grad = None
# +     for p in unit.parameters:

# %% wrong · a storage lives as long as any view into it
# -     unit.flat.untyped_storage().resize_(0)

# %% wrong · a copy is kept elsewhere
# -     for p in unit.parameters:
# +     unit.backup = unit.flat.clone()
# +     for p in unit.parameters:

# %% wrong · nothing has to travel
# -     for p in unit.parameters:
# +     dist.all_reduce(unit.flat)
# +     for p in unit.parameters:

# %% wrong · the empty one, (), is that of a single number
def dispose(unit):
    for p in unit.parameters:
        p.data = p.data.new_empty(())
    unit.flat.untyped_storage().resize_(0)
