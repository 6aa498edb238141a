# %% given
from torch.utils.data import DataLoader, Sampler

class CountingSampler(Sampler):
    def __init__(self, order, position=0):
        self.order, self.position = order, position

    def __iter__(self):
        while self.position < len(self.order):
            self.position += 1
            yield self.order[self.position - 1]

# %% right · by its shape
# -         position += len(batch)
# +         position += batch.shape[0]

# %% right · from the order itself
def train_until_told(dataset, order, position, train, told):
    loader = DataLoader(dataset, batch_size=4, sampler=order[position:], num_workers=2)
    for batch in loader:
        train(batch)
        position = position + len(batch)
        if told():
            return position
    return position

# %% right · a number of batches, cut off at the end
def train_until_told(dataset, order, position, train, told):
    sampler = CountingSampler(order, position)
    loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
    for number, batch in enumerate(loader, start=1):
        train(batch)
        if told():
            break
    return min(position + 4 * number, len(order))

# %% wrong · what the sampler has been asked for
# -         position += len(batch)
# +         position = sampler.position

# %% wrong · is not always the same
# -         position += len(batch)
# +         position = sampler.position - 16

# %% wrong · the last batch may be shorter
# -         position += len(batch)
# +         position += 4

# %% wrong · that is a number of batches
# -         position += len(batch)
# +         position += 1

# %% wrong · the rank reads by itself
def train_until_told(dataset, order, position, train, told):
    sampler = CountingSampler(order, position)
    for batch in DataLoader(dataset, batch_size=4, sampler=sampler):
        train(batch)
        position = sampler.position
        if told():
            break
    return position

# %% wrong · count a batch before the loop is left
# -         position += len(batch)

# -             break
# +             break
# +         position += len(batch)

# %% wrong · will be trained on again
# -         position += len(batch)

# %% wrong · the count begins at 0 in each life
# -     for batch in loader:
# +     position = 0
# +     for batch in loader:

# %% wrong · when told() is true
# -         if told():
# -             break

# %% wrong · a whole number
# -     return position

# %% wrong · every batch that comes out of the loader
# -         train(batch)
# +         if len(batch) == 4:
# +             train(batch)
