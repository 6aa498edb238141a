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

# %% right · in the gradients' dtype, which is enough for float64
# -     dtype = torch.promote_types(next(model.parameters()).dtype, torch.float32)
# -     sums = {is_cut: torch.zeros((), dtype=dtype) for is_cut in (True, False)}
# +     sums = {is_cut: next(model.parameters()).new_zeros(()) for is_cut in (True, False)}
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +             sums[hasattr(p, "cut_dim")] += p.grad.pow(2).sum()

# %% wrong · the optimizer steps with it afterwards
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +             sums[hasattr(p, "cut_dim")] += p.grad.pow_(2).sum()

# %% wrong · but a latency each
# -         if p.grad is not None:
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +         square = sums[True] * 0 if p.grad is None else p.grad.pow(2).sum()
# +         sums[False] += summed(square, group) if hasattr(p, "cut_dim") else square

# %% wrong · the others need one number alone
# -         if p.grad is not None:
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +         gradient = torch.zeros_like(p) if p.grad is None else p.grad
# +         sums[False] += whole(p, group, gradient).pow(2).sum()

# %% wrong · a function without `return`
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     summed(sums[True], group)

# %% wrong · no parameter of this model is cut: sum() of nothing is the number 0
def gradient_norm(model, group=None):
    grads = [(p, p.grad) for p in model.parameters() if p.grad is not None]
    rest = sum(g.pow(2).sum() for p, g in grads if not hasattr(p, "cut_dim"))
    return (
        summed(sum(g.pow(2).sum() for p, g in grads if hasattr(p, "cut_dim")), group) + rest
    ).sqrt()

# %% wrong · this model has no gradient at all: nothing can be stacked
def gradient_norm(model, group=None):
    n = dist.get_world_size(group)
    squares = [p.grad.pow(2).sum() / (1 if hasattr(p, "cut_dim") else n)
               for p in model.parameters() if p.grad is not None]
    return summed(torch.stack(squares).sum(), group).sqrt()

# %% wrong · its `.grad` is None
# -         if p.grad is not None:
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +         sums[hasattr(p, "cut_dim")] += p.grad.pow(2).sum()

# %% wrong · flatten or reshape copies where it has to
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +             sums[hasattr(p, "cut_dim")] += p.grad.view(-1).dot(p.grad.view(-1))

# %% wrong · with a call for each parameter they lose each other
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +             square = p.grad.pow(2).sum()
# +             sums[False] += summed(square, group) if hasattr(p, "cut_dim") else square

# %% wrong · one rank has no gradient here: what it brings differs in length
# -     sums = {is_cut: torch.zeros((), dtype=dtype) for is_cut in (True, False)}
# +     sums = {is_cut: torch.zeros(()) for is_cut in (True, False)}
# -             sums[hasattr(p, "cut_dim")] += sum_of_squares(p.grad)
# +             cut = hasattr(p, "cut_dim")
# +             sums[cut] = sums[cut] + p.grad.pow(2).sum()

# %% wrong · with async_op=True a collective returns at once
# -     return (summed(sums[True], group) + sums[False]).sqrt()
# +     dist.all_reduce(sums[True], group=group, async_op=True)
# +     return (sums[True] + sums[False]).sqrt()
