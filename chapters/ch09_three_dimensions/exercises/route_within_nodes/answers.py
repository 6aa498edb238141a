# %% right · token by token
def route_within_nodes(scores, k, nodes, most, bias=None):
    ranked = scores.detach() + (0 if bias is None else bias)
    size, chosen = scores.shape[1] // nodes, []
    for row in ranked:
        sums = torch.stack(
            [of.sort(descending=True).values[: -(-k // most)].sum() for of in row.split(size)]
        )
        mine = sums.argsort(descending=True)[:most].tolist()
        places = [e for e in range(len(row)) if e // size in mine]
        places.sort(key=lambda e: -row[e].item())
        chosen.append(places[:k])
    experts = torch.tensor(chosen, dtype=torch.long).view(-1, k)
    return scores.softmax(-1).gather(-1, experts), experts


# %% right · the number of a node next to each expert
def route_within_nodes(scores, k, nodes, most, bias=None):
    size = scores.shape[-1] // nodes
    ranked = (scores if bias is None else scores + bias).detach().clone()
    best = ranked.view(-1, nodes, size).topk(min(size, (k + most - 1) // most)).values
    chosen = best.sum(-1).topk(most).indices
    node_of = torch.arange(scores.shape[-1]) // size
    far = (node_of[None, :, None] != chosen[:, None, :]).all(-1)
    ranked[far] = float("-inf")
    experts = ranked.topk(k).indices
    return torch.take_along_dim(scores.softmax(-1), experts, -1), experts


# %% wrong · the best experts of all nodes
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     pass

# %% wrong · by its best score alone
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     best = of_nodes.amax(-1).topk(most, dim=-1).indices

# %% wrong · by all of its scores
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     best = of_nodes.sum(-1).topk(most, dim=-1).indices

# %% wrong · rounded down
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     best = of_nodes.topk(max(1, k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices

# %% wrong · by its k best scores
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     count = min(k, of_nodes.shape[-1])
# +     best = of_nodes.topk(count, dim=-1).values.sum(-1).topk(most, dim=-1).indices

# %% wrong · not looked at where nodes are chosen
# -     of_nodes = ranked.unflatten(-1, (nodes, -1))  # (tokens, nodes, experts of a node)
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     of_nodes = ranked.unflatten(-1, (nodes, -1))
# +     plain = scores.unflatten(-1, (nodes, -1))
# +     best = plain.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices

# %% wrong · where a token's experts are chosen
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     plain = scores.unflatten(-1, (nodes, -1))
# +     ranked = plain.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)

# %% wrong · before nodes and experts are chosen
# -     ranked = scores if bias is None else scores + bias
# +     ranked = scores

# %% wrong · The weights do not know of it
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     added = scores if bias is None else scores + bias
# +     return added.softmax(-1).gather(-1, experts), experts

# %% wrong · those of the chosen nodes alone
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     far = ranked.isinf()
# +     return scores.masked_fill(far, -torch.inf).softmax(-1).gather(-1, experts), experts

# %% wrong · not over the chosen ones alone
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.gather(-1, experts).softmax(-1), experts

# %% wrong · Only -inf is less than every score
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     ranked = (of_nodes * allowed.unsqueeze(-1)).flatten(1)

# %% wrong · node e % nodes
# -     of_nodes = ranked.unflatten(-1, (nodes, -1))  # (tokens, nodes, experts of a node)
# +     of_nodes = ranked.unflatten(-1, (-1, nodes)).mT
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).mT.flatten(1)

# %% wrong · sums of probabilities
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     p = scores.softmax(-1).unflatten(-1, (nodes, -1))
# +     best = p.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices


# %% wrong · each node gives equally many
def route_within_nodes(scores, k, nodes, most, bias=None):
    ranked = scores if bias is None else scores + bias
    of_nodes, each = ranked.unflatten(-1, (nodes, -1)), -(-k // most)
    top = of_nodes.topk(each, dim=-1)
    chosen = top.values.sum(-1).topk(most, dim=-1).indices
    size = of_nodes.shape[-1]
    experts = top.indices + size * torch.arange(nodes).view(1, -1, 1)
    experts = experts.gather(1, chosen.unsqueeze(-1).expand(-1, -1, each)).flatten(1)[:, :k]
    order = ranked.gather(-1, experts).argsort(-1, descending=True)
    experts = experts.gather(-1, order)
    return scores.softmax(-1).gather(-1, experts), experts


# %% wrong · with the smallest number
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     experts = experts.sort(-1).values
# +     return scores.softmax(-1).gather(-1, experts), experts

# %% wrong · the other way round
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return experts, scores.softmax(-1).gather(-1, experts)

# %% wrong · in autograd's graph
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.detach().softmax(-1).gather(-1, experts), experts

# %% wrong · Choose the nodes first
def route_within_nodes(scores, k, nodes, most, bias=None):
    size, chosen = scores.shape[-1] // nodes, []
    for row in (scores if bias is None else scores + bias).tolist():
        used, mine = set(), []
        for expert in sorted(range(len(row)), key=lambda e: -row[e]):
            if len(mine) < k and (expert // size in used or len(used) < most):
                used.add(expert // size)
                mine.append(expert)
        chosen.append(mine)
    experts = torch.tensor(chosen, dtype=torch.long).view(-1, k)
    return scores.softmax(-1).gather(-1, experts), experts

# %% wrong · by its two best scores, whatever k is
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     two = min(2, of_nodes.shape[-1])
# +     best = of_nodes.topk(two, dim=-1).values.sum(-1).topk(most, dim=-1).indices

# %% wrong · Only -inf is less than every score
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -1000).flatten(1)

# %% wrong · Only -inf is less than every score
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     ranked = (of_nodes - 1000 * ~allowed.unsqueeze(-1)).flatten(1)

# %% wrong · Only -inf is less than every score
# -     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), -torch.inf).flatten(1)
# +     least = of_nodes.min() if len(of_nodes) else 0
# +     ranked = of_nodes.masked_fill(~allowed.unsqueeze(-1), least).flatten(1)

# %% wrong · not all that count as much as the last one of these
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# -     allowed = torch.zeros(of_nodes.shape[:2], dtype=torch.bool).scatter(-1, best, True)
# +     value = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1)
# +     allowed = value >= value.topk(most, dim=-1).values[:, -1:]

# %% wrong · there may be no tokens
def route_within_nodes(scores, k, nodes, most, bias=None):
    rows = []
    for row in scores if bias is None else scores + bias:
        of_nodes = row.view(nodes, -1)
        best = of_nodes.topk(-(-k // most)).values.sum(-1).topk(most).indices
        ranked = torch.full_like(of_nodes, -torch.inf)
        ranked[best] = of_nodes[best]
        rows.append(ranked.flatten().topk(k).indices)
    experts = torch.stack(rows)
    return scores.softmax(-1).gather(-1, experts), experts

# %% wrong · the other way round
# -     of_nodes = ranked.unflatten(-1, (nodes, -1))  # (tokens, nodes, experts of a node)
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     of_nodes = ranked.unflatten(-1, (-1, nodes))
# +     count = min(-(-k // most), of_nodes.shape[-1])
# +     best = of_nodes.topk(count, dim=-1).values.sum(-1)
# +     best = best.topk(min(most, best.shape[-1]), dim=-1).indices

# %% wrong · all tokens get the same nodes
# -     best = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1).topk(most, dim=-1).indices
# +     value = of_nodes.topk(-(-k // most), dim=-1).values.sum(-1)
# +     best = value.sum(0, keepdim=True).topk(most, dim=-1).indices.expand(len(value), -1)

# %% wrong · the one with the largest score and bias is first
# -     experts = ranked.topk(k, dim=-1).indices
# +     experts = ranked.topk(k, dim=-1).indices
# +     experts = experts.gather(-1, scores.gather(-1, experts).argsort(-1, descending=True))

# %% wrong · inside their nodes
# -     return scores.softmax(-1).gather(-1, experts), experts
# +     return scores.softmax(-1).gather(-1, experts), experts % of_nodes.shape[-1]

# %% wrong · compared as sigmoids
# -     ranked = scores if bias is None else scores + bias
# +     ranked = scores.sigmoid() if bias is None else scores.sigmoid() + bias
