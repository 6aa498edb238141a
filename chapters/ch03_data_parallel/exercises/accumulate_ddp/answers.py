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

# %% wrong · the activations of 3 micro-batches are held at once
def accumulate_ddp(ddp, loss_fn, micro_batches):
    *first, (inputs, targets) = micro_batches
    with ddp.no_sync():
        losses = [loss_fn(ddp(x), y) / len(micro_batches) for x, y in first]
        for loss in losses:
            loss.backward()
    (loss_fn(ddp(inputs), targets) / len(micro_batches)).backward()

# %% wrong · and with retain_graph=True for longer
# -             loss.backward()
# +             loss.backward(retain_graph=True)
# +         ddp.kept = [*getattr(ddp, "kept", []), loss]

# %% wrong · each rank would train on its own
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        ddp.require_backward_grad_sync = number == len(micro_batches)
        (loss_fn(ddp(inputs), targets) / len(micro_batches)).backward()
    ddp.require_backward_grad_sync = False

# %% wrong · the list that was given had 4 entries, and has 0 now
def accumulate_ddp(ddp, loss_fn, micro_batches):
    number = len(micro_batches)
    while micro_batches:
        inputs, targets = micro_batches.pop()
        with ddp.no_sync() if micro_batches else nullcontext():
            (loss_fn(ddp(inputs), targets) / number).backward()

# %% wrong · here they are turned round
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = loss_fn(targets, ddp(inputs)) / len(micro_batches)

# %% wrong · this is the mean squared error
# -             loss = loss_fn(ddp(inputs), targets) / len(micro_batches)
# +             loss = ((ddp(inputs) - targets) ** 2).mean() / len(micro_batches)

# %% wrong · only an optimizer's step changes weights
def accumulate_ddp(ddp, loss_fn, micro_batches):
    for number, (inputs, targets) in enumerate(micro_batches, 1):
        with ddp.no_sync() if number < len(micro_batches) else nullcontext():
            (loss_fn(ddp(inputs), targets) / len(micro_batches)).backward()
    for parameter in ddp.parameters():
        parameter.data -= 0.01 * parameter.grad
