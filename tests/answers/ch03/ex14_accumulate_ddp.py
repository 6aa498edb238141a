# %% right · the forward decides
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        with ddp.no_sync() if number < len(micro_batches) else nullcontext():
            outputs = ddp(inputs)
        (loss_fn(outputs, targets) / len(micro_batches)).backward()

# %% right · the first ones past the wrapper
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        model = ddp if number == len(micro_batches) else ddp.module
        (loss_fn(model(inputs), targets) / len(micro_batches)).backward()

# %% wrong · all 4 backwards have sent theirs
# -         is_last = number == len(micro_batches)
# +         is_last = number == len(micro_batches)
# +         loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)

# %% wrong · nothing is averaged over the ranks: each has
# - nullcontext() if is_last else ddp.no_sync():
# + ddp.no_sync():

# %% wrong · times the bytes of one all-reduce
# - number == len(micro_batches)
# + number >= max(len(micro_batches) - 1, 1)

# %% wrong · this is the sum over the micro-batches
# - / len(micro_batches)
# + * 1

# %% wrong · 16 samples pass through the model at once
def accumulate_ddp(ddp, loss_fn, micro_batches):
    inputs, targets = map(torch.cat, zip(*micro_batches))
    loss_fn(ddp(inputs), targets).backward()

# %% wrong · a loss keeps all activations
def accumulate_ddp(ddp, loss_fn, micro_batches):
    losses = [loss_fn(ddp(inputs), targets) for inputs, targets in micro_batches]
    (sum(losses) / len(losses)).backward()

# %% wrong · averages in a backward whose forward went through `ddp`
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for inputs, targets in micro_batches:
        (loss_fn(ddp.module(inputs), targets) / len(micro_batches)).backward()

# %% wrong · and was not under no_sync()
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        with ddp.no_sync():
            loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
        if number == len(micro_batches):
            loss.backward()
        else:
            with ddp.no_sync():
                loss.backward()
