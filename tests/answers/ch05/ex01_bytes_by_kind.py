# %% right · expression by expression
def bytes_by_kind(model, optimizer):
    return {"parameters": sum(p.nbytes for p in model.parameters()),
            "gradients": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
            "optimizer_state": sum(
                x.nbytes for kept in optimizer.state.values() for x in kept.values())}

# %% right · elements by their size
def bytes_by_kind(model, optimizer):
    return {"parameters": sum(p.numel() * p.element_size() for p in model.parameters()),
            "gradients": sum(p.grad.nbytes for p in model.parameters() if p.grad is not None),
            "optimizer_state": sum(
                x.nbytes for kept in optimizer.state.values() for x in kept.values())}

# %% right · storages, and state_dict
def bytes_by_kind(model, optimizer):
    states = optimizer.state_dict()["state"].values()
    tensors = {
        "parameters": [p for _, p in model.named_parameters()],
        "gradients": [p.grad for p in model.parameters() if p.grad is not None],
        "optimizer_state": [x for state in states for x in state.values()],
    }
    return {kind: sum({x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()
                       for x in some}.values()) for kind, some in tensors.items()}

# %% right · through the groups
def bytes_by_kind(model, optimizer):
    found = {"parameters": 0, "gradients": 0, "optimizer_state": 0}
    for p in set(model.parameters()):
        found["parameters"] += p.nbytes
        found["gradients"] += 0 if p.grad is None else p.grad.nbytes
    for group in optimizer.param_groups:
        for p in group["params"]:
            for name, x in optimizer.state[p].items():
                found["optimizer_state"] += torch.as_tensor(x).nbytes
    return found

# %% wrong · where no gradient has come yet
# -             "gradients": sum(gradient.nbytes for gradient in gradients),
# +             "gradients": sum(p.grad.nbytes for p in model.parameters()),

# %% wrong · whether it has one now or not
# -             "gradients": sum(gradient.nbytes for gradient in gradients),
# +             "gradients": sum(p.nbytes for p in model.parameters()),

# %% wrong · has two names in the model
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(
# +                 p.nbytes for _, p in model.named_parameters(remove_duplicate=False)),

# %% wrong · a tied parameter's gradient counts twice
# -             "gradients": sum(gradient.nbytes for gradient in gradients),
# +             "gradients": sum(
# +                 p.grad.nbytes for _, p in model.named_parameters(remove_duplicate=False)
# +                 if p.grad is not None),

# %% wrong · a tied parameter's state counts twice
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(
# +                 x.nbytes for _, p in model.named_parameters(remove_duplicate=False)
# +                 for x in optimizer.state[p].values())}

# %% wrong · under both of its names
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(x.nbytes for x in model.state_dict().values()),

# %% wrong · buffers are counted as well
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(x.nbytes for x in [*model.parameters(), *model.buffers()]),

# %% wrong · a frozen parameter is missing
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(p.nbytes for p in model.parameters() if p.requires_grad),

# %% wrong · 4 bytes are taken
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(4 * p.numel() for p in model.parameters()),

# %% wrong · these are the numbers, not their bytes
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(p.numel() for p in model.parameters()),

# %% wrong · the dtype of the first one
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": next(model.parameters()).element_size()
# +             * sum(p.numel() for p in model.parameters()),

# %% wrong · what else does its state have
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(
# +                 x.nbytes for k in optimizer.state.values() for x in k.values() if x.dim())}

# %% wrong · two numbers for each parameter, the rule
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": 2 * sum(p.nbytes for p in model.parameters())}

# %% wrong · the state of one parameter alone
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(
# +                 x.nbytes for x in next(iter(optimizer.state.values()), {}).values())}

# %% wrong · only the first tensor is counted
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(
# +                 next(iter(kept.values())).nbytes for kept in optimizer.state.values())}

# %% wrong · does it count those in param_groups
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(p.nbytes for p in model.parameters()) + sum(
# +                 x.nbytes for kept in optimizer.state.values() for x in kept.values())}

# %% wrong · has no such entry
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(
# +                 optimizer.state[p]["exp_avg"].nbytes for p in model.parameters())}

# %% wrong · has a dict for each parameter
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(kept.nbytes for kept in optimizer.state.values())}

# %% wrong · the keys
def bytes_by_kind(model, optimizer):
    return sum(p.nbytes for p in model.parameters())

# %% wrong · with the keys
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "state": sum(x.nbytes for x in state)}

# %% wrong · without `return`
def bytes_by_kind(model, optimizer):
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    state = [x for kept in optimizer.state.values() for x in kept.values() if torch.is_tensor(x)]
    {"parameters": sum(p.nbytes for p in model.parameters()),
     "gradients": sum(gradient.nbytes for gradient in gradients),
     "optimizer_state": sum(x.nbytes for x in state)}

# %% wrong · only look
# -     gradients = [p.grad for p in model.parameters() if p.grad is not None]
# +     optimizer.step()
# +     gradients = [p.grad for p in model.parameters() if p.grad is not None]

# %% wrong · leave the model
# -     gradients = [p.grad for p in model.parameters() if p.grad is not None]
# +     model.zero_grad()
# +     gradients = [p.grad for p in model.parameters() if p.grad is not None]
