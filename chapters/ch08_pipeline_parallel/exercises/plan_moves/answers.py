# %% given
from itertools import groupby

Move = lab("sharded_stages").Move

# %% right · by stretches of one chunk
def plan_moves(row):
    plan, left = [], [action.chunk for action in row]
    for chunk, stretch in groupby(row, key=lambda action: action.chunk):
        plan.append(Move("gather", chunk))
        for action in stretch:
            plan.append(action)
            left.remove(chunk)
        if chunk not in left:
            plan.append(Move("reduce", chunk))
        plan.append(Move("free", chunk))
    return plan

# %% right · backwards are counted, and freed later
def plan_moves(row):
    plan, held = [], None
    for number, action in enumerate(row):
        if action.chunk != held:
            if held is not None:
                plan.append(Move("free", held))
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        done = [one for one in row[: number + 1] if (one.kind, one.chunk) == ("B", held)]
        if action.kind == "B" and len(done) == max(one.microbatch for one in row) + 1:
            plan.append(Move("reduce", held))
    return plan + [Move("free", held)]

# %% wrong · as ZeRO stage 3 does without a pipeline
# -         if all(later.chunk != held for later in row[number + 1 :]):
# +         if action.kind == "B":

# %% wrong · gradients are reduced again and again
def plan_moves(row):
    plan, held = [], None
    for number, action in enumerate(row):
        if action.chunk != held:
            if held is not None:
                plan.append(Move("free", held))
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        if action.kind == "B":
            plan.append(Move("reduce", held))
    return plan + [Move("free", held)]

# %% wrong · each action gathers and frees its chunk
def plan_moves(row):
    plan = []
    for number, action in enumerate(row):
        plan += [Move("gather", action.chunk), action]
        if all(later.chunk != action.chunk for later in row[number + 1 :]):
            plan.append(Move("reduce", action.chunk))
        plan.append(Move("free", action.chunk))
    return plan

# %% wrong · each time that it is left
def plan_moves(row):
    plan = []
    for chunk, stretch in groupby(row, key=lambda action: action.chunk):
        actions = list(stretch)
        plan += [Move("gather", chunk), *actions]
        if actions[-1].kind == "B" or actions[0].kind == "B":
            plan.append(Move("reduce", chunk))
        plan.append(Move("free", chunk))
    return plan

# %% wrong · the step ends with whole weights
# -             plan += [Move("reduce", held), Move("free", held)]
# -             held = None
# +             plan += [Move("reduce", held)]

# %% wrong · reads the gradients of whole weights
# -             plan += [Move("reduce", held), Move("free", held)]
# +             plan += [Move("free", held), Move("reduce", held)]

# %% wrong · with the gradient of its own samples
# -             plan += [Move("reduce", held), Move("free", held)]
# +             plan += [Move("free", held)]

# %% wrong · the last backward need not be that of the last micro-batch
def plan_moves(row):
    plan, held = [], None
    for number, action in enumerate(row):
        if action.chunk != held:
            if held is not None:
                plan.append(Move("free", held))
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        if action.kind == "B" and action.microbatch == max(one.microbatch for one in row):
            plan.append(Move("reduce", held))
    return plan + [Move("free", held)]

# %% wrong · what later backwards add is never reduced
def plan_moves(row):
    plan, held, reduced = [], None, set()
    for action in row:
        if action.chunk != held:
            if held is not None:
                plan.append(Move("free", held))
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        if action.kind == "B" and held not in reduced:
            reduced.add(held)
            plan.append(Move("reduce", held))
    return plan + [Move("free", held)]

# %% wrong · free a chunk once
# -             held = None

# %% wrong · two chunks are whole at a time
# -             if held is not None:
# -                 plan.append(Move("free", held))

# %% wrong · all of its actions stay
# -         plan.append(action)
# +         if action.kind == "F":
# +             plan.append(action)

# %% wrong · as many backwards as forwards of it have run
def plan_moves(row):
    plan, held, under_way = [], None, {}
    for action in row:
        if action.chunk != held:
            if held is not None:
                plan.append(Move("free", held))
            held = action.chunk
            plan.append(Move("gather", held))
        plan.append(action)
        under_way[held] = under_way.get(held, 0) + (1 if action.kind == "F" else -1)
        if not under_way[held]:
            plan += [Move("reduce", held), Move("free", held)]
            held = None
    return plan

# %% wrong · only to be reduced
def plan_moves(row):
    plan = []
    for chunk, stretch in groupby(row, key=lambda action: action.chunk):
        plan += [Move("gather", chunk), *stretch, Move("free", chunk)]
    for chunk in sorted({action.chunk for action in row}):
        plan += [Move("gather", chunk), Move("reduce", chunk), Move("free", chunk)]
    return plan

# %% wrong · each chunk has its own last backward
# -         if all(later.chunk != held for later in row[number + 1 :]):
# +         if number == len(row) - 1:

# %% wrong · an action has lost its chunk
# -         plan.append(action)
# +         plan.append(type(action)(action.kind, action.microbatch))

# %% wrong · got a generator
def plan_moves(row):
    for number, (chunk, stretch) in enumerate(groupby(row, key=lambda action: action.chunk)):
        yield Move("gather", chunk)
        done = list(stretch)
        yield from done
        if done[-1] == [action for action in row if action.chunk == chunk][-1]:
            yield Move("reduce", chunk)
        yield Move("free", chunk)

# %% wrong · of the plan is a tuple
def plan_moves(row):
    plan, left = [], [action.chunk for action in row]
    for chunk, stretch in groupby(row, key=lambda action: action.chunk):
        plan.append(("gather", chunk))
        for action in stretch:
            plan.append(action)
            left.remove(chunk)
        if chunk not in left:
            plan.append(("reduce", chunk))
        plan.append(("free", chunk))
    return plan

# %% wrong · the last backward need not be that of the last micro-batch
# -         if all(later.chunk != held for later in row[number + 1 :]):
# +         if action.kind == "B" and action.microbatch == max(one.microbatch for one in row):
