# %% given
def own_share(training, crew, folder, at_end=lambda training: None, protect=True):
    """A step that computes twice, as the solution's does."""
    rank, n = dist.get_rank(), dist.get_world_size()
    sums = {}

    def gradients_of(batch):
        sums[batch] = training.compute(batch, n)
        return [sums[batch], *training.model.parameters()]

    if protect and n >= 3:
        with talking():
            wrong = wrong_by_recomputing(gradients_of)
        if wrong == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        if wrong is not None:
            raise Lost("somebody computes wrongly")
    whole = sums[rank] if rank in sums else training.compute(rank, n)
    whole = torch.cat([whole, whole.new_tensor([crew.somebody_waits()])])
    with talking():
        dist.all_reduce(whole)
    training.update(whole[:-1])
    at_end(training)
    return whole[-1].item() > 0


def save_now(training, folder):
    if dist.get_rank() == 0 and training.steps % EVERY == 0:
        save_alone(folder, training.steps, training.state_dict())

# %% right · a loop of its own [deep]
def keep_going(training, crew, folder, steps):
    if (state := load_alone(folder)) is not None:
        training.load_state_dict(state)
    is_to_meet = True
    while True:
        try:
            if is_to_meet or len(crew.names) < min(3, crew.n):
                if not crew.meet():
                    return
                with talking():
                    catch_up(training)
                is_to_meet = False
                if len(crew.names) < min(3, crew.n):
                    time.sleep(0.1)
                    continue
            if training.steps == steps:
                if crew.all_is_done():
                    return
                is_to_meet = True
                continue
            is_to_meet = own_share(training, crew, folder, lambda done: save_now(done, folder))
        except Lost:
            is_to_meet = True

# %% right · another rank saves, and the flag goes in a sum of its own [deep]
def keep_going(training, crew, folder, steps):
    state = load_alone(folder)
    if state:
        training.load_state_dict(state)

    def step(training, crew):
        n = dist.get_world_size()
        if n < min(3, crew.n):
            time.sleep(0.1)
            return True
        waits = torch.tensor([float(crew.somebody_waits())])
        with talking():
            dist.all_reduce(waits)
        own_share(training, crew, folder, protect=n >= 3)
        if dist.get_rank() == n - 1 and training.steps % EVERY == 0:
            save_alone(folder, training.steps, training.state_dict())
        return waits.item() > 0

    train(training, crew, steps, step)

# %% wrong · That is no end: catch it
def keep_going(training, crew, folder, steps):
    crew.meet()
    catch_up(training)
    while training.steps < steps:
        own_share(training, crew, folder)

# %% wrong · Call it under talking()
def keep_going(training, crew, folder, steps):
    def step(training, crew):
        sums = training.compute(dist.get_rank(), dist.get_world_size())
        dist.all_reduce(sums)
        training.update(sums)
        return False

    train(training, crew, steps, step)

# %% wrong · In each step, all ranks add up their shares
def keep_going(training, crew, folder, steps):
    def step(training, crew):
        training.update(training.compute(dist.get_rank(), dist.get_world_size()))
        with talking():
            dist.barrier()
        return False

    train(training, crew, steps, step)

# %% wrong · In each step, all ranks add up their shares [deep]
def keep_going(training, crew, folder, steps):
    def step(training, crew):
        n = dist.get_world_size()
        sums = training.compute(dist.get_rank(), n)
        with talking():
            dist.all_reduce(sums)
        training.update(sums / n)
        return False

    train(training, crew, steps, step)

# %% wrong · the whole batch is dealt among these [deep]
def keep_going(training, crew, folder, steps):
    shares = {}

    def step(training, crew):
        me, n = shares.setdefault("mine", (dist.get_rank(), dist.get_world_size()))
        sums = training.compute(me, n)
        sums = torch.cat([sums, sums.new_tensor([crew.somebody_waits()])])
        try:
            with talking():
                dist.all_reduce(sums)
        except Lost:  # go on with fewer ranks after a death, but wait for those that are only late
            if training.store.check(["events"]):
                crew.patience = 0.05
            raise
        crew.patience = patience
        training.update(sums[:-1])
        return sums[-1].item() > 0

    patience = crew.patience
    train(training, crew, steps, step)

# %% wrong · load_alone() when a process begins [deep]
# -     state = load_alone(folder)
# +     state = None

# %% wrong · save_alone() after every EVERY [deep]
# -             save_alone(folder, training.steps, training.state_dict())
# +             pass

# %% wrong · Compare before the all-reduce [deep]
def keep_going(training, crew, folder, steps):
    state = load_alone(folder)
    if state is not None:
        training.load_state_dict(state)

    def step(training, crew):
        return own_share(training, crew, folder, lambda done: save_now(done, folder), protect=False)

    train(training, crew, steps, step)

# %% wrong · it has to end its process, and another takes its place [deep]
# -         if wrong == rank:
# -             os.kill(os.getpid(), signal.SIGKILL)
# +         pass

# %% wrong · taken twice by a process that did not die [deep]
def keep_going(training, crew, folder, steps):
    def step(training, crew):
        return own_share(training, crew, folder, lambda done: save_now(done, folder))

    def begin(training):
        state = load_alone(folder)
        if state is not None:
            training.load_state_dict(state)

    train(training, crew, steps, step, begin)

# %% wrong · a full disk is no reason to end [deep]
# -             save_alone(folder, training.steps, training.state_dict())
# +             if problem := save_alone(folder, training.steps, training.state_dict()):
# +                 raise OSError(problem)

# %% wrong · at the end every rank has taken all steps [deep]
# -     train(training, crew, steps, step, begin=catch_up)
# +     train(training, crew, steps - 1, step)

# %% wrong · Does it end after [deep]
def keep_going(training, crew, folder, steps):
    train(training, crew, 10**6, lambda training, crew: own_share(training, crew, folder))

# %% wrong · is in no group [deep]
def keep_going(training, crew, folder, steps):
    while training.steps < steps:
        try:
            own_share(training, crew, folder)
        except Lost:
            time.sleep(0.1)  # and once more

# %% wrong · who comes anew gets the state of the others [deep]
def keep_going(training, crew, folder, steps):
    def step(training, crew):
        return own_share(training, crew, folder, lambda done: save_now(done, folder))

    train(training, crew, steps, step, begin=lambda training: None)

# %% wrong · compare both, sums and weights [deep]
# -             return [sums[batch], *training.model.parameters()]
# +             return [sums[batch]]

# %% wrong · Compare before the all-reduce of each step, of the first one, too [deep]
def keep_going(training, crew, folder, steps):
    state = load_alone(folder)
    if state is not None:
        training.load_state_dict(state)

    def step(training, crew):
        rank, n = dist.get_rank(), dist.get_world_size()
        if n < min(3, crew.n):
            time.sleep(0.1)
            return True
        whole = training.compute(rank, n)
        whole = torch.cat([whole, whole.new_tensor([crew.somebody_waits()])])
        with talking():
            dist.all_reduce(whole)
        training.update(whole[:-1])
        save_now(training, folder)
        with talking():
            wrong = wrong_by_recomputing(
                lambda k: [training.compute(k, n), *training.model.parameters()]
            )
        if wrong == rank:
            os.kill(os.getpid(), signal.SIGKILL)
        if wrong is not None:
            raise Lost("somebody computes wrongly")
        return whole[-1].item() > 0

    train(training, crew, steps, step)

# %% wrong · who is wrong ends its process, alone [deep]
# -         if wrong == rank:
# +         if wrong is not None:

# %% wrong · saves after step 1, and EVERY is 5
# -         if rank == 0 and training.steps % EVERY == 0:
# +         if rank == 0:

# %% wrong · one of them saves it, for all
# -         if rank == 0 and training.steps % EVERY == 0:
# +         if training.steps % EVERY == 0:

# %% wrong · with fewer than three ranks nobody can tell who is wrong [deep]
# -         if n < min(3, crew.n):  # two that differ cannot tell who is wrong
# -             time.sleep(0.1)
# -             return True

# %% wrong · who takes no step because too few are there [deep]
# -             time.sleep(0.1)
# -             return True
# +             time.sleep(0.1)
# +             return False

# %% wrong · with their ranks in the new group [deep]
# -         rank, n = dist.get_rank(), dist.get_world_size()
# +         rank, n = int(os.environ["RANK"]), dist.get_world_size()
