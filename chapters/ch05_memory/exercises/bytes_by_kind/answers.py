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

# %% right · module by module
def bytes_by_kind(model, optimizer):
    seen = {}
    for m in model.modules():
        for p in m._parameters.values():
            if p is not None: seen[id(p)] = p
    ps = list(seen.values())
    st = optimizer.state_dict()["state"]
    return dict(optimizer_state=sum(x.nbytes for s in st.values() for x in s.values()),
                gradients=sum(p.grad.nbytes for p in ps if p.grad is not None), parameters=sum(p.nbytes for p in ps))

# %% right · leaves of a tree
def bytes_by_kind(model, optimizer):
    from torch.utils._pytree import tree_leaves
    size = lambda t: sum(x.nbytes for x in tree_leaves(t) if torch.is_tensor(x))
    return {"parameters": size(list(model.parameters())), "gradients": size([p.grad for p in model.parameters()]),
            "optimizer_state": size([dict(s) for s in optimizer.state.values()])}

# %% wrong · this is the rule of 2, 2 and 12 bytes
def bytes_by_kind(model, optimizer):
    n = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": 2 * n, "gradients": 2 * n, "optimizer_state": 12 * n}

# %% wrong · how large a Python object is
def bytes_by_kind(model, optimizer):
    import sys
    return {"parameters": sum(sys.getsizeof(p) for p in model.parameters()), "gradients": sum(sys.getsizeof(p.grad) for p in model.parameters()),
            "optimizer_state": sum(sys.getsizeof(x) for s in optimizer.state.values() for x in s.values())}

# %% wrong · counts the Python object as well
def bytes_by_kind(model, optimizer):
    import sys
    size = lambda xs: sum(sys.getsizeof(x.untyped_storage()) for x in xs)
    return {"parameters": size(model.parameters()), "gradients": size(p.grad for p in model.parameters() if p.grad is not None),
            "optimizer_state": size(x for s in optimizer.state.values() for x in s.values())}

# %% wrong · it gives the same for all arguments
cache = {}
def bytes_by_kind(model, optimizer):
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    state = [x for kept in optimizer.state.values() for x in kept.values() if torch.is_tensor(x)]
    if not cache:
        cache.update({"parameters": sum(p.nbytes for p in model.parameters()),
            "gradients": sum(gradient.nbytes for gradient in gradients),
            "optimizer_state": sum(x.nbytes for x in state)})
    return cache

# %% wrong · each call begins anew
total = {"parameters": 0, "gradients": 0, "optimizer_state": 0}
def bytes_by_kind(model, optimizer):
    for p in model.parameters():
        total["parameters"] += p.nbytes
        if p.grad is not None: total["gradients"] += p.grad.nbytes
    for s in optimizer.state.values():
        for x in s.values(): total["optimizer_state"] += x.nbytes
    return total

# %% wrong · these are millions of bytes
def bytes_by_kind(model, optimizer):
    s = lambda xs: sum(x.nbytes for x in xs) / 1e6
    return {"parameters": s(model.parameters()), "gradients": s(p.grad for p in model.parameters() if p.grad is not None),
            "optimizer_state": s(x for s in optimizer.state.values() for x in s.values())}

# %% wrong · exit() and the like end the whole process
def bytes_by_kind(model, optimizer):
    import sys; sys.exit(0)
