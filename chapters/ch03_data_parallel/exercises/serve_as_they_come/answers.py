# %% right · a gradient of their length
# -     gradient = torch.empty_like(parameters_to_vector(model.parameters()))
# +     gradient = torch.empty(sum(p.numel() for p in model.parameters()))

# %% right · begun and waited for, and a tensor
# -         dist.send(order_of(model, going_on), worker)
# +         dist.isend(order_of(model, going_on), worker).wait()
# -     return staleness
# +     return torch.tensor(staleness)

# %% right · without its helpers
def serve_as_they_come(model, optimizer, is_over):
    parameters, updates, ages = list(model.parameters()), 0, []
    mark = lambda on: torch.tensor([1.0 if on else 0.0])
    weights = lambda: torch.cat([p.detach().flatten() for p in parameters])
    sent_at = {worker: 0 for worker in range(1, dist.get_world_size())}
    for worker in sent_at:
        dist.send(torch.cat([mark(True), weights()]), dst=worker)
    over = False
    while sent_at:
        gradient = torch.zeros(len(weights()))
        worker = dist.recv(gradient)
        ages.append(updates - sent_at[worker])
        for p in parameters:
            p.grad, gradient = gradient[: p.numel()].reshape(p.shape), gradient[p.numel() :]
        optimizer.step()
        optimizer.zero_grad()
        updates += 1
        over = over or is_over(updates)
        sent_at[worker] = updates
        dist.send(torch.cat([mark(not over), weights()]), dst=worker)
        if over:
            del sent_at[worker]
    return tuple(ages)

# %% right · with a thread for each worker
def serve_as_they_come(model, optimizer, is_over):
    import threading
    lock, ages = threading.Lock(), []

    @torch.no_grad()
    def serve_one(worker):
        gradient = torch.empty(sum(p.numel() for p in model.parameters()))
        version, going_on = 0, True
        while going_on:
            dist.recv(gradient, worker)
            with lock:
                ages.append(len(ages) - version)
                take_step(model, optimizer, gradient)
                version = len(ages)
                going_on = not is_over(version)
                order = order_of(model, going_on)
            dist.send(order, worker)

    workers = range(1, dist.get_world_size())
    for worker in workers:
        dist.send(order_of(model, True).detach(), worker)
    threads = [threading.Thread(target=serve_one, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ages

# %% wrong · that is BSP
@torch.no_grad()
def serve_as_they_come(model, optimizer, is_over):
    return serve_together(model, optimizer, is_over)

# %% wrong · you take the workers in turn
# -         worker = dist.recv(gradient)  # from anybody
# +         worker = 1 + len(staleness) % (dist.get_world_size() - 1)
# +         dist.recv(gradient, worker)

# %% wrong · for weights to begin with
# -         dist.send(order_of(model, True), worker)

# %% wrong · for new weights
# -         dist.send(order_of(model, going_on), worker)

# %% wrong · whoever was sent a 1 pushes once more
# -     staleness, version_of = [], {}
# +     staleness, version_of = [], {}
# +     going_on = True
# -     while version_of:
# +     while going_on:

# %% wrong · waits for an answer
# -     staleness, version_of = [], {}
# +     staleness, version_of = [], {}
# +     going_on = True
# -     while version_of:
# +     while going_on:
# -         dist.send(order_of(model, going_on), worker)
# +         if going_on:
# +             dist.send(order_of(model, True), worker)

# %% wrong · which is about to push
# -         dist.send(order_of(model, going_on), worker)
# +         for peer in range(1, dist.get_world_size()):
# +             dist.send(order_of(model, going_on), peer)

# %% wrong · and every worker has ended
# -     while version_of:
# +     while True:

# %% wrong · is_over(…) after each update
# -         going_on = not is_over(len(staleness))
# +         going_on = True

# %% wrong · it goes on for too long
# -         going_on = not is_over(len(staleness))
# +         going_on = not is_over(len(staleness) - 1)

# %% wrong · it is over too early
# -         going_on = not is_over(len(staleness))
# +         going_on = not is_over(len(staleness) + 1)

# %% wrong · also those that are pushed
# -     staleness, version_of = [], {}
# +     staleness, version_of = [], {}
# +     going_on = True
# -         take_step(model, optimizer, gradient)
# +         if going_on:
# +             take_step(model, optimizer, gradient)

# %% wrong · by optimizer.step()
# -         take_step(model, optimizer, gradient)
# +         for p, g in zip(model.parameters(), gradient.split([2, 1])):
# +             p -= 0.5 * g.view_as(p)

# %% wrong · divided by the number of workers
# -         take_step(model, optimizer, gradient)
# +         take_step(model, optimizer, gradient / (dist.get_world_size() - 1))

# %% wrong · its sign is turned round
# -         take_step(model, optimizer, gradient)
# +         take_step(model, optimizer, -gradient)

# %% wrong · the gradients before it are still in it
# -     staleness, version_of = [], {}
# +     staleness, version_of = [], {}
# +     total = 0
# -         take_step(model, optimizer, gradient)
# +         total = total + gradient
# +         take_step(model, optimizer, total)

# %% wrong · when recv has returned
# -     staleness, version_of = [], {}
# +     staleness, version_of = [], {}
# +     old = torch.zeros_like(gradient)
# -         take_step(model, optimizer, gradient)
# +         take_step(model, optimizer, old)
# +         old = gradient.clone()

# %% wrong · is None when
# -         take_step(model, optimizer, gradient)
# +         optimizer.zero_grad()
# +         optimizer.step()

# %% wrong · one push, one step
# -         take_step(model, optimizer, gradient)
# +         take_step(model, optimizer, gradient)
# +         take_step(model, optimizer, gradient)

# %% wrong · the answer was made before the step
# -         worker = dist.recv(gradient)  # from anybody
# +         worker = dist.recv(gradient)  # from anybody
# +         order = order_of(model, not is_over(len(staleness) + 1))
# -         dist.send(order_of(model, going_on), worker)
# +         dist.send(order, worker)

# %% wrong · call it anew
# -     staleness, version_of = [], {}
# +     staleness, version_of = [], {}
# +     order = order_of(model, True)
# -         dist.send(order_of(model, going_on), worker)
# +         order[0] = going_on
# +         dist.send(order, worker)

# %% wrong · the mark is missing
# -         dist.send(order_of(model, True), worker)
# +         dist.send(order_of(model, True)[1:], worker)

# %% wrong · send what order_of
# -         dist.send(order_of(model, going_on), worker)
# +         dist.send(torch.ones(4) * going_on, worker)

# %% wrong · each one is a mark and all weights
# -         dist.send(order_of(model, going_on), worker)
# +         dist.send(order_of(model, going_on)[: 4 if going_on else 1], worker)

# %% wrong · the two sides of a message differ in length
# -         dist.send(order_of(model, True), worker)
# +         dist.send(torch.cat([order_of(model, True)] * 2), worker)

# %% wrong · you note the one before it
# -             version_of[worker] = len(staleness)
# +             version_of[worker] = len(staleness) - 1

# %% wrong · a list
# -     return staleness
# +     return sum(staleness) / len(staleness)

# %% wrong · without `return`
# -     return staleness

# %% wrong · only optimizer.step() may move them
# -             version_of[worker] = len(staleness)
# +             version_of[worker] = len(staleness)
# +     model.bias.data.zero_()

# %% right · staleness by counting the pushes since, and more questions than needed
@torch.no_grad()
def serve_as_they_come(model, optimizer, is_over):
    gradient = torch.empty_like(parameters_to_vector(model.parameters()))
    workers, history, found = set(range(1, dist.get_world_size())), [], []
    for request in [dist.isend(order_of(model, not is_over(0)), w) for w in workers]:
        request.wait()
    while workers:
        worker = dist.recv(gradient)
        found.append(history[::-1].index(worker) if worker in history else len(history))
        history.append(worker)
        take_step(model, optimizer, gradient)
        dist.send(order_of(model, not is_over(len(history))), worker)
        if is_over(len(history)):
            workers.discard(worker)
    return found

# %% right · asked no more when it is over
# -         going_on = not is_over(len(staleness))
# +         going_on = len(version_of) == dist.get_world_size() - 2 and not is_over(len(staleness))

# %% wrong · a whole number
# -     return staleness
# +     return [float(age) for age in staleness]

# %% wrong · or of updates since
# -         take_step(model, optimizer, gradient)
# +         take_step(model, optimizer, gradient / (1 + staleness[-1]))
