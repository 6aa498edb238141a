# %% right · a softmax over the two sets
def merge(out, lse, more, more_lse):
    both = torch.stack([lse, more_lse])
    a, b = both.softmax(0).unsqueeze(-1)
    return a * out + b * more, both.logsumexp(0)

# %% right · with the larger one taken off
def merge(out, lse, more, more_lse):
    highest = torch.maximum(lse, more_lse)
    a, b = (lse - highest).exp(), (more_lse - highest).exp()
    total = a + b
    y = (a.unsqueeze(-1) * out + b.unsqueeze(-1) * more) / total.unsqueeze(-1)
    return y, highest + total.log()

# %% wrong · both sets count the same here
# -     return a * out + b * more, both
# +     return (out + more) / 2, both

# %% wrong · weigh them
# -     return a * out + b * more, both
# +     return out + more, both

# %% wrong · exp of a large number is infinite
def merge(out, lse, more, more_lse):
    a, b = lse.exp().unsqueeze(-1), more_lse.exp().unsqueeze(-1)
    return (a * out + b * more) / (a + b), (lse.exp() + more_lse.exp()).log()

# %% wrong · the weights do not add up to 1
# -     return a * out + b * more, both
# +     return lse.exp().unsqueeze(-1) * out + more_lse.exp().unsqueeze(-1) * more, both

# %% wrong · sums are added up, and not their logarithms
# -     return a * out + b * more, both
# +     return a * out + b * more, lse + more_lse

# %% wrong · the larger one alone is too small
# -     return a * out + b * more, both
# +     return a * out + b * more, torch.maximum(lse, more_lse)

# %% wrong · and more that of out
# -     return a * out + b * more, both
# +     return b * out + a * more, both

# %% wrong · two tensors
# -     return a * out + b * more, both
# +     return a * out + b * more

# %% wrong · Subtract the larger of the two
def merge(out, lse, more, more_lse):
    highest = torch.maximum(lse, more_lse).clamp(min=0)
    a, b = (lse - highest).exp(), (more_lse - highest).exp()
    total = a + b
    y = (a.unsqueeze(-1) * out + b.unsqueeze(-1) * more) / total.unsqueeze(-1)
    return y, highest + total.log()

# %% wrong · not one number for all
def merge(out, lse, more, more_lse):
    highest = max(lse.max().item(), more_lse.max().item())
    a, b = (lse - highest).exp(), (more_lse - highest).exp()
    total = a + b
    y = (a.unsqueeze(-1) * out + b.unsqueeze(-1) * more) / total.unsqueeze(-1)
    return y, highest + total.log()

# %% wrong · either of them
def merge(out, lse, more, more_lse):
    base = torch.where(lse == -torch.inf, more_lse, lse)
    a, b = (lse - base).exp(), (more_lse - base).exp()
    total = a + b
    y = (a.unsqueeze(-1) * out + b.unsqueeze(-1) * more) / total.unsqueeze(-1)
    return y, base + total.log()
