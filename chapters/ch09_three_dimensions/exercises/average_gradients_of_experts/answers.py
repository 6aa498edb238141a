# %% right · divided by the world
def average_gradients(parameters, mesh):
    for p in parameters:
        axes = "edp" if hasattr(p, "is_of_expert") else ("edp", "ep")
        dist.all_reduce(p.grad, group=mesh[axes])
        p.grad.div_(dist.get_world_size())

# %% right · flat, in two calls
def average_gradients(parameters, mesh):
    for of_expert, group in ((True, mesh["edp"]), (False, mesh["edp", "ep"])):
        some = [p for p in parameters if getattr(p, "is_of_expert", False) == of_expert]
        flat = torch.cat([p.grad.flatten() for p in some]) / dist.get_world_size()
        dist.all_reduce(flat, group=group)
        for p, part in zip(some, flat.split([p.numel() for p in some])):
            p.grad = part.view_as(p)

# %% wrong · is that sum, divided by all ranks
# -         dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
# -         p.grad /= mesh.sizes["edp"] * mesh.sizes["ep"]
# +         group = mesh["edp"] if is_of_expert else mesh["edp", "ep"]
# +         dist.all_reduce(p.grad, group=group)
# +         p.grad /= dist.get_world_size(group)

# %% wrong · Along ep the ranks have different experts
# -         dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
# +         dist.all_reduce(p.grad)

# %% wrong · the copies of one expert are along edp
# -         dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
# +         dist.all_reduce(p.grad, group=mesh["ep"] if is_of_expert else mesh["edp", "ep"])

# %% wrong · nothing is divided
# -         p.grad /= mesh.sizes["edp"] * mesh.sizes["ep"]
# +         pass

# %% wrong · is averaged over its edp group alone
# -         dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
# -         p.grad /= mesh.sizes["edp"] * mesh.sizes["ep"]
# +         dist.all_reduce(p.grad, group=mesh["edp"])
# +         p.grad /= mesh.sizes["edp"] * (mesh.sizes["ep"] if is_of_expert else 1)

# %% wrong · an expert's gradient is divided by the ranks of its group along ep
# -         p.grad /= mesh.sizes["edp"] * mesh.sizes["ep"]
# +         p.grad /= mesh.sizes["ep"] if is_of_expert else mesh.sizes["edp"] * mesh.sizes["ep"]

# %% wrong · not added up over its copies
# -         dist.all_reduce(p.grad, group=mesh["edp"] if is_of_expert else mesh["edp", "ep"])
# +         if not is_of_expert:
# +             dist.all_reduce(p.grad)

# %% wrong · only the experts' parameters have this attribute
# -         is_of_expert = getattr(p, "is_of_expert", False)
# +         is_of_expert = p.is_of_expert

# %% wrong · wrong is the gradient of
def average_gradients(parameters, mesh):
    n = mesh.sizes["edp"] * mesh.sizes["ep"]
    for number, p in enumerate(parameters):
        dist.all_reduce(p.grad, group=mesh["edp"] if number in (1, 3) else mesh["edp", "ep"])
        p.grad /= n

# %% wrong · wrong is the gradient of
def average_gradients(parameters, mesh):
    n = mesh.sizes["edp"] * mesh.sizes["ep"]
    for p in parameters:
        is_experts = p.shape in ((2, 4), (4, 2))
        dist.all_reduce(p.grad, group=mesh["edp"] if is_experts else mesh["edp", "ep"])
        p.grad /= n

# %% wrong · each gradient stays
def average_gradients(parameters, mesh):
    for p in parameters:
        p.grad = None
