# %% right · places in their documents, one after another
def pairs_per_rank(cu_seqlens, places):
    sizes = [end - start for start, end in zip(cu_seqlens, cu_seqlens[1:])]
    seen = torch.cat([torch.arange(1, size + 1) for size in sizes])
    return [seen[mine].sum().item() for mine in places]

# %% right · by bisection
from bisect import bisect_right

def pairs_per_rank(cu_seqlens, places):
    def keys_of(place):
        return place - cu_seqlens[bisect_right(cu_seqlens, place) - 1] + 1
    return [sum(map(keys_of, mine.tolist())) for mine in places]

# %% right · document by document
def pairs_per_rank(cu_seqlens, places):
    found = []
    for mine in places:
        total = 0
        for start, end in zip(cu_seqlens, cu_seqlens[1:]):
            inside = mine[(mine >= start) & (mine < end)]
            total += int((inside - start + 1).sum())
        found.append(total)
    return found

# %% wrong · this takes the row for one document
def pairs_per_rank(cu_seqlens, places):
    return [int((mine + 1).sum()) for mine in places]

# %% wrong · a query sees its own key, too
# -     return [int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
# +     return [int((mine - starts[torch.bucketize(mine, starts, right=True) - 1]).sum())

# %% wrong · is counted with the document before
# -     return [int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
# +     return [int((mine - starts[torch.bucketize(mine, starts) - 1] + 1).sum())

# %% wrong · is counted with the document before
from bisect import bisect_left

def pairs_per_rank(cu_seqlens, places):
    def keys_of(place):
        return place - cu_seqlens[max(bisect_left(cu_seqlens, place) - 1, 0)] + 1
    return [sum(map(keys_of, mine.tolist())) for mine in places]

# %% wrong · that are not later, and not all of them
def pairs_per_rank(cu_seqlens, places):
    sizes = [end - start for start, end in zip(cu_seqlens, cu_seqlens[1:])]
    seen = torch.cat([torch.full((size,), size) for size in sizes])
    return [int(seen[mine].sum()) for mine in places]

# %% wrong · the keys may be on any rank
def pairs_per_rank(cu_seqlens, places):
    starts = torch.tensor(cu_seqlens)
    found = []
    for mine in places:
        document = torch.bucketize(mine, starts, right=True)
        found.append(int((document.unsqueeze(-1) == document).tril().sum()))
    return found

# %% wrong · places are those in the row
def pairs_per_rank(cu_seqlens, places):
    return [len(mine) * (len(mine) + 1) // 2 for mine in places]

# %% wrong · this shares all pairs out equally
def pairs_per_rank(cu_seqlens, places):
    total = sum((b - a) * (b - a + 1) // 2 for a, b in zip(cu_seqlens, cu_seqlens[1:]))
    return [total // len(places)] * len(places)

# %% wrong · these are the pairs of each document
def pairs_per_rank(cu_seqlens, places):
    return [(b - a) * (b - a + 1) // 2 for a, b in zip(cu_seqlens, cu_seqlens[1:])]

# %% wrong · and not how long they are
def pairs_per_rank(cu_seqlens, places):
    starts = torch.tensor([0, *cu_seqlens]).cumsum(0)
    return [int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
            for mine in places]

# %% wrong · and not the sum of all ranks
# -     return [int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
# -             for mine in places]
# +     return sum(int((mine - starts[torch.bucketize(mine, starts, right=True) - 1] + 1).sum())
# +                for mine in places)
