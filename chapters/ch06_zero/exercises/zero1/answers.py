# %% right · the backend's all-gather, unit by unit
# -             all_gather_ring(unit.chunks, unit.group)
# +             dist.all_gather(list(unit.chunks), unit.chunks[unit.rank].clone(), group=unit.group)

# %% right · from the last to the first, through all_gather_into_tensor
# -         for unit in self.units.values():
# -             reduce_gradients(unit)
# +         for unit in reversed(self.units.values()):
# +             reduce_gradients(unit)
# -             all_gather_ring(unit.chunks, unit.group)
# +             dist.all_gather_into_tensor(unit.flat, unit.shard.data.clone(), group=unit.group)
# +             show_parameters(unit)

# %% right · the optimizer frees the gradients
# -         self.optimizer.step()
# +         self.optimizer.step()
# +         self.optimizer.zero_grad()
# -             unit.shard.grad = None

# %% wrong · gather the chunks of each unit after
# -             all_gather_ring(unit.chunks, unit.group)
# +             pass

# %% wrong · after the optimizer's step, when they are new
# -         self.optimizer.step()
# +         for unit in self.units.values():
# +             all_gather_ring(unit.chunks, unit.group)
# +         self.optimizer.step()
# -             unit.shard.grad = None
# -             all_gather_ring(unit.chunks, unit.group)
# +             unit.shard.grad = None

# %% wrong · those of the next step would be added to them
# -             unit.shard.grad = None

# %% wrong · None takes none
# -             unit.shard.grad = None
# +             unit.shard.grad.zero_()

# %% wrong · divided by the number of ranks once more
# -             reduce_gradients(unit)
# +             reduce_gradients(unit)
# +             unit.shard.grad /= unit.n

# %% wrong · the parameters of all ranks are averaged
# -             all_gather_ring(unit.chunks, unit.group)
# +             dist.all_reduce(unit.flat, group=unit.group)
# +             unit.flat /= unit.n

# %% wrong · the optimizer has made no step
# -         self.optimizer.step()

# %% wrong · the optimizer has found no gradients
# -         self.optimizer.step()
# +         self.optimizer.zero_grad()
# +         self.optimizer.step()

# %% wrong · the parameters are to stay views into unit.flat
# -             all_gather_ring(unit.chunks, unit.group)
# +             all_gather_ring(unit.chunks, unit.group)
# +             for p in unit.parameters:
# +                 p.data = p.data.clone()

# %% wrong · more than one step in a step()
# -         self.update()
# +         self.optimizer.step()
# +         self.update()

# %% wrong · update() by itself is not
# -         self.update()
# +         self.optimizer.step()
# +         self.optimizer.zero_grad()
# +         self.update()
# -         """Update the model with the gradients of the shards, and free them. (Stage 2, too.)"""
# -         self.optimizer.step()

# %% wrong · each rank has it for its own shards
class Zero1(Zero1):
    def __init__(self, model, make_optimizer, modules=(), group=None, alone=False):
        super().__init__(model, make_optimizer, modules, group, alone)
        self.group, self.parameters = group, [p for p in model.parameters() if p.requires_grad]
        self.of_all = make_optimizer(self.parameters)

    def step(self):
        for p in self.parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=self.group)
            p.grad /= dist.get_world_size(self.group)
        self.of_all.step()
        self.of_all.zero_grad()

# %% wrong · Nobody needs the state of others
# -             all_gather_ring(unit.chunks, unit.group)
# +             all_gather_ring(unit.chunks, unit.group)
# +             state = self.optimizer.state[unit.shard]
# +             for x in (state.get("exp_avg"), state.get("exp_avg_sq")):
# +                 parts = [torch.empty_like(unit.shard) for _ in range(unit.n)]
# +                 dist.all_gather(parts, unit.shard.detach() if x is None else x, unit.group)

# %% wrong · update() reduces as well
# -             reduce_gradients(unit)
# +             pass
# -         self.optimizer.step()
# +         for unit in self.units.values():
# +             reduce_gradients(unit)
# +         self.optimizer.step()

# %% wrong · stage 1 sends nothing in a backward
class Zero1(Zero2):
    pass

# %% wrong · a unit of which it has no gradient, too
# -             reduce_gradients(unit)
# +             if any(p.grad is not None for p in unit.parameters):
# +                 reduce_gradients(unit)

# %% wrong · hand `group` to every call
# -             all_gather_ring(unit.chunks, unit.group)
# +             all_gather_ring(unit.chunks)

# %% wrong · something travels twice
# -             reduce_gradients(unit)
# +             reduce_gradients(unit)
# +             parts = [torch.empty_like(unit.shard) for _ in range(unit.n)]
# +             dist.all_gather(parts, unit.shard.grad, unit.group)
