# %% right · a clock read before and after each part
def time_step(ddp, loss_fn, inputs, targets):
    with ddp.no_sync():
        a = now()
        loss = loss_fn(ddp(inputs), targets)
        b = now()
        loss.backward()
        c = now()
    d = now()
    loss = loss_fn(ddp(inputs), targets)
    e = now()
    loss.backward()
    f = now()
    return b - a, c - b, (f - e) - (c - b)

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

# %% wrong · not the backward alone
# -     with ddp.no_sync():
# -         began = now()
# -         loss = loss_fn(ddp(inputs), targets)
# -         forward_done = now()
# +     began = now()
# +     loss = loss_fn(ddp(inputs), targets)
# +     forward_done = now()
# +     with ddp.no_sync():
# -         backward_done = now()
# +     backward_done = now()

# %% wrong · Run one of them
def time_step(ddp, loss_fn, inputs, targets) -> tuple[float, float, float]:
    began = now()
    loss = loss_fn(ddp(inputs), targets)
    forward_done = now()
    loss.backward()
    backward_done = now()
    loss = loss_fn(ddp(inputs), targets)
    again = now()
    loss.backward()
    backward = backward_done - forward_done
    return forward_done - began, backward, now() - again - backward

# %% wrong · neither backward communicates
# -     loss = loss_fn(ddp(inputs), targets)
# -     again = now()
# -     loss.backward()
# +         loss = loss_fn(ddp(inputs), targets)
# +         again = now()
# +         loss.backward()

# %% wrong · backward is that of the one which
# -     return forward_done - began, backward, now() - again - backward
# +     both = now() - again
# +     return forward_done - began, both, both - backward

# %% wrong · the third is the whole backward
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, now() - again

# %% wrong · read the clock again between
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, now() - backward_done - backward

# %% wrong · the whole second step
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, now() - backward_done

# %% wrong · minus the one without.
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, backward - (now() - again)

# %% wrong · the backward under no_sync.
# -     return forward_done - began, backward, now() - again - backward
# +     both = now() - again
# +     return forward_done - began, both, backward - both

# %% wrong · Subtract, and do not divide
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, (now() - again) / backward

# %% wrong · Leave out the division
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, (now() - again) / backward - 1

# %% wrong · Subtract the backward alone
# -     return forward_done - began, backward, now() - again - backward
# +     added = now() - again - backward
# +     return forward_done - began, backward, added / (backward_done - began)

# %% wrong · Subtract only
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward, 1 - backward / (now() - again)

# %% wrong · It is in no part
# -         loss = loss_fn(ddp(inputs), targets)
# +         outputs = ddp(inputs)
# +         model_done = now()
# +         loss = loss_fn(outputs, targets)
# -     return forward_done - began, backward, now() - again - backward
# +     return model_done - began, backward, now() - again - backward

# %% wrong · Here it is in the backward.
# -         loss = loss_fn(ddp(inputs), targets)
# -         forward_done = now()
# +         outputs = ddp(inputs)
# +         forward_done = now()
# +         loss = loss_fn(outputs, targets)
# -         backward_done = now()
# -     loss = loss_fn(ddp(inputs), targets)
# -     again = now()
# +         backward_done = now()
# +     outputs = ddp(inputs)
# +     again = now()
# +     loss = loss_fn(outputs, targets)

# %% wrong · Here it is in what
# -         loss = loss_fn(ddp(inputs), targets)
# +         outputs = ddp(inputs)
# +         model_done = now()
# +         loss = loss_fn(outputs, targets)
# -         backward_done = now()
# -     loss = loss_fn(ddp(inputs), targets)
# -     again = now()
# +         backward_done = now()
# +     outputs = ddp(inputs)
# +     again = now()
# +     loss = loss_fn(outputs, targets)
# -     return forward_done - began, backward, now() - again - backward
# +     return model_done - began, backward, now() - again - backward

# %% wrong · between them, too
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward_done - began, now() - again - backward

# %% wrong · communication with it
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, backward_done - began, now() - again

# %% wrong · ends before loss.backward()
# -     return forward_done - began, backward, now() - again - backward
# +     return backward_done - began, backward, now() - again - backward

# %% wrong · the time of one
# -     return forward_done - began, backward, now() - again - backward
# +     forward = forward_done - began + again - backward_done
# +     return forward, backward, now() - again - backward

# %% wrong · in another order: forward, backward, communication
# -     return forward_done - began, backward, now() - again - backward
# +     return forward_done - began, now() - again - backward, backward

# %% wrong · another order: forward comes first
# -     return forward_done - began, backward, now() - again - backward
# +     return backward, forward_done - began, now() - again - backward

# %% wrong · forward first, communication last
# -     return forward_done - began, backward, now() - again - backward
# +     return now() - again - backward, backward, forward_done - began

# %% wrong · milliseconds
# -     return forward_done - began, backward, now() - again - backward
# +     seconds = forward_done - began, backward, now() - again - backward
# +     return [1000 * part for part in seconds]

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
def time_step(ddp, loss_fn, inputs, targets) -> tuple[float, float, float]:
    for _ in range(3):
        with ddp.no_sync():
            began = now()
            loss = loss_fn(ddp(inputs), targets)
            forward_done = now()
            loss.backward()
            backward_done = now()
    loss = loss_fn(ddp(inputs), targets)
    again = now()
    loss.backward()
    backward = backward_done - forward_done
    return forward_done - began, backward, now() - again - backward

# %% wrong · a backward frees its graph
def time_step(ddp, loss_fn, inputs, targets) -> tuple[float, float, float]:
    began = now()
    loss = loss_fn(ddp(inputs), targets)
    forward_done = now()
    with ddp.no_sync():
        loss.backward()
    backward_done = now()
    again = now()
    loss.backward()
    backward = backward_done - forward_done
    return forward_done - began, backward, now() - again - backward

# %% wrong · one forward for both backwards
def time_step(ddp, loss_fn, inputs, targets) -> tuple[float, float, float]:
    began = now()
    loss = loss_fn(ddp(inputs), targets)
    forward_done = now()
    with ddp.no_sync():
        loss.backward(retain_graph=True)
    backward_done = now()
    again = now()
    loss.backward()
    backward = backward_done - forward_done
    return forward_done - began, backward, now() - again - backward

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

# %% wrong · what your function returns is its last line
# -     return forward_done - began, backward, now() - again - backward
