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
    number = 0
    for number, batch in enumerate(loader, start=1):
        train(batch)
        if told():
            break
    return min(position + 4 * number, len(order))

# %% wrong · what the workers have been asked for
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

# %% wrong · the last, short batch is never trained on
# -         train(batch)
# +         if len(batch) == 4:
# +             train(batch)

# %% wrong · the last, short batch is never trained on
# -     loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
# +     loader = DataLoader(dataset, 4, sampler=sampler, num_workers=2, drop_last=True)

# %% wrong · it has len(batch) samples
def train_until_told(dataset, order, position, train, told):
    loader = DataLoader(dataset, 4, sampler=CountingSampler(order, position), num_workers=2)
    for number, batch in enumerate(loader, start=1):
        train(batch)
        if told():
            return position + 4 * number
    return len(order)

# %% wrong · then no batch comes
def train_until_told(dataset, order, position, train, told):
    loader = DataLoader(dataset, 4, sampler=CountingSampler(order, position), num_workers=2)
    for number, batch in enumerate(loader, start=1):
        train(batch)
        if told():
            break
    return min(position + 4 * number, len(order))

# %% wrong · a life begins with the next one
def train_until_told(dataset, order, position, train, told):
    loader = DataLoader(dataset, batch_size=4, sampler=order, num_workers=2)
    for batch in loader:
        train(batch)
        position += len(batch)
        if told():
            break
    return position

# %% wrong · a life begins with the next one
import itertools

def train_until_told(dataset, order, position, train, told):
    loader = DataLoader(dataset, batch_size=4, sampler=order, num_workers=2)
    for batch in itertools.islice(loader, position // 4, None):
        train(batch)
        position += len(batch)
        if told():
            break
    return position

# %% wrong · others make another training run
# -     loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
# +     loader = DataLoader(dataset, sampler=sampler, num_workers=2)

# %% wrong · told() is asked once after each batch
# -         if told():
# +         if told() and told():

# %% wrong · told() is asked once after each batch
# -         if told():
# -             break

# -         train(batch)
# +         if told():
# +             break
# +         train(batch)

# %% wrong · the position is ahead of the training
# -     loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
# +     loader = DataLoader(dataset, 4, sampler=sampler, num_workers=2, prefetch_factor=1)
# -         position += len(batch)
# +         position = sampler.position

# %% wrong · two workers that read by turns
# -     loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=2, prefetch_factor=2)
# +     loader = DataLoader(dataset, batch_size=4, sampler=sampler, num_workers=1, prefetch_factor=4)

# %% wrong · nothing is read ahead
def train_until_told(dataset, order, position, train, told):
    while position < len(order):
        some = order[position : position + 4]
        train(next(iter(DataLoader(dataset, 4, sampler=some, num_workers=2))))
        position += len(some)
        if told():
            break
    return position

# %% wrong · If all batches are read before training begins
# -     for batch in loader:
# +     for batch in list(loader):

# %% wrong · it may be an image
# -         position += len(batch)
# +         position = order.index(int(batch[-1])) + 1
