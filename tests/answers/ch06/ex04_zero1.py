# %% right · the backend's all-gather, unit by unit
class Zero1(Zero1):
    def step(self):
        list(map(reduce_gradients, self.units.values()))
        self.update()

    def update(self):
        self.optimizer.step()
        for unit in self.units.values():
            unit.shard.grad = None
            dist.all_gather(list(unit.chunks), unit.chunks[unit.rank].clone(), group=unit.group)

# %% right · from the last to the first, through all_gather_into_tensor
class Zero1(Zero1):
    def step(self):
        for unit in reversed(self.units.values()):
            reduce_gradients(unit)
        self.update()

    @torch.no_grad()
    def update(self):
        self.optimizer.step()
        for unit in self.units.values():
            dist.all_gather_into_tensor(unit.flat, unit.shard.data.clone(), group=unit.group)
            show_parameters(unit)
        self.optimizer.zero_grad(set_to_none=True)

# %% wrong · gather the chunks of each unit after
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()

# %% wrong · gathered before the optimizer's step
class Zero1(Zero1):
    def update(self):
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)
        self.optimizer.step()
        self.optimizer.zero_grad()

# %% wrong · those of the next step would be added to them
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

# %% wrong · None takes none
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

# %% wrong · asked is their mean
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
            unit.shard.grad *= unit.n
        self.update()

# %% wrong · divided by n twice
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
            unit.shard.grad /= unit.n
        self.update()

# %% wrong · its owner's own gradient
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            flat = flatten_padded(gradients_of(unit), unit.n)
            unit.shard.grad = flat.chunk(unit.n)[unit.rank].clone()
            for p in unit.parameters:
                p.grad = None
        self.update()

# %% wrong · the optimizer has made no step
class Zero1(Zero1):
    def update(self):
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

# %% wrong · the optimizer has found no gradients
class Zero1(Zero1):
    def update(self):
        self.optimizer.zero_grad()
        self.optimizer.step()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

# %% wrong · the parameters are to stay views into unit.flat
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            parts = [torch.empty_like(unit.shard) for _ in range(unit.n)]
            dist.all_gather(parts, unit.shard.detach(), group=unit.group)
            flat = torch.cat(parts)[: sum(unit.sizes)]
            for p, part, shape in zip(unit.parameters, flat.split(unit.sizes), unit.shapes):
                p.data = part.view(shape)

# %% wrong · more than one step in a step()
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
        self.optimizer.step()
        self.update()

# %% wrong · update() by itself is not
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            reduce_gradients(unit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

    def update(self):
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

# %% wrong · each rank has it for its own shards
class Zero1(Zero1):
    def __init__(self, model, make_optimizer, modules=(), group=None, alone=False):
        super().__init__(model, make_optimizer, modules, group, alone)
        self.parameters = [p for unit in self.units.values() for p in unit.parameters]
        self.optimizer = make_optimizer(self.parameters)

    def step(self):
        for p in self.parameters:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
            dist.all_reduce(p.grad, group=next(iter(self.units.values())).group)
            p.grad /= next(iter(self.units.values())).n
        self.optimizer.step()
        self.optimizer.zero_grad()

    def update(self):
        for unit in self.units.values():
            for p, part in zip(unit.parameters, whole_of(unit).split(unit.sizes)):
                p.grad = part.view(p.shape)
            unit.shard.grad = None
        self.optimizer.step()
        self.optimizer.zero_grad()


def whole_of(unit):
    parts = [torch.empty_like(unit.shard) for _ in range(unit.n)]
    dist.all_gather(parts, unit.shard.grad, group=unit.group)
    return torch.cat(parts)[: sum(unit.sizes)]

# %% wrong · update() reduces as well
class Zero1(Zero1):
    def step(self):
        self.update()

    def update(self):
        for unit in self.units.values():
            reduce_gradients(unit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks, unit.group)

# %% wrong · stage 1 sends nothing in a backward
class Zero1(Zero2):
    pass

# %% wrong · a unit of which it has no gradient, too
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            if any(p.grad is not None for p in unit.parameters):
                reduce_gradients(unit)
        self.update()

# %% wrong · hand `group` to every call
class Zero1(Zero1):
    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        for unit in self.units.values():
            all_gather_ring(unit.chunks)

# %% wrong · something travels twice
class Zero1(Zero1):
    def step(self):
        for unit in self.units.values():
            for p in unit.parameters:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                dist.all_reduce(p.grad, group=unit.group)
                p.grad /= unit.n
            flat = flatten_padded(gradients_of(unit), unit.n)
            unit.shard.grad = flat.chunk(unit.n)[unit.rank].clone()
            for p in unit.parameters:
                p.grad = None
        self.update()
