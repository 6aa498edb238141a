# %% right · in one
def sum_partial_gradients(model, group=None):
    grads = [p.grad for p in model.parameters()
             if p.grad is not None and not hasattr(p, "cut_dim")]
    flat = torch.cat([g.flatten() for g in grads])
    dist.all_reduce(flat, group=group)
    for g, total in zip(grads, flat.split([g.numel() for g in grads])):
        g.copy_(total.view_as(g))

# %% right · all at once
def sum_partial_gradients(model, group=None):
    requests = []
    for p in model.parameters():
        if p.grad is None or getattr(p, "cut_dim", None) is not None:
            continue
        p.grad = p.grad.clone()
        requests.append(dist.all_reduce(p.grad, group=group, async_op=True))
    for request in requests:
        request.wait()

# %% wrong · None stays None
# -         if p.grad is not None and not hasattr(p, "cut_dim"):
# +         if p.grad is None and p.requires_grad and not hasattr(p, "cut_dim"):
# +             p.grad = torch.zeros_like(p)
# +         if p.grad is not None and not hasattr(p, "cut_dim"):

# %% wrong · 0 counts as False
# -         if p.grad is not None and not hasattr(p, "cut_dim"):
# +         if p.grad is not None and not getattr(p, "cut_dim", None):

# %% wrong · pass over them
# -         if p.grad is not None and not hasattr(p, "cut_dim"):
# +         if not hasattr(p, "cut_dim"):

# %% wrong · not added up are places.weight, second.bias
# -     for p in model.parameters():
# -         if p.grad is not None and not hasattr(p, "cut_dim"):
# +     for name, p in model.named_parameters():
# +         if "norm" in name or name == "scale":

# %% wrong · wrong are letters.weight: the cut ones are to stay as they are
# -             dist.all_reduce(p.grad, group=group)
# +             dist.all_reduce(p.grad, group=group)
# +     model.letters.weight.grad *= 2

# %% wrong · flatten or reshape copies where it has to
# -             dist.all_reduce(p.grad, group=group)
# +             dist.all_reduce(p.grad.view(-1), group=group)

# %% wrong · rank 0 alone has the sums
# -             dist.all_reduce(p.grad, group=group)
# +             dist.reduce(p.grad, group_dst=0, group=group)

# %% wrong · the sum belongs in p.grad
# -             dist.all_reduce(p.grad, group=group)
# +             p.grad = dist.all_reduce(p.grad, group=group)

# %% wrong · gradients of cut parameters need not travel
# -         if p.grad is not None and not hasattr(p, "cut_dim"):
# -             dist.all_reduce(p.grad, group=group)
# +         if p.grad is not None:
# +             total = p.grad.clone()
# +             dist.all_reduce(total, group=group)
# +             p.grad = p.grad if hasattr(p, "cut_dim") else total

# %% wrong · hand `group` to every call
# -             dist.all_reduce(p.grad, group=group)
# +             dist.all_reduce(p.grad)

# %% wrong · with async_op=True a collective returns at once
# -             dist.all_reduce(p.grad, group=group)
# +             dist.all_reduce(p.grad, group=group, async_op=True)
