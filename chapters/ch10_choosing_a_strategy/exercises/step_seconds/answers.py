# %% right · turns of a stage
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    turn = layer * layers / stages
    turns = microbatches + stages - 1
    return turns * turn + (1 - hidden) * all_reduce

# %% right · work and bubble apart
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    work = microbatches * layers * layer / stages
    bubble = work * (stages - 1) / microbatches
    return work + bubble + all_reduce - all_reduce * hidden

# %% wrong · stages - 1 turns late
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    return layer * layers / stages * microbatches + all_reduce * (1 - hidden)

# %% wrong · counts the filling twice
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    turn = layer * layers / stages
    return turn * (microbatches + 2 * (stages - 1)) + all_reduce * (1 - hidden)

# %% wrong · one turn too few
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    turns = microbatches - 1 + stages - 1
    return layer * layers / stages * turns + all_reduce * (1 - hidden)

# %% wrong · and not a number of seconds
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    turn = layer * layers / stages
    return turn * (microbatches + stages - 1) + max(0, all_reduce - hidden)

# %% wrong · This takes the longer one
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    turns = layer * layers / stages * (microbatches + stages - 1)
    return max(turns, all_reduce * (1 - hidden))

# %% wrong · expected 27 s, got 44.5 s
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    return layer * layers / stages * microbatches * (stages - 1) + all_reduce * (1 - hidden)

# %% wrong · it seems to be rounded
def step_seconds(layer, layers, stages, microbatches, all_reduce, hidden):
    turn = layer * layers / stages
    return round(turn * (microbatches + stages - 1) + all_reduce * (1 - hidden), 2)
