# %% right · a dictionary of totals
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), {machine: 0 for machine in machine_of}
    for place in range(n):
        here, there = order[place], order[(place + 1) % n]
        if machine_of[here] != machine_of[there]:
            totals[machine_of[here]] += 2 * (n - 1) / n * nbytes
    return [totals[machine] for machine in sorted(totals)]

# %% right · counting links that leave
def card_bytes(order, machine_of, nbytes):
    n = len(order)
    machines = [machine_of[rank] for rank in order]
    leave = [m for m, following in zip(machines, machines[1:] + machines[:1]) if m != following]
    return [leave.count(m) * 2 * (n - 1) * nbytes / n for m in range(max(machine_of) + 1)]

# %% wrong · one number for each machine
def card_bytes(order, machine_of, nbytes):
    n = len(order)
    return [2 * (n - 1) / n * nbytes for _ in order]

# %% wrong · a function without `return` gives None
def card_bytes(order, machine_of, nbytes):
    totals = [0] * (max(machine_of) + 1)

# %% wrong · add them up, with +=
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for place, rank in enumerate(order):
        if machine_of[rank] != machine_of[order[(place + 1) % n]]:
            totals[machine_of[rank]] = 2 * (n - 1) / n * nbytes
    return totals

# %% wrong · order[0], which need not be rank 0
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for rank, following in zip(order, order[1:] + [0]):
        if machine_of[rank] != machine_of[following]:
            totals[machine_of[rank]] += 2 * (n - 1) / n * nbytes
    return totals

# %% wrong · the machine at place i is machine_of[order[i]]
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for i in range(n):
        if machine_of[order[i]] != machine_of[order[(i + 1) % n]]:
            totals[machine_of[i]] += 2 * (n - 1) / n * nbytes
    return totals

# %% wrong · (place + 1) % n leads there
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for i in range(n):
        if machine_of[order[i]] != machine_of[order[i + 1]]:
            totals[machine_of[order[i]]] += 2 * (n - 1) / n * nbytes
    return totals

# %% wrong · 2 here
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * len(machine_of)
    for place, rank in enumerate(order):
        if machine_of[rank] != machine_of[order[(place + 1) % n]]:
            totals[machine_of[rank]] += 2 * (n - 1) / n * nbytes
    return totals

# %% wrong · inside the loop
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for place, rank in enumerate(order):
        if machine_of[rank] != machine_of[order[(place + 1) % n]]:
            totals[machine_of[rank]] += 2 * (n - 1) / n * nbytes
            return totals

# %% right · a Counter
from collections import Counter
def card_bytes(order, machine_of, nbytes):
    n = len(order)
    links = Counter(machine_of[order[i - 1]] for i in range(n) if machine_of[order[i - 1]] != machine_of[order[i]])
    return [links[m] * 2 * (n - 1) * nbytes / n for m in sorted(set(machine_of))]

# %% right · step by step, as the ring sends
def card_bytes(order, machine_of, nbytes):
    n, out = len(order), [0] * len(set(machine_of))
    for half in range(2):
        for step in range(n - 1):
            for i in range(n):
                a, b = machine_of[order[i]], machine_of[order[(i + 1) % n]]
                if a != b:
                    out[a] += nbytes / n
    return out

# %% wrong · need not be whole numbers of bytes
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0] * (max(machine_of) + 1)
    for i in range(n):
        a, b = machine_of[order[i]], machine_of[order[(i + 1) % n]]
        if a != b:
            totals[a] += 2 * (n - 1) * (nbytes // n)
    return totals

# %% wrong · need not be whole numbers of bytes
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0] * (max(machine_of) + 1)
    for i in range(n):
        a, b = machine_of[order[i]], machine_of[order[(i + 1) % n]]
        if a != b:
            totals[a] += int(2 * (n - 1) * nbytes / n)
    return totals

# %% wrong · look at the links
def card_bytes(order, machine_of, nbytes):
    return [nbytes / 2 for _ in set(machine_of)]

# %% wrong · with a lower number
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for i in range(n):
        a, b = machine_of[order[i]], machine_of[order[(i + 1) % n]]
        if a < b:
            totals[a] += 2 * (n - 1) * nbytes / n
    return totals

# %% wrong · the rank at a place of the ring
def card_bytes(order, machine_of, nbytes):
    n, totals = len(order), [0.0] * (max(machine_of) + 1)
    for rank in range(n):
        following = order[(rank + 1) % n]
        if machine_of[rank] != machine_of[following]:
            totals[machine_of[rank]] += 2 * (n - 1) * nbytes / n
    return totals
