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

# %% wrong · has two names in the model
# -     return {"parameters": sum(p.nbytes for p in model.parameters()),
# +     return {"parameters": sum(
# +                 p.nbytes for _, p in model.named_parameters(remove_duplicate=False)),

# %% wrong · is 144, expected 152; right is that of parameters, gradients Adam's two numbers for each
# -             "optimizer_state": sum(x.nbytes for x in state)}
# +             "optimizer_state": sum(
# +                 x.nbytes for k in optimizer.state.values() for x in k.values() if x.dim())}

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
