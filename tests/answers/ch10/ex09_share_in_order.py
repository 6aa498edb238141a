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
