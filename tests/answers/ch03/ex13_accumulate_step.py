# %% right · backward() accumulates
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    optimizer.zero_grad()
    for inputs, targets in micro_batches:
        (loss_fn(model(inputs), targets) / len(micro_batches)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()

# %% right · one flat tensor, divided once
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters, k = list(model.parameters()), len(micro_batches)
    total = sum(
        torch.cat([g.flatten() for g in
                   torch.autograd.grad(loss_fn(model(inputs), targets), parameters)])
        for inputs, targets in micro_batches
    )
    dist.all_reduce(total)
    total /= k * dist.get_world_size()
    for p, part in zip(parameters, total.split([p.numel() for p in parameters])):
        p.grad = part.view_as(p)
    optimizer.step()

# %% wrong · differ by up to 0.012 only the last micro-batch is averaged
# -     for inputs, targets in micro_batches:
# +     for number, (inputs, targets) in enumerate(micro_batches, 1):
# -         gradients = torch.autograd.grad(loss, parameters)
# +         gradients = torch.autograd.grad(loss, parameters)
# +         if number == len(micro_batches):
# +             for gradient in gradients:
# +                 dist.all_reduce(gradient)
# +                 gradient /= dist.get_world_size()
# -     for accumulated in total:
# -         dist.all_reduce(accumulated)
# -         accumulated /= dist.get_world_size()

# %% wrong · the gradients are sent 4 times
# -         gradients = torch.autograd.grad(loss, parameters)
# +         gradients = torch.autograd.grad(loss, parameters)
# +         for gradient in gradients:
# +             dist.all_reduce(gradient)
# +             gradient /= dist.get_world_size()
# -     for accumulated in total:
# -         dist.all_reduce(accumulated)
# -         accumulated /= dist.get_world_size()

# %% wrong · times the bytes of one all-reduce
# -         accumulated /= dist.get_world_size()
# +         accumulated /= dist.get_world_size()
# +     for accumulated in 2 * total:
# +         dist.all_reduce(accumulated)
# +         accumulated /= dist.get_world_size()

# %% wrong · is summed again in each round: 
# -     for accumulated in total:
# -         dist.all_reduce(accumulated)
# -         accumulated /= dist.get_world_size()
# +         for accumulated in total:
# +             dist.all_reduce(accumulated)

# %% wrong · the weights are averaged instead
# -     for accumulated in total:
# -         dist.all_reduce(accumulated)
# -         accumulated /= dist.get_world_size()

# -     optimizer.step()
# +     optimizer.step()
# +     for p in parameters:
# +         dist.all_reduce(p.data)
# +         p.data /= dist.get_world_size()

# %% wrong · a call is one step
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    parameters = list(model.parameters())
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for inputs, targets in micro_batches:
        loss = loss_fn(model(inputs), targets) / len(micro_batches)
        gradients = torch.autograd.grad(loss, parameters)
        for accumulated, gradient in zip(total, gradients):
            accumulated += gradient
        optimizer.step()
    for accumulated in total:
        dist.all_reduce(accumulated)
        accumulated /= dist.get_world_size()
    for parameter, accumulated in zip(parameters, total):
        parameter.grad = accumulated

# %% wrong · something else changes the weights
# -     optimizer.step()
# +     optimizer.step()
# +     parameters[0].data *= 0.99
