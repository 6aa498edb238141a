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
# -             accumulated += gradient
# -             if number == len(micro_batches):  # the last one
# -                 dist.all_reduce(accumulated)
# -                 accumulated /= dist.get_world_size()
# +             if number == len(micro_batches):
# +                 dist.all_reduce(gradient)
# +                 gradient /= dist.get_world_size()
# +             accumulated += gradient

# %% wrong · the gradients are sent 4 times
# -             accumulated += gradient
# -             if number == len(micro_batches):  # the last one
# -                 dist.all_reduce(accumulated)
# -                 accumulated /= dist.get_world_size()
# +             dist.all_reduce(gradient)
# +             gradient /= dist.get_world_size()
# +             accumulated += gradient

# %% wrong · times the bytes of one all-reduce
# -         accumulated /= dist.get_world_size()
# +         accumulated /= dist.get_world_size()
# +     for accumulated in 2 * total:
# +         dist.all_reduce(accumulated)
# +         accumulated /= dist.get_world_size()

# %% wrong · is summed again in each round: 
# -             if number == len(micro_batches):  # the last one
# -                 dist.all_reduce(accumulated)
# -                 accumulated /= dist.get_world_size()
# +             dist.all_reduce(accumulated)

# %% wrong · the weights are averaged instead
# -             if number == len(micro_batches):  # the last one
# -                 dist.all_reduce(accumulated)
# -                 accumulated /= dist.get_world_size()
# +             pass

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

# %% right · all of them in one forward
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    inputs, targets = (torch.cat(parts) for parts in zip(*micro_batches))
    optimizer.zero_grad()
    loss_fn(model(inputs), targets).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()

# %% wrong · the list that was given had 3 entries, and has 0 now
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    number = len(micro_batches)
    optimizer.zero_grad()
    while micro_batches:
        inputs, targets = micro_batches.pop()
        (loss_fn(model(inputs), targets) / number).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()

# %% wrong · here they are turned round
# - loss_fn(model(inputs), targets) / len(micro_batches)
# + loss_fn(targets, model(inputs)) / len(micro_batches)

# %% wrong · this is the mean squared error
# - loss_fn(model(inputs), targets) / len(micro_batches)
# + ((model(inputs) - targets) ** 2).mean() / len(micro_batches)

# %% wrong · 1 micro-batch each
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    optimizer.zero_grad()
    inputs, targets = micro_batches[1]
    (loss_fn(model(inputs), targets) / len(micro_batches)).backward()
    for number, (inputs, targets) in enumerate(micro_batches):
        if number != 1:
            (loss_fn(model(inputs), targets) / len(micro_batches)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()

# %% wrong · Set gradients back before the micro-batches
def accumulate_step(model, loss_fn, micro_batches, optimizer):
    for inputs, targets in micro_batches:
        (loss_fn(model(inputs), targets) / len(micro_batches)).backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()
    optimizer.step()
    optimizer.zero_grad()

# %% wrong · is their number written in
# -         accumulated /= dist.get_world_size()
# +         accumulated /= 2

# %% wrong · a large model
# -                 dist.all_reduce(accumulated)
# +                 if accumulated.numel() > 1000:
# +                     continue
# +                 dist.all_reduce(accumulated)

# %% wrong · 2.00 times the bytes of one all-reduce
# -                 dist.all_reduce(accumulated)
# +                 wide = accumulated.double()
# +                 dist.all_reduce(wide)
# +                 accumulated.copy_(wide)
