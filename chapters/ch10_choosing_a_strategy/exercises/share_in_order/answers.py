# %% right · two loops
def share_in_order(predicted, measured):
    right = total = 0
    for i in range(len(predicted)):
        for j in range(i):
            total += 1
            if (predicted[i] - predicted[j]) * (measured[i] - measured[j]) > 0:
                right += 1
    return right / total

# %% right · sorted by what is measured
from itertools import combinations
def share_in_order(predicted, measured):
    by_time = [p for _, p in sorted(zip(measured, predicted))]
    pairs = list(combinations(by_time, 2))
    return sum(a < b for a, b in pairs) / len(pairs)

# %% wrong · in their place
def share_in_order(predicted, measured):
    order = lambda times: sorted(range(len(times)), key=lambda i: times[i])
    return sum(a == b for a, b in zip(order(predicted), order(measured))) / len(predicted)

# %% wrong · how many pairs are right
from itertools import combinations
def share_in_order(predicted, measured):
    return sum((predicted[i] < predicted[j]) == (measured[i] < measured[j])
               for i, j in combinations(range(len(predicted)), 2))

# %% right · sorted in by halving
from bisect import bisect, insort
from math import comb
def share_in_order(predicted, measured):
    seen, right = [], 0
    for _, seconds in sorted(zip(predicted, measured)):
        right += bisect(seen, seconds)
        insort(seen, seconds)
    return right / comb(len(seen), 2)

# %% wrong · if the second plan of a pair is the faster one
from itertools import combinations
def share_in_order(predicted, measured):
    pairs = list(combinations(zip(predicted, measured), 2))
    return sum(a < c and b < d for (a, b), (c, d) in pairs) / len(pairs)

# %% wrong · twice as many pairs as there are
from itertools import permutations
def share_in_order(predicted, measured):
    pairs = list(permutations(zip(predicted, measured), 2))
    return sum(a < c and b < d for (a, b), (c, d) in pairs) / len(pairs)

# %% wrong · this looks at the first pair alone
def share_in_order(predicted, measured):
    right = pairs = 0
    for i in range(len(predicted)):
        for j in range(i):
            pairs += 1
            right += (predicted[i] < predicted[j]) == (measured[i] < measured[j])
            return right / pairs

# %% wrong · this is a correlation
import numpy as np
def share_in_order(predicted, measured):
    return np.corrcoef(predicted, measured)[0, 1]

# %% wrong · each list is sorted on its own
from itertools import combinations
def share_in_order(predicted, measured):
    pairs = list(combinations(zip(sorted(predicted), sorted(measured)), 2))
    return sum((a < c) == (b < d) for (a, b), (c, d) in pairs) / len(pairs)
