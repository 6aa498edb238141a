# %% right · a loop
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     dist.all_reduce(sums[True], group=group)
# +     return (sums[True] + sums[False]) ** 0.5

# %% right · the whole ones as n-th parts, and a plain number
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     mine = sums[True] + sums[False] / dist.get_world_size(group)
# +     return summed(mine, group).sqrt().item()

# %% right · long vectors
def gradient_norm(model, group=None):
    zero = [torch.zeros(1, dtype=torch.float64)]
    flat = lambda cut: torch.cat(zero + [p.grad.flatten() for p in model.parameters()
                                         if p.grad is not None and hasattr(p, "cut_dim") == cut])
    lengths = [torch.zeros((), dtype=torch.float64) for _ in range(dist.get_world_size(group))]
    dist.all_gather(lengths, flat(True).norm(), group)
    return torch.stack([*lengths, flat(False).norm()]).norm()

# %% wrong · here it counts n times
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     return summed(sums[True] + sums[False], group).sqrt()

# %% wrong · this is what this rank alone can see
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     return (sums[True] + sums[False]).sqrt()

# %% wrong · the root is missing
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     return summed(sums[True], group) + sums[False]

# %% wrong · lengths are not added
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     return summed(sums[True].sqrt(), group) + sums[False].sqrt()

# %% wrong · there is no mean
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     return (summed(sums[True], group) / dist.get_world_size(group) + sums[False]).sqrt()

# %% wrong · a tied parameter counts twice
def gradient_norm(model, group=None):
    total = []
    for wanted in (True, False):
        grads = [p.grad for _, p in model.named_parameters(remove_duplicate=False)
                 if p.grad is not None and hasattr(p, "cut_dim") == wanted]
        total.append(sum(((g**2).sum() for g in grads), torch.zeros((), dtype=torch.float64)))
    return (summed(total[0], group) + total[1]).sqrt()

# %% wrong · the optimizer steps with it afterwards
# -             sums[hasattr(p, "cut_dim")] += p.grad.pow(2).sum()
# +             sums[hasattr(p, "cut_dim")] += p.grad.pow_(2).sum()

# %% wrong · but a latency each
def gradient_norm(model, group=None):
    total = torch.zeros((), dtype=torch.float64)
    for p in model.parameters():
        square = total * 0 if p.grad is None else p.grad.pow(2).sum()
        total = total + (summed(square, group) if hasattr(p, "cut_dim") else square)
    return total.sqrt()

# %% wrong · the others need one number alone
def gradient_norm(model, group=None):
    total = torch.zeros((), dtype=torch.float64)
    for p in model.parameters():
        gradient = torch.zeros_like(p) if p.grad is None else p.grad
        total = total + whole(p, group, gradient).pow(2).sum()
    return total.sqrt()

# %% wrong · They belong to different weights
def gradient_norm(model, group=None):
    total = torch.zeros((), dtype=torch.float64)
    for p in model.parameters():
        gradient = torch.zeros_like(p) if p.grad is None else p.grad
        total = (
            total
            + (summed(gradient, group) if hasattr(p, "cut_dim") else gradient).pow(2).sum()
        )
    return total.sqrt()

# %% wrong · that are whole are left out
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     return summed(sums[True], group).sqrt()

# %% wrong · a function without `return`
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     summed(sums[True], group)

# %% wrong · nearly right: it was rounded
# -     sums = {is_cut: next(model.parameters()).new_zeros(()) for is_cut in (True, False)}
# +     sums = {is_cut: torch.zeros(()) for is_cut in (True, False)}

# %% wrong · no parameter of this model is cut: sum() of nothing is the number 0
def gradient_norm(model, group=None):
    grads = [(p, p.grad) for p in model.parameters() if p.grad is not None]
    rest = sum(g.pow(2).sum() for p, g in grads if not hasattr(p, "cut_dim"))
    return (
        summed(sum(g.pow(2).sum() for p, g in grads if hasattr(p, "cut_dim")), group) + rest
    ).sqrt()

# %% wrong · and the root comes at the very end
def gradient_norm(model, group=None):
    grads = [(p, p.grad) for p in model.parameters() if p.grad is not None]
    rest = sum(g.pow(2).sum() for p, g in grads if not hasattr(p, "cut_dim")) ** 0.5
    mine = sum(g.pow(2).sum() for p, g in grads if hasattr(p, "cut_dim"))
    return summed(mine, group) ** 0.5 + rest

# %% wrong · this model has no gradient at all: nothing can be stacked
def gradient_norm(model, group=None):
    n = dist.get_world_size(group)
    squares = [p.grad.pow(2).sum() / (1 if hasattr(p, "cut_dim") else n)
               for p in model.parameters() if p.grad is not None]
    return summed(torch.stack(squares).sum(), group).sqrt()

# %% wrong · its `.grad` is None
def gradient_norm(model, group=None):
    cut = sum(p.grad.pow(2).sum() for p in model.parameters() if hasattr(p, "cut_dim"))
    rest = sum(p.grad.pow(2).sum() for p in model.parameters() if not hasattr(p, "cut_dim"))
    return (summed(cut, group) + rest).sqrt()

# %% wrong · with a call for each parameter they lose each other
def gradient_norm(model, group=None):
    total = torch.zeros((), dtype=torch.float64)
    for p in model.parameters():
        if p.grad is not None:
            square = p.grad.pow(2).sum()
            total = total + (summed(square, group) if hasattr(p, "cut_dim") else square)
    return total.sqrt()
