# %% right · the empty rows go through as well
def through_my_experts(experts, rows, counts):
    y = experts(rows, counts)
    return y

# %% right · with a product where there is nothing
def through_my_experts(experts, rows, counts):
    if len(rows) == 0:
        return rows + 0 * sum(p.sum() for p in experts.parameters())
    return experts(rows, counts)

# %% wrong · never makes its all-to-all
def through_my_experts(experts, rows, counts):
    if len(rows) == 0:
        return torch.zeros_like(rows)
    return experts(rows, counts)

# %% wrong · never makes its all-to-all
def through_my_experts(experts, rows, counts):
    with torch.no_grad():
        return experts(rows, counts)

# %% wrong · their .grad stays None
def through_my_experts(experts, rows, counts):
    if len(rows) == 0:
        return rows
    return experts(rows, counts)

# %% wrong · never makes its all-to-all
def through_my_experts(experts, rows, counts):
    if len(rows) == 0:
        return rows.new_zeros(rows.shape).requires_grad_()
    return experts(rows, counts)

# %% wrong · gives None
def through_my_experts(experts, rows, counts):
    if len(rows) > 0:
        return experts(rows, counts)

# %% wrong · add nothing
def through_my_experts(experts, rows, counts):
    y = experts(rows, counts)
    return y + rows - rows.detach()

# %% wrong · add nothing
def through_my_experts(experts, rows, counts):
    history = rows.sum() * 0 + sum(p.sum() * 0 for p in experts.parameters())
    return experts(rows, counts).detach() + history
