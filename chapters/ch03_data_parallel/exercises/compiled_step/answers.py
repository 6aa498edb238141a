# %% right · the model is compiled, then wrapped
def compiled_step(model, compile_it, loss_fn):
    ddp = DistributedDataParallel(compile_it(model))
    def step(inputs, targets):
        for p in model.parameters():
            p.grad = None
        loss = loss_fn(ddp(inputs), targets)
        loss.backward()
        return loss.detach()
    return step

# %% right · averaged by hand, without DDP
def compiled_step(model, compile_it, loss_fn):
    forward = compile_it(model)
    def step(inputs, targets):
        model.zero_grad()
        loss = loss_fn(forward(inputs), targets)
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
        return loss.detach()
    return step

# %% wrong · DDP prepares no all-reduce
# -     forward = compile_it(ddp)
# +     forward = compile_it(model)

# %% wrong · DDP prepares no all-reduce
# -     forward = compile_it(ddp)
# +     forward = compile_it(ddp.module)

# %% wrong · Two mistakes are left
# -     forward = compile_it(ddp)
# +     forward = compile_it(model)
# -         loss = loss_fn(forward(inputs), targets)
# +         loss = loss_fn(forward(inputs), targets) / dist.get_world_size()

# %% wrong · divided by their number once more
# -         loss = loss_fn(forward(inputs), targets)
# +         loss = loss_fn(forward(inputs), targets) / dist.get_world_size()

# %% wrong · this is the sum over the ranks
# -         loss.backward()
# +         (loss * dist.get_world_size()).backward()

# %% wrong · nothing clears the old gradients
# -         ddp.zero_grad()

# %% wrong · clears gradients before its backward
# -         loss.backward()
# +         loss.backward()
# +         ddp.zero_grad()

# %% wrong · nothing is compiled
# -         loss = loss_fn(forward(inputs), targets)
# +         loss = loss_fn(ddp(inputs), targets)

# %% wrong · step() returns a part of this rank's loss
# -         return loss.detach()
# +         return loss.detach() / dist.get_world_size()

# %% wrong · step() returns the mean over the ranks
# -         return loss.detach()
# +         mean = loss.detach() / dist.get_world_size()
# +         dist.all_reduce(mean)
# +         return mean

# %% wrong · step() returns nothing
# -         return loss.detach()

# %% wrong · it keeps the activations of the step alive
# -         return loss.detach()
# +         return loss

# %% wrong · it returns step, and does not call it
# -     return step
# +     return None
