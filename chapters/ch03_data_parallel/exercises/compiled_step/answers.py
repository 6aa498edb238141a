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

# %% wrong · nothing is compiled in it
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

# %% wrong · nothing is compiled in it
# -     forward = compile_it(ddp)
# +     forward, loss_fn = ddp, compile_it(loss_fn)

# %% wrong · give it the whole model
# -     forward = compile_it(ddp)
# +     forward = ddp
# +     model.first.forward = compile_it(model.first.forward)

# %% wrong · nothing is compiled in it
# -         loss = loss_fn(forward(inputs), targets)
# +         forward(inputs)
# +         loss = loss_fn(ddp(inputs), targets)

# %% wrong · one forward is enough
# -         loss = loss_fn(forward(inputs), targets)
# +         forward(inputs)
# +         loss = loss_fn(forward(inputs), targets)

# %% wrong · wrap and compile once
# -         loss = loss_fn(forward(inputs), targets)
# +         loss = loss_fn(compile_it(ddp)(inputs), targets)

# %% wrong · wrap and compile once
# -         loss = loss_fn(forward(inputs), targets)
# +         loss = loss_fn(compile_it(DistributedDataParallel(model))(inputs), targets)

# %% wrong · the mode is the caller's
# -     forward = compile_it(ddp)
# +     forward = compile_it(ddp.eval())

# %% wrong · land in a copy
# -     forward = compile_it(ddp)
# +     ddp = DistributedDataParallel(copy.deepcopy(model))
# +     forward = compile_it(ddp)

# %% wrong · under no_sync
# -         loss = loss_fn(forward(inputs), targets)
# +         with ddp.no_sync():
# +             loss = loss_fn(forward(inputs), targets)

# %% wrong · all ranks have rank 0's gradient
# -     forward = compile_it(ddp)
# +     forward = compile_it(model)
# -         loss.backward()
# +         loss.backward()
# +         for p in model.parameters():
# +             dist.broadcast(p.grad, 0)

# %% wrong · no optimizer or average changes a weight
# -         loss.backward()
# +         loss.backward()
# +         torch.optim.SGD(model.parameters(), lr=0.1).step()

# %% wrong · exchanged more than once in a step
# -         loss.backward()
# +         loss.backward()
# +         for p in model.parameters():
# +             dist.all_reduce(p.grad)
# +             p.grad /= dist.get_world_size()

# %% wrong · exchanged more than once in a step
# -         loss.backward()
# +         loss.backward()
# +         whole = torch.cat([p.grad.flatten() for p in model.parameters()])
# +         dist.all_reduce(whole)
