# %% right · two phases
def accumulate_sharded(model, loss_fn, micro_batches):
    *early, (inputs, targets) = micro_batches
    n = len(micro_batches)
    model.set_requires_gradient_sync(False)
    for x, y in early:
        (loss_fn(model(x), y) / n).backward()
    model.set_requires_gradient_sync(True)
    (loss_fn(model(inputs), targets) / n).backward()

# %% right · units stay for the next micro-batch
# -         model.set_requires_gradient_sync(number == count - 1)
# +         is_last = number + 1 == count
# +         for unit in (*model.blocks, model):
# +             unit.set_requires_gradient_sync(is_last, recurse=False)
# +         model.set_reshard_after_backward(is_last)

# %% right · divided at the end
def accumulate_sharded(model, loss_fn, micro_batches):
    left = len(micro_batches)
    for inputs, targets in micro_batches:
        left -= 1
        model.set_requires_gradient_sync(not left)
        loss_fn(model(inputs), targets).backward()
    for p in model.parameters():
        p.grad /= len(micro_batches)

# %% wrong · each micro-batch reduces
# -         model.set_requires_gradient_sync(number == count - 1)

# %% wrong · each micro-batch reduces
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_is_last_backward(number == count - 1)

# %% wrong · the last backward has to reduce
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(False)

# %% wrong · some units reduce in each micro-batch
# -         model.set_requires_gradient_sync(number == count - 1)
# +         model.set_requires_gradient_sync(number == count - 1, recurse=False)

# %% wrong · the micro-batches are summed up
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         loss_fn(model(inputs), targets).backward()

# %% wrong · FSDP2 has averaged over them
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model(inputs), targets) / count / dist.get_world_size()).backward()

# %% wrong · as if it were all
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         if number == count - 1:
# +             loss_fn(model(inputs), targets).backward()

# %% wrong · a program that does not accumulate later
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model(inputs), targets) / count).backward()
# +     model.set_requires_gradient_sync(False)

# %% wrong · called in place of the model
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(model.forward(inputs), targets) / count).backward()

# %% wrong · takes the outputs first
# -         (loss_fn(model(inputs), targets) / count).backward()
# +         (loss_fn(targets, model(inputs)) / count).backward()
