# %% right · the last samples are left out, and a seed of its own
# - DistributedSampler(dataset)
# + DistributedSampler(dataset, seed=7, drop_last=True)

# %% right · each rank shuffles a part that stays its own, and gradients are averaged by hand
def train_epochs(model, dataset, loss_fn, epochs, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    mine = [(rank + i) % len(dataset) for i in range(0, len(dataset), n)]
    mine = torch.utils.data.Subset(dataset, mine)
    for epoch in range(epochs):
        for inputs, labels in DataLoader(mine, batch_size=samples, shuffle=True):
            optimizer.zero_grad()
            loss_fn(model(inputs), labels).backward()
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= n
            optimizer.step()

# %% wrong · `labels` is used before
# -         for inputs, labels in dataloader:
# +         for batch in dataloader:
# +             inputs, labels = batch, labels

# %% wrong · a model takes the inputs
# - inputs, labels in dataloader:
# + inputs in dataloader:

# %% wrong · 24 are taken by 2 ranks every rank goes through the whole dataset
# - sampler=sampler)
# + shuffle=True)

# %% wrong · all ranks compute one gradient
# - , sampler=sampler)
# + )

# %% wrong · who shuffles?
# - sampler=sampler)
# + sampler=sampler, shuffle=True)

# %% wrong · epoch 2 has the order of epoch 0 the order is shuffled, and the same in each epoch
# -         sampler.set_epoch(epoch)

# %% wrong · epoch 1 repeats epoch 0
# -         sampler.set_epoch(epoch)
# -         for inputs, labels in dataloader:
# +         for inputs, labels in dataloader:
# +             sampler.set_epoch(epoch)

# %% wrong · nothing shuffles
# - DistributedSampler(dataset)
# + DistributedSampler(dataset, shuffle=False)

# %% wrong · that is the sampler, not the one
# -         sampler.set_epoch(epoch)
# +         dataloader.set_epoch(epoch)

# %% wrong · 12 are taken by nobody all ranks take the same part
# - DistributedSampler(dataset)
# + DistributedSampler(dataset, num_replicas=dist.get_world_size(), rank=0)

# %% wrong · the ranks do not agree on the order
# - DistributedSampler(dataset)
# + DistributedSampler(dataset, seed=dist.get_rank())

# %% wrong · expected [5, 5, 2] `batch_size` is what each rank takes in a step
# - batch_size=batch_size, sampler=sampler)
# + batch_size=batch_size // dist.get_world_size(), sampler=sampler)

# %% wrong · it belongs to the epoch
# - sampler=sampler)
# + sampler=sampler, drop_last=True)

# %% wrong · some ranks have a batch more
# -     sampler = DistributedSampler(dataset)
# +     mine = range(len(dataset))[dist.get_rank() :: dist.get_world_size()]
# +     sampler = torch.utils.data.SubsetRandomSampler(mine)
# -         sampler.set_epoch(epoch)

# %% wrong · each rank has trained on its own
# -     model = DistributedDataParallel(model)

# %% wrong · train it, and no copy
# -     model = DistributedDataParallel(model)
# +     model = DistributedDataParallel(copy.deepcopy(model))

# %% wrong · run in each epoch, from its beginning
# -     optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
# +     optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
# +     dataloader = iter(dataloader)

# %% wrong · is there a loop, and
# - range(epochs):
# + range(0):

# %% wrong · rank 0 reads 72 samples, and trains on 36 each rank reads the others' samples, too
# -     dataloader = DataLoader(dataset, batch_size=batch_size, sampler=sampler)
# +     rank, n, alike = dist.get_rank(), dist.get_world_size(), torch.Generator()
# +     dataloader = DataLoader(dataset, batch_size=batch_size * n, shuffle=True, generator=alike)
# -         for inputs, labels in dataloader:
# +         for inputs, labels in dataloader:
# +             inputs, labels = inputs[rank::n], labels[rank::n]

# %% right · without a DataLoader, a common order of its own
def train_epochs(model, dataset, loss_fn, epochs, samples):
    rank, n = dist.get_rank(), dist.get_world_size()
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for epoch in range(epochs):
        order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(epoch))
        order = torch.cat([order, order])[: -(-len(dataset) // n) * n]
        for some in order[rank::n].split(samples):
            inputs, labels = (torch.stack(x) for x in zip(*[dataset[i] for i in some.tolist()]))
            optimizer.zero_grad()
            loss_fn(ddp(inputs), labels).backward()
            optimizer.step()

# %% wrong · is an epoch missing?
# - range(epochs):
# + range(1, epochs):

# %% wrong · are in evaluation mode
# -     model = DistributedDataParallel(model)
# +     model = DistributedDataParallel(model.eval())

# %% wrong · are its gradients cleared between backward() and step()
def train_epochs(model, dataset, loss_fn, epochs, samples):
    sampler = DistributedSampler(dataset)
    ddp = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in DataLoader(dataset, samples, sampler=sampler):
            loss_fn(ddp(inputs), labels).backward()
            optimizer.zero_grad()
            optimizer.step()

# %% wrong · did they start equal?
def train_epochs(model, dataset, loss_fn, epochs, samples):
    sampler = DistributedSampler(dataset)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for inputs, labels in DataLoader(dataset, samples, sampler=sampler):
            optimizer.zero_grad()
            loss_fn(model(inputs), labels).backward()
            for p in model.parameters():
                dist.all_reduce(p.grad)
                p.grad /= dist.get_world_size()
            optimizer.step()

# %% wrong · does the division count all ranks
# - DistributedSampler(dataset)
# + DistributedSampler(dataset, num_replicas=2, rank=dist.get_rank() % 2)

# %% wrong · what the model gives comes first
# -             loss = loss_fn(model(inputs), labels)
# +             loss = loss_fn(labels, model(inputs))

# %% wrong · loss_fn was never called
# -             loss = loss_fn(model(inputs), labels)
# +             loss = ((model(inputs) - labels) ** 2).mean()
