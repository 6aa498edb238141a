# %% right · divided by n in the loss
# -         loss = loss_fn(model(inputs), targets) / len(micro_batches)
# +         loss = loss_fn(model(inputs), targets) / (len(micro_batches) * n)
# -         total += mine / n
# +         total += mine

# %% right · divided once, at the end
# -         loss = loss_fn(model(inputs), targets) / len(micro_batches)
# +         loss = loss_fn(model(inputs), targets)
# -         total += mine / n
# -     return total
# +         total += mine
# +     return total / (n * len(micro_batches))

# %% right · sent once
def accumulate_part(model, loss_fn, micro_batches):
    rank, n = dist.get_rank(), dist.get_world_size()
    for inputs, targets in micro_batches:
        loss_fn(model(inputs), targets).backward()
    flat = nn.utils.parameters_to_vector([p.grad for p in model.parameters()])
    model.zero_grad()
    flat = F.pad(flat / (n * len(micro_batches)), (0, -len(flat) % n))
    dist.all_reduce(flat)
    return flat.chunk(n)[rank]

# %% wrong · what is summed over, and what is divided by?
# -         loss = loss_fn(model(inputs), targets) / len(micro_batches)
# +         loss = loss_fn(model(inputs), targets) / (len(micro_batches) * n)

# %% wrong · the rank's own micro-batches
# -         dist.reduce_scatter(mine, chunks)
# +         mine = chunks[dist.get_rank()]

# %% wrong · an early micro-batch counts several times
# -         gradients = torch.autograd.grad(loss, parameters)
# -         flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
# +         gradients = loss.backward()
# +         flat = torch.cat([p.grad.reshape(-1) for p in parameters])

# %% wrong · torch.autograd.grad leaves nothing
# -         gradients = torch.autograd.grad(loss, parameters)
# +         gradients = model.zero_grad() or loss.backward() or [p.grad for p in parameters]

# %% wrong · a function without `return`
# -     return total

# %% wrong · pad the flat gradient
# -         chunks = list(F.pad(flat, (0, -len(flat) % n)).chunk(n))
# +         chunks = list(flat.chunk(n))

# %% wrong · backward() does the opposite
# -         flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
# +         flat = torch.cat([p.grad.reshape(-1) for p in parameters])

# %% wrong · for each of its micro-batches
# -         dist.reduce_scatter(mine, chunks)
# +         if dist.get_rank() == 0:
# +             dist.reduce_scatter(mine, chunks)

# %% wrong · a function with `yield`
# -     return total
# +     yield total
