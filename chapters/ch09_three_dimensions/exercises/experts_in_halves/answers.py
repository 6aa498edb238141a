# %% right · two loops
def experts_in_halves(halves, there, experts, back):
    coming, returning = [], []
    for number, rows in enumerate(halves):
        coming.append(there(rows, number))
    for number in range(len(halves)):
        coming[number].wait()
        returning.append(back(experts(coming[number].rows, number), number))
    for transfer in returning:
        transfer.wait()
    return [transfer.rows for transfer in returning]


# %% right · the next half is sent just before the experts run
def experts_in_halves(halves, there, experts, back):
    next_one, returning = there(halves[0], 0), []
    for number in range(len(halves)):
        rows = next_one.wait()
        if number + 1 < len(halves):
            next_one = there(halves[number + 1], number + 1)
        returning.append(back(experts(rows, number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · send the next half first
def experts_in_halves(halves, there, experts, back):
    returning = []
    for number, rows in enumerate(halves):
        returning.append(back(experts(there(rows, number).wait(), number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · and only then wait for the next one
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    arrived = [transfer.wait() for transfer in coming]
    returning = [back(experts(rows, number), number) for number, rows in enumerate(arrived)]
    return [transfer.wait() for transfer in returning]


# %% wrong · as soon as its experts are done
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    done = [experts(transfer.wait(), number) for number, transfer in enumerate(coming)]
    returning = [back(y, number) for number, y in enumerate(done)]
    return [transfer.wait() for transfer in returning]


# %% wrong · wait for the ways back at the end
def experts_in_halves(halves, there, experts, back):
    coming, results = [there(rows, number) for number, rows in enumerate(halves)], []
    for number, transfer in enumerate(coming):
        results.append(back(experts(transfer.wait(), number), number).wait())
    return results


# %% wrong · which has to come before the experts
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = []
    for number, transfer in enumerate(coming):
        returning.append(back(experts(transfer.rows, number), number))
    for transfer in coming + returning:
        transfer.wait()
    return [transfer.rows for transfer in returning]


# %% wrong · not all ways back have been waited for
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = []
    for number, transfer in enumerate(coming):
        returning.append(back(experts(transfer.wait(), number), number))
    return [transfer.rows for transfer in returning]


# %% wrong · through no expert
def experts_in_halves(halves, there, experts, back):
    coming, returning = [there(rows, number) for number, rows in enumerate(halves)], []
    for number, transfer in enumerate(coming):
        rows = transfer.wait()
        experts(rows, number)
        returning.append(back(rows, number))
    return [transfer.wait() for transfer in returning]


# %% wrong · the first one is first
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = []
    for number, transfer in enumerate(coming):
        returning.insert(0, back(experts(transfer.wait(), number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · one for each half
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = []
    for number, transfer in enumerate(coming):
        returning.append(back(experts(transfer.wait(), number), number))
    return torch.cat([transfer.wait() for transfer in returning])


# %% wrong · a transfer's wait() returns one
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = [back(experts(x, number), number) for number, x in enumerate(coming)]
    return [transfer.wait() for transfer in returning]


# %% wrong · new tensors for results
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    for rows in halves:
        rows.zero_()  # their memory is not needed any more
    returning = []
    for number, transfer in enumerate(coming):
        returning.append(back(experts(transfer.wait(), number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · send the next half first
def experts_in_halves(halves, there, experts, back):
    results = []
    for first in range(0, len(halves), 2):  # pairs of halves
        coming = [there(rows, first + k) for k, rows in enumerate(halves[first : first + 2])]
        returning = [back(experts(t.wait(), first + k), first + k) for k, t in enumerate(coming)]
        results += [transfer.wait() for transfer in returning]
    return results


# %% wrong · and only then wait for the next one
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    returning = [back(experts(coming[0].wait(), 0), 0)]
    arrived = [transfer.wait() for transfer in coming[1:]]
    returning += [back(experts(rows, number), number) for number, rows in enumerate(arrived, 1)]
    return [transfer.wait() for transfer in returning]


# %% wrong · wait for the ways back at the end
def experts_in_halves(halves, there, experts, back):
    coming, results = [there(rows, number) for number, rows in enumerate(halves)], []
    first = back(experts(coming[0].wait(), 0), 0)
    for number, transfer in enumerate(coming[1:], 1):
        results.append(back(experts(transfer.wait(), number), number).wait())
    return [first.wait(), *results]


# %% wrong · lists of your own
def experts_in_halves(halves, there, experts, back):
    coming = []
    while halves:
        coming.append(there(halves.pop(0), len(coming)))
    returning = [back(experts(x.wait(), number), number) for number, x in enumerate(coming)]
    return [transfer.wait() for transfer in returning]


# %% wrong · call them once for each half
def experts_in_halves(halves, there, experts, back):
    coming, returning = [there(rows, number) for number, rows in enumerate(halves)], []
    for number, transfer in enumerate(coming):
        experts(transfer.wait(), number)
        returning.append(back(experts(transfer.rows, number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · that half's own number
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, 0) for rows in halves]
    returning = [back(experts(transfer.wait(), 0), 0) for transfer in coming]
    return [transfer.wait() for transfer in returning]


# %% wrong · the halves go in order
def experts_in_halves(halves, there, experts, back):
    coming, returning = [there(rows, number) for number, rows in enumerate(halves)], []
    while coming:
        number = len(coming) - 1
        returning.insert(0, back(experts(coming.pop().wait(), number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · the rows that came to it
def experts_in_halves(halves, there, experts, back):
    coming, returning = [there(rows, number) for number, rows in enumerate(halves)], []
    for number, transfer in enumerate(coming):
        transfer.wait()
        returning.append(back(experts(halves[number], number), number))
    return [transfer.wait() for transfer in returning]


# %% wrong · any number of halves, even one
def experts_in_halves(halves, there, experts, back):
    a, b = halves
    first, second = there(a, 0), there(b, 1)
    first = back(experts(first.wait(), 0), 0)
    second = back(experts(second.wait(), 1), 1)
    return [first.wait(), second.wait()]


# %% wrong · asked are tensors
def experts_in_halves(halves, there, experts, back):
    coming = [there(rows, number) for number, rows in enumerate(halves)]
    return [back(experts(x.wait(), number), number) for number, x in enumerate(coming)]
