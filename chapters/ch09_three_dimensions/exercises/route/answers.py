# %% right · by hand
def route(scores, k, bias=None):
    probabilities = F.softmax(scores, dim=-1)
    order = (scores if bias is None else scores + bias).sort(-1, descending=True).indices[:, :k]
    rows = torch.arange(len(scores)).unsqueeze(-1)
    return probabilities[rows, order], order


# %% right · topk of the probabilities where there is no bias
def route(scores, k, bias=None):
    p = scores.softmax(-1)
    if bias is None:
        return tuple(p.topk(k))
    experts = (scores + bias).topk(k).indices
    return torch.take_along_dim(p, experts, -1), experts


# %% wrong · The weights do not know of it
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return ranked.softmax(-1).gather(-1, experts), experts

# %% wrong · the bias is not looked at
# -     ranked = scores if bias is None else scores + bias
# +     ranked = scores

# %% wrong · not over the chosen ones alone
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.gather(-1, experts).softmax(-1), experts

# %% wrong · need not add up to 1
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     weights = scores.softmax(-1).gather(-1, experts)
# +     return weights / weights.sum(-1, keepdim=True), experts

# %% wrong · these are scores
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.gather(-1, experts), experts

# %% wrong · over the last dimension
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.softmax(0).gather(-1, experts), experts

# %% wrong · not to probabilities
# -     ranked = scores if bias is None else scores + bias
# +     ranked = scores.softmax(-1) if bias is None else scores.softmax(-1) + bias

# %% wrong · not the one with the smallest number
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     experts = experts.sort(-1).values
# +     return scores.softmax(-1).gather(-1, experts), experts

# %% wrong · the other way round
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return experts, scores.softmax(-1).gather(-1, experts)

# %% wrong · without a bias, bias is None
# -     ranked = scores if bias is None else scores + bias
# +     ranked = scores + bias

# %% wrong · in autograd's graph
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.detach().softmax(-1).gather(-1, experts), experts


# %% wrong · each token gets k experts
def route(scores, k, bias=None):
    best = (scores if bias is None else scores + bias).argmax(-1, keepdim=True)
    return scores.softmax(-1).gather(-1, best), best


# %% wrong · the largest score first
def route(scores, k, bias=None):
    experts = (scores if bias is None else scores + bias).topk(k, dim=-1).indices
    powers = scores.exp()
    return (powers / powers.sum(-1, keepdim=True)).gather(-1, experts), experts


# %% wrong · both of its parts depend on the scores
def route(scores, k, bias=None):
    experts = (scores if bias is None else scores + bias).topk(k, dim=-1).indices
    powers = (scores - scores.detach().amax(-1, keepdim=True)).exp()
    return (powers / powers.detach().sum(-1, keepdim=True)).gather(-1, experts), experts


# %% wrong · indices: whole numbers
def route(scores, k, bias=None):
    experts = (scores if bias is None else scores + bias).topk(k, dim=-1).indices
    return scores.softmax(-1).gather(-1, experts), experts.double()


# %% wrong · have no gradient
def route(scores, k, bias=None):
    experts = (scores if bias is None else scores + bias).topk(k, dim=-1).indices
    weights = scores.softmax(-1).gather(-1, experts)
    return (weights.detach() if k == 1 else weights), experts
