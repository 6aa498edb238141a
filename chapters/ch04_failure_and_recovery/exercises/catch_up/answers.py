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

# %% wrong · and so not the rank whose state is sent
# -     if training.steps < furthest:
# +     if training.steps < furthest or rank == source:

# %% wrong · ranks name different sources
# -     source = steps.index(furthest)
# +     source = rank if steps[rank] == furthest else steps.index(furthest)

# %% wrong · more than one state has come
# -     source = steps.index(furthest)
# -     state = [training.state_dict() if rank == source else None]
# -     dist.broadcast_object_list(state, group_src=source, group=group)
# +     for source in [k for k in range(n) if steps[k] == furthest]:
# +         state = [training.state_dict() if rank == source else None]
# +         dist.broadcast_object_list(state, group_src=source, group=group)

# %% wrong · a state is sent, and nobody takes it [deep]
def catch_up(training, group=None):
    steps = [None] * dist.get_world_size(group)
    dist.all_gather_object(steps, training.steps, group)
    most, box = max(steps), [training.state_dict()]
    if training.steps == most:
        for k in range(len(steps)):
            if steps[k] < most:
                dist.send_object_list(box, group_dst=k, group=group)
    else:
        dist.recv_object_list(box, group_src=steps.index(most), group=group)
        training.load_state_dict(box[0])

# %% wrong · a rank waits for a state that nobody sends to it [deep]
def catch_up(training, group=None):
    steps = [None] * dist.get_world_size(group)
    dist.all_gather_object(steps, training.steps, group)
    most, box = max(steps), [training.state_dict()]
    first, last = steps.index(most), len(steps) - 1 - steps[::-1].index(most)
    if dist.get_rank(group) == last:
        for k in range(len(steps)):
            if steps[k] < most:
                dist.send_object_list(box, group_dst=k, group=group)
    elif training.steps < most:
        dist.recv_object_list(box, group_src=first, group=group)
        training.load_state_dict(box[0])

# %% wrong · the lists of all ranks have the same length
# -     state = [training.state_dict() if rank == source else None]
# +     state = [training.state_dict()] if rank == source else []

# %% wrong · the lists of all ranks have the same length
# -     state = [training.state_dict() if rank == source else None]
# +     state = [training.state_dict(), furthest] if rank == source else [None]

# %% wrong · a list of objects is broadcast
# -     state = [training.state_dict() if rank == source else None]
# +     state = training.state_dict() if rank == source else None

# %% wrong · gives nothing back
# -     dist.broadcast_object_list(state, group_src=source, group=group)
# +     state = dist.broadcast_object_list(state, group_src=source, group=group)

# %% wrong · None has come
# -     state = [training.state_dict() if rank == source else None]
# +     state = [training.state_dict() if rank == n - 1 else None]

# %% wrong · steps are gathered as int64
# -     steps = [torch.zeros_like(mine) for _ in range(n)]
# +     steps = [torch.zeros(1) for _ in range(n)]

# %% wrong · has the shape of what it gives
# -     steps = [torch.zeros_like(mine) for _ in range(n)]
# +     steps = [torch.tensor(0) for _ in range(n)]

# %% wrong · a place for what comes from each rank
# -     steps = [torch.zeros_like(mine) for _ in range(n)]
# +     steps = [torch.zeros_like(mine)]

# %% wrong · a place for what comes from each rank
# -     dist.all_gather(steps, mine, group)
# -     steps = [step.item() for step in steps]
# +     steps = []
# +     dist.all_gather_object(steps, training.steps, group)

# %% wrong · this call is for tensors
# -     dist.all_gather(steps, mine, group)
# +     dist.all_gather(steps, training.steps, group)
