# %% right · in one
def sum_partial_gradients(model, group=None):
    grads = [p.grad for p in model.parameters()
             if p.grad is not None and not hasattr(p, "cut_dim")]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, group=group)
    for g, total in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(total.view_as(g))

# %% right · all at once, also of what has none
def sum_partial_gradients(model, group=None):
    requests = []
    for p in model.parameters():
        if not p.requires_grad or getattr(p, "cut_dim", None) is not None:
            continue
        p.grad = torch.zeros_like(p) if p.grad is None else p.grad.clone()
        requests.append(dist.all_reduce(p.grad, group=group, async_op=True))
    for request in requests:
        request.wait()

# %% wrong · a mean is not what is missing
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)
            p.grad /= dist.get_world_size(group)

# %% wrong · the gradient of it is complete
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None:
            dist.all_reduce(p.grad, group=group)

# %% wrong · 0 counts as False
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not getattr(p, "cut_dim", None):
            dist.all_reduce(p.grad, group=group)

# %% wrong · pass over them
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)

# %% wrong · not added up are places.weight, second.bias
def sum_partial_gradients(model, group=None):
    for name, p in model.named_parameters():
        if "norm" in name or name == "scale":
            dist.all_reduce(p.grad, group=group)

# %% wrong · adds up in place; a function that returns the sum
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            total = p.grad.clone()
            dist.all_reduce(total, group=group)

# %% wrong · hand `group` to every call
def sum_partial_gradients(model, group=None):
    for p in model.parameters():
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad)

# %% wrong · two modules have it
def sum_partial_gradients(model, group=None):
    for _, p in model.named_parameters(remove_duplicate=False):
        if p.grad is not None and not hasattr(p, "cut_dim"):
            dist.all_reduce(p.grad, group=group)
