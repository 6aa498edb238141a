# %% right · two steps, the other way round
def time_step(ddp, loss_fn, inputs, targets):
    def run():
        times = [now()]
        loss = loss_fn(ddp(inputs), targets)
        times.append(now())
        loss.backward()
        times.append(now())
        return [after - before for before, after in zip(times, times[1:])]

    _, synchronized = run()
    with ddp.no_sync():
        forward, alone = run()
    return torch.tensor([forward, alone, synchronized - alone], dtype=torch.float64)

# %% right · the flag that no_sync sets
def time_step(ddp, loss_fn, inputs, targets):
    marks = []
    for ddp.require_backward_grad_sync in (False, True):
        marks += [now()]
        outputs = ddp(inputs)
        loss = loss_fn(outputs, targets)
        marks += [now()]
        torch.autograd.backward(loss)
        marks += [now()]
    a, b, c, d, e, f = marks
    return {"forward": e - d, "backward": c - b, "communication": (f - e) - (c - b)}.values()

# %% right · a stopwatch
class Stopwatch:
    def __enter__(self):
        self.began = now()
        return self

    def __exit__(self, *error):
        self.seconds = now() - self.began


def time_step(ddp, loss_fn, inputs, targets):
    forward, alone, with_communication = Stopwatch(), Stopwatch(), Stopwatch()
    with ddp.no_sync(), forward:
        loss = loss_fn(ddp(inputs), targets)
    with ddp.no_sync(), alone:
        loss.backward()
    ddp.zero_grad()
    loss = loss_fn(ddp(inputs), targets)
    with with_communication:
        loss.backward()
    return forward.seconds, alone.seconds, with_communication.seconds - alone.seconds

# %% wrong · Run one of them
# -     with ddp.no_sync():
# +     if True:

# %% wrong · readings of the clock
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done, backward_done, now()

# %% wrong · waits for all that has begun
# -     with ddp.no_sync():
# +     now = time.perf_counter
# +     with ddp.no_sync():

# %% wrong · read the clock with now(), before
# -     with ddp.no_sync():
# +     now = time.process_time
# +     with ddp.no_sync():

# %% wrong · no backward has run
def time_step(ddp, loss_fn, inputs, targets) -> tuple[float, float, float]:
    loss_fn(ddp(inputs), targets)
    return 0, 0, 0

# %% wrong · are enough
# -     with ddp.no_sync():
# +     with ddp.no_sync():
# +         loss_fn(ddp(inputs), targets)

# %% wrong · a backward frees its graph
# -         backward_done = now()
# -     loss = loss_fn(ddp(inputs), targets)
# +         backward_done = now()

# %% wrong · one forward for both backwards
# -         loss.backward()
# -         backward_done = now()
# -     loss = loss_fn(ddp(inputs), targets)
# +         loss.backward(retain_graph=True)
# +         backward_done = now()

# %% wrong · is a method
# -     with ddp.no_sync():
# +     with ddp.no_sync:

# %% wrong · (outputs, targets)
# -         loss = loss_fn(ddp(inputs), targets)
# +         loss = loss_fn(targets, ddp(inputs))
# -         backward_done = now()
# -     loss = loss_fn(ddp(inputs), targets)
# +         backward_done = now()
# +     loss = loss_fn(targets, ddp(inputs))

# %% wrong · return three numbers
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began

# %% wrong · a function without `return` gives None
# -     return forward_done - began, backward, now() - again - backward

# %% wrong · subtract one backward from the other
def time_step(ddp, loss_fn, inputs, targets):
    with ddp.no_sync():
        began = now()
        loss = loss_fn(ddp(inputs), targets)
        forward_done = now()
        loss.backward()
        first_done = now()
    loss_fn(ddp(inputs), targets).backward()
    whole = first_done - began
    return forward_done - began, first_done - forward_done, now() - first_done - whole

# %% wrong · this is rounded to 3 digits
# -     return forward_done - began, backward, now() - again - backward
# +     times = forward_done - began, backward, now() - again - backward
# +     return [round(seconds, 3) for seconds in times]

# %% wrong · it returned ('2.25', '5.5', '11.0')
# -     return forward_done - began, backward, now() - again - backward
# +     return str(forward_done - began), str(backward), str(now() - again - backward)

# %% wrong · each rank would train on its own
def time_step(ddp, loss_fn, inputs, targets):
    marks = []
    for ddp.require_backward_grad_sync in (True, False):
        marks += [now()]
        loss = loss_fn(ddp(inputs), targets)
        marks += [now()]
        loss.backward()
        marks += [now()]
    a, b, c, d, e, f = marks
    return e - d, f - e, (c - b) - (f - e)

# %% wrong · the weights have changed
# -     backward = backward_done - forward_done
# +     backward = backward_done - forward_done
# +     for parameter in ddp.parameters():
# +         parameter.data.zero_()

# %% wrong · it belongs to the caller
# -     backward = backward_done - forward_done
# +     backward = backward_done - forward_done
# +     targets.zero_()
