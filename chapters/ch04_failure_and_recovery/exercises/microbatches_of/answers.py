# %% right · neighbours, by rounding
def microbatches_of(rank, n, m):
    return list(range(rank * m // n, (rank + 1) * m // n))

# %% right · tensor_split
def microbatches_of(rank, n, m):
    return torch.arange(m).tensor_split(n)[rank].tolist()

# %% right · one by one
def microbatches_of(rank, n, m):
    return [k for k in range(m) if k % n == rank]

# %% right · from the last one on, into one list again and again
MINE = []

def microbatches_of(rank, n, m):
    MINE.clear()
    MINE.extend(range(m - 1 - rank, -1, -n))
    return MINE

# %% right · a deck that is shuffled, everywhere in the same way, and each hand in its own
import random

def microbatches_of(rank, n, m):
    deck = list(range(m))
    random.Random(0).shuffle(deck)
    return random.sample(deck[rank::n], len(deck[rank::n]))

# %% wrong · and what is left over has nobody
def microbatches_of(rank, n, m):
    each = m // n
    return list(range(rank * each, (rank + 1) * each))

# %% wrong · the number rounded up
def microbatches_of(rank, n, m):
    each = -(-m // n)
    return list(range(rank * each, min((rank + 1) * each, m)))

# %% wrong · one rank takes all that is left over
def microbatches_of(rank, n, m):
    each = m // n
    return list(range(rank * each, m if rank == n - 1 else (rank + 1) * each))

# %% wrong · every rank has all micro-batches
def microbatches_of(rank, n, m):
    return list(range(m))

# %% wrong · all ranks have the same ones
def microbatches_of(rank, n, m):
    return list(range(m // n))

# %% wrong · the numbers 0 to m - 1
def microbatches_of(rank, n, m):
    return list(range(rank + 1, m + 1, n))

# %% wrong · as ranks have 0 to n - 1
def microbatches_of(rank, n, m):
    return list(range(rank + 1, m, n))

# %% wrong · as ranks have 0 to n - 1
def microbatches_of(rank, n, m):
    return [k for k in range(m) if k % n == rank + 1]

# %% wrong · as ranks have 0 to n - 1
def microbatches_of(rank, n, m):
    return list(range((rank - 1) * m // n, rank * m // n))

# %% wrong · as ranks have 0 to n - 1
def microbatches_of(rank, n, m):
    return list(range((rank + 1) * m // n, (rank + 2) * m // n))

# %% wrong · that of micro-batches
def microbatches_of(rank, n, m):
    return list(range(rank, n, m))

# %% wrong · the one with its own number
def microbatches_of(rank, n, m):
    return [rank]

# %% wrong · nobody has micro-batch 3 the last micro-batch has the number m - 1
def microbatches_of(rank, n, m):
    return list(range(rank, m - 1, n))

# %% wrong · no micro-batch 4 the last micro-batch has the number m - 1
def microbatches_of(rank, n, m):
    return list(range(rank, m + 1, n))

# %% wrong · has to step over one of each other rank
def microbatches_of(rank, n, m):
    return list(range(rank, m))

# %% wrong · has to step over one of each other rank
def microbatches_of(rank, n, m):
    return list(range(rank, m, n + 1))

# %% wrong · has to step over one of each other rank
def microbatches_of(rank, n, m):
    return list(range(rank, m, m // n))

# %% wrong · nobody has micro-batch 1 each rank has a block
def microbatches_of(rank, n, m):
    return list(range(rank * m // n, (rank + 1) * m // n - 1))

# %% wrong · no micro-batch 4 each rank has a block
def microbatches_of(rank, n, m):
    return list(range(rank * m // n, (rank + 1) * m // n + 1))

# %% wrong · A block begins where the block of the rank before has ended
def microbatches_of(rank, n, m):
    each = m // n + (rank < m % n)
    return list(range(rank * each, rank * each + each))

# %% wrong · ranks before may have one more
def microbatches_of(rank, n, m):
    each, left = divmod(m, n)
    first = rank * each + min(rank, left)
    return list(range(first, first + each + (rank <= left)))

# %% wrong · not all of them do
def microbatches_of(rank, n, m):
    each = m // n + 1
    return list(range(rank * each, rank * each + each))

# %% wrong · not all of them do
def microbatches_of(rank, n, m):
    each = -(-m // n)
    return list(range(rank * each, rank * each + each))

# %% wrong · a list of whole numbers
def microbatches_of(rank, n, m):
    return m // n + (rank < m % n)

# %% wrong · a list of whole numbers
def microbatches_of(rank, n, m):
    return (k for k in range(rank, m, n))

# %% wrong · no rank has two more than another
def microbatches_of(rank, n, m):
    if m < 2 * n:
        return list(range(rank, m, n))
    return list(range(1 if rank == 0 else 2 * rank - 1, 2 * rank + 1)) + (
        [0] + list(range(2 * n - 1, m)) if rank == 0 else [])

# %% wrong · a list of whole numbers
def microbatches_of(rank, n, m):
    list(range(rank, m, n))

# %% wrong · neither chance, nor what other calls have left behind
import random

def microbatches_of(rank, n, m):
    deck = list(range(m))
    random.shuffle(deck)
    return deck[rank::n]

# %% wrong · neither chance, nor what other calls have left behind
import random

DECK = []

def microbatches_of(rank, n, m):
    if rank == 0:
        DECK[:] = random.sample(range(m), m)
    return DECK[rank::n]

# %% wrong · neither chance, nor what other calls have left behind
def microbatches_of(rank, n, m, left=[]):
    if not left:
        left.extend(range(m))
    return [left.pop(0) for _ in range(m // n + (rank < m % n))]

# %% wrong · asked again
DECKS = {}

def microbatches_of(rank, n, m):
    deck = DECKS.setdefault((n, m), list(range(m)))
    return [deck.pop() for _ in range(m // n + (rank < m % n))]

# %% wrong · each rank is a process of its own
import random

DECKS = {}

def microbatches_of(rank, n, m):
    if m not in DECKS:
        DECKS[m] = random.sample(range(m), m)
    return DECKS[m][rank::n]

# %% wrong · m // n is 0, and some ranks have none
def microbatches_of(rank, n, m):
    return [k for k in range(rank, m, n) if k // (m // n) >= 0]

# %% wrong · n - 1 is 0 here
def microbatches_of(rank, n, m):
    return [k for k in range(rank, m, n) if k // (n - 1) >= 0]

# %% wrong · m % n is 0 where nothing is left over
def microbatches_of(rank, n, m):
    each, left = divmod(m, n)
    first = rank * each + min(rank, rank % left)
    return list(range(first, first + each + (rank < left)))

# %% wrong · is given: `rank` and `n`
def microbatches_of(rank, n, m):
    return list(range(dist.get_rank(), m, dist.get_world_size()))
