# %% right · the first ones, then the last
def accumulate_ddp(ddp, loss_fn, micro_batches):
    *first, (inputs, targets) = micro_batches
    with ddp.no_sync():
        for pair in first:
            (loss_fn(ddp(pair[0]), pair[1]) / len(micro_batches)).backward()
    (loss_fn(ddp(inputs), targets) / len(micro_batches)).backward()

# %% right · the attribute that no_sync sets
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        ddp.require_backward_grad_sync = number == len(micro_batches)
        loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
        loss.backward()

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
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
        if number == len(micro_batches):
            loss.backward()
        else:
            with ddp.no_sync():
                loss.backward()

# %% wrong · nothing is averaged over the ranks: each has
# -         with nullcontext() if is_last else ddp.no_sync():
# +         with ddp.no_sync():

# %% wrong · times the bytes of one all-reduce
# -         is_last = number == len(micro_batches)
# +         is_last = number >= max(len(micro_batches) - 1, 1)

# %% wrong · all 4 backwards have sent theirs
# -         is_last = number == len(micro_batches)
# +         is_last = number == len(micro_batches)
# +         loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)

# %% wrong · nothing is averaged over the ranks: each has
def accumulate_ddp(ddp, loss_fn, micro_batches):
    with ddp.no_sync():
        losses = [loss_fn(ddp(inputs), targets) for inputs, targets in micro_batches]
    (sum(losses) / len(losses)).backward()

# %% wrong · 16 samples pass through the model at once
def accumulate_ddp(ddp, loss_fn, micro_batches):
    inputs, targets = map(torch.cat, zip(*micro_batches))
    loss_fn(ddp(inputs), targets).backward()
