# %% right · steps as objects, and a source in the world
def catch_up(training, group=None):
    steps = [None] * dist.get_world_size(group)
    dist.all_gather_object(steps, training.steps, group)
    if len(set(steps)) == 1:
        return
    place = max(range(len(steps)), key=lambda k: steps[k])
    source = dist.get_global_rank(group, place) if group else place
    box = [training.state_dict()] if dist.get_rank(group) == place else [None]
    dist.broadcast_object_list(box, src=source, group=group)
    if training.steps < steps[place]:
        training.load_state_dict(box[0])

# %% right · the largest and the smallest, and the last of those that are furthest
def catch_up(training, group=None):
    ends = torch.tensor([training.steps, -training.steps])
    dist.all_reduce(ends, dist.ReduceOp.MAX, group)
    most, least = ends[0].item(), -ends[1].item()
    if most == least:
        return
    rank = dist.get_rank(group)
    source = torch.tensor([rank if training.steps == most else -1])
    dist.all_reduce(source, dist.ReduceOp.MAX, group)
    state = [training.state_dict() if rank == source.item() else None]
    dist.broadcast_object_list(state, group_src=source.item(), group=group)
    if training.steps != most:
        training.load_state_dict(state[0])

# %% right · the source loads its own
# -     if training.steps < furthest:
# +     if training.steps < furthest or rank == source:

# %% wrong · Rank 0 may be a newcomer itself
# -     source = steps.index(furthest)
# +     source = 0

# %% wrong · the fewest steps
# -     source = steps.index(furthest)
# +     source = steps.index(min(steps))
# -     if training.steps < furthest:
# +     if training.steps > min(steps):

# %% wrong · `group_src=` takes this number
# -     dist.broadcast_object_list(state, group_src=source, group=group)
# +     dist.broadcast_object_list(state, src=source, group=group)

# %% wrong · the rest is as before
# -         training.load_state_dict(state[0])
# +         training.steps = furthest

# %% wrong · nothing was loaded here
# -         training.load_state_dict(state[0])
# +         state[0]

# %% wrong · the state has both
# -         training.load_state_dict(state[0])
# +         before = training.steps
# +         training.load_state_dict(state[0])
# +         training.steps = before

# %% wrong · of `training` is known what the text says
# -     state = [training.state_dict() if rank == source else None]
# +     state = [training.model.state_dict() if rank == source else None]

# %% wrong · it takes what state_dict() of another rank gave
# -     state = [training.state_dict() if rank == source else None]
# +     state = [training.state_dict()["model"] if rank == source else None]

# %% wrong · it takes what state_dict() of another rank gave
# -         training.load_state_dict(state[0])
# +         training.load_state_dict(state)

# %% wrong · hand on all that state_dict() gives
# -     state = [training.state_dict() if rank == source else None]
# +     state = [training.state_dict() if rank == source else None]
# +     old = training.state_dict()["optimizer"]
# -         training.load_state_dict(state[0])
# +         training.load_state_dict(state[0] | {"optimizer": old})

# %% wrong · all are equally far, so nobody needs a state
# -     if min(steps) == furthest:
# -         return

# %% wrong · it keeps its own state
# -     if training.steps < furthest:
# +     if rank != source:

# %% wrong · also who is as far already takes part
# -     if min(steps) == furthest:
# +     if training.steps == furthest and rank != steps.index(furthest) or min(steps) == furthest:

# %% wrong · every rank has sent its state to all
def catch_up(training, group=None):
    states = [None] * dist.get_world_size(group)
    steps = [None] * dist.get_world_size(group)
    dist.all_gather_object(steps, training.steps, group)
    if min(steps) < max(steps):
        dist.all_gather_object(states, training.state_dict(), group)
    if training.steps < max(steps):
        training.load_state_dict(states[steps.index(max(steps))])

# %% wrong · what torch makes of a list of whole numbers
# -     mine = torch.tensor([training.steps])
# +     mine = torch.tensor([float(training.steps)])
# -     if training.steps < furthest:
# +     if float(training.steps) < furthest:

# %% wrong · the broadcast, and loads nothing
# -     if min(steps) == furthest:
# +     if training.steps == furthest:

# %% wrong · hand `group` to every call
# -     dist.all_gather(steps, mine, group)
# +     steps = [torch.zeros_like(mine) for _ in range(dist.get_world_size())]
# +     dist.all_gather(steps, mine)
