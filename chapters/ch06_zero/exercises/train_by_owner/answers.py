# %% right · a test in the loop
# -         numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
# -         # It was:
# -         # numbered = list(enumerate(p for p in model.parameters() if p.grad is not None))
# -         for number, p in numbered:
# +         numbered = enumerate(model.parameters())
# +         for number, p in numbered:
# +             if p.grad is None:
# +                 continue

# %% right · numbers by first use, and everybody gets the sum
# -     rank, n = dist.get_rank(), dist.get_world_size()
# +     rank, n = dist.get_rank(), dist.get_world_size()
# +     order = {}
# -         for number, p in numbered:
# +         for _, p in numbered:
# +             number = order.setdefault(p, len(order))
# -             dist.reduce(p.grad, owner)
# +             dist.all_reduce(p.grad)

# %% right · one optimizer for all that a rank owns
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    owner = {p: k % n for k, p in enumerate(model.parameters())}
    mine = [p for p in owner if owner[p] == rank]
    optimizer = make_optimizer(mine) if mine else None
    for inputs, targets in batches:
        model.zero_grad()
        loss_fn(model(inputs), targets).backward()
        used = [p for p in model.parameters() if p.grad is not None]
        for p in used:
            dist.reduce(p.grad.div_(n), owner[p])
            if owner[p] != rank:
                p.grad = None
        if mine:
            optimizer.step()
        for p in used:
            dist.broadcast(p.data, owner[p])

# %% right · neighbours have one owner
# -             owner = number % n
# +             owner = number * n // len(list(model.parameters()))

# %% wrong · layers ac, abc: ranks 0, 1 have optimizer state for c.weight the owner alone is to have
# -         numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
# +         numbered = list(enumerate(p for p in model.parameters() if p.grad is not None))

# %% wrong · gradients are summed up; asked
# -                 p.grad /= n

# %% wrong · nobody tells the others
# -             dist.broadcast(p.detach(), owner)

# %% wrong · it never changes, on any rank
# -             dist.broadcast(p.detach(), owner)
# +             dist.broadcast(p.detach(), 0)

# %% wrong · Who puts zeros there?
# -         model.zero_grad()
# +         model.zero_grad(set_to_none=False)

# %% wrong · that of some steps may be on one rank
# -             owner = number % n
# +             owner = (number + (len(numbered) < 5)) % n

# %% wrong · what does this step take over
# -         model.zero_grad()

# %% wrong · nothing is saved: the owner alone
# -             dist.reduce(p.grad, owner)
# -             if rank == owner:
# +             dist.all_reduce(p.grad)
# +             if p.requires_grad:

# %% wrong · so each has about as many
# -             owner = number % n
# +             owner = 0

# %% wrong · its `.grad` is None
# -         numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
# +         numbered = list(enumerate(model.parameters()))

# %% wrong · p.detach() has the same memory
# -                 optimizers[p].step()
# +                 p -= 0.1 * p.grad

# %% wrong · the same order: the owner and the others
# -             dist.broadcast(p.detach(), owner)
# +                 dist.broadcast(p.detach(), owner)

# %% wrong · alone is to have the optimizer's state for a parameter
# -             dist.reduce(p.grad, owner)
# -             if rank == owner:
# +             dist.all_reduce(p.grad)
# +             if rank in (owner, (owner + 1) % 3):

# %% wrong · hash() of a text is another number in each process
# -         numbered = [(k, p) for k, p in enumerate(model.parameters()) if p.grad is not None]
# +         named = model.named_parameters()
# +         numbered = [(hash(name), p) for name, p in named if p.grad is not None]

# %% wrong · Besides, a.weight has had an optimizer, and gets a new one
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    for inputs, targets in batches:
        model.zero_grad()
        loss_fn(model(inputs), targets).backward()
        for number, p in enumerate(p for p in model.parameters() if p.grad is not None):
            owner = number % n
            dist.reduce(p.grad, owner)
            if rank == owner:
                p.grad /= n
                make_optimizer([p]).step()
            dist.broadcast(p.detach(), owner)

# %% wrong · a rank that owns nothing needs no optimizer
def train_by_owner(model, loss_fn, batches, make_optimizer):
    rank, n = dist.get_rank(), dist.get_world_size()
    owner = {p: k % n for k, p in enumerate(model.parameters())}
    optimizer = make_optimizer([p for p in owner if owner[p] == rank])
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss_fn(model(inputs), targets).backward()
        used = [p for p in model.parameters() if p.grad is not None]
        for p in used:
            dist.reduce(p.grad.div_(n), owner[p])
            if owner[p] != rank:
                p.grad = None
        optimizer.step()
        for p in used:
            dist.broadcast(p.data, owner[p])
