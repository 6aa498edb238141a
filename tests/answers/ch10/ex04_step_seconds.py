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
