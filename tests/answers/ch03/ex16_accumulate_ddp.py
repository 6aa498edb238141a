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

# %% right · two ways, written out
def accumulate_ddp(ddp, loss_fn, micro_batches):
    k = len(micro_batches)
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        if number < k:
            with ddp.no_sync():
                loss = loss_fn(ddp(inputs), targets)
                loss.div(k).backward()
        else:
            loss_fn(ddp(inputs), targets).div(k).backward()

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

# %% wrong · only the first micro-batch is averaged
# -         is_last = number == len(micro_batches)
# +         is_last = number == 1

# %% wrong · times the bytes of one all-reduce
# -         is_last = number == len(micro_batches)
# +         is_last = number >= max(len(micro_batches) - 1, 1)

# %% wrong · this is the sum over the micro-batches
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = loss_fn(ddp(inputs), targets)

# %% wrong · by the number of ranks twice
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = loss_fn(ddp(inputs), targets) / len(micro_batches) / dist.get_world_size()

# %% wrong · by the number of micro-batches twice
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = loss_fn(ddp(inputs), targets) / len(micro_batches) / len(micro_batches)

# %% wrong · this is the sum over the ranks
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = loss_fn(ddp(inputs), targets) / len(micro_batches) * dist.get_world_size()

# %% wrong · only the last micro-batch counts: what the others gave
# -     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +         ddp.zero_grad()

# %% wrong · only the last micro-batch counts, as if
# -     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +     for number, (inputs, targets) in enumerate(micro_batches, 1):
# +         ddp.zero_grad()
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = loss_fn(ddp(inputs), targets)

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
