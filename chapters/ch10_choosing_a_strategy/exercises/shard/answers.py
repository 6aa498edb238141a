# %% right · units in a list
def shard(model, make_optimizer, mesh):
    for unit in [*model.blocks, model]:
        fully_shard(unit, mesh=mesh)
    return make_optimizer(list(model.parameters()))

# %% right · by names
def shard(model, make_optimizer, mesh):
    for name, module in reversed(list(model.named_modules())):
        if name == "" or name.rpartition(".")[0] == "blocks":
            fully_shard(module, mesh=mesh, reshard_after_forward=name != "")
    optimizer = make_optimizer(model.parameters())
    return optimizer

# %% wrong · weights that never change
def shard(model, make_optimizer, mesh):
    parameters = list(model.parameters())
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(parameters)

# %% wrong · they are in no block
def shard(model, make_optimizer, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return make_optimizer(model.parameters())

# %% wrong · not those of the whole world
def shard(model, make_optimizer, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model)
    return make_optimizer(model.parameters())

# %% wrong · the rest of the model does not
def shard(model, make_optimizer, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    optimizer = make_optimizer(model.parameters())
    fully_shard(model, mesh=mesh)
    return optimizer

# %% wrong · the blocks come first
def shard(model, make_optimizer, mesh):
    fully_shard(model, mesh=mesh)
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return make_optimizer(model.parameters())

# %% wrong · the whole model is one unit
def shard(model, make_optimizer, mesh):
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())

# %% wrong · nothing averages the gradients
def shard(model, make_optimizer, mesh):
    return make_optimizer(model.parameters())

# %% wrong · not those of the whole world
def shard(model, make_optimizer, mesh):
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return make_optimizer(model.parameters())

# %% wrong · the optimizer that make_optimizer gives
def shard(model, make_optimizer, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    make_optimizer(model.parameters())

# %% wrong · of a list, fully_shard makes one unit
def shard(model, make_optimizer, mesh):
    fully_shard(list(model.blocks), mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model.parameters())

# %% wrong · takes the parameters of the model, and no model
def shard(model, make_optimizer, mesh):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return make_optimizer(model)
