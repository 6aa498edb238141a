# %% right · rounds times messages
def slowdown(compute_seconds, sums, sum_bytes, n, inside, between):
    def step(link, rounds=2 * (n - 1), size=sum_bytes / n):
        return compute_seconds + sums * rounds * (link[1] + size / link[0])
    return step(between) / step(inside)

# %% right · a loop over messages, in bits and milliseconds
def slowdown(compute_seconds, sums, sum_bytes, n, inside, between):
    found = []
    for rate, latency in (inside, between):
        total = 1000 * compute_seconds
        for message in range(sums * (2 * n - 2)):
            total += 1000 * latency + 8000 * sum_bytes / (8 * rate * n)
        found.append(total)
    return found[1] / found[0]

# %% wrong · how much longer the messages take
# -     def step_seconds(link):
# +     compute_seconds = 0
# +     def step_seconds(link):

# %% wrong · a ring all-reduce goes round twice
# -         return compute_seconds + sums * 2 * (n - 1) * message
# +         return compute_seconds + sums * (n - 1) * message

# %% wrong · and a ring all-reduce goes round twice
# -         return compute_seconds + sums * 2 * (n - 1) * message
# +         return compute_seconds + sums * 2 * message

# %% wrong · is one of n chunks
# -         message = latency + sum_bytes / n / bytes_per_second
# +         message = latency + sum_bytes / bytes_per_second

# %% wrong · not once for an all-reduce
# -         message = latency + sum_bytes / n / bytes_per_second
# -         return compute_seconds + sums * 2 * (n - 1) * message
# +         message = sum_bytes / n / bytes_per_second
# +         return compute_seconds + sums * (latency + 2 * (n - 1) * message)

# %% wrong · the latency is missing
# -         message = latency + sum_bytes / n / bytes_per_second
# +         message = sum_bytes / n / bytes_per_second

# %% wrong · upside down
# -     return step_seconds(between) / step_seconds(inside)
# +     return step_seconds(inside) / step_seconds(between)

# %% wrong · asked is how many times as long it takes
# -     return step_seconds(between) / step_seconds(inside)
# +     return step_seconds(between) / step_seconds(inside) - 1

# %% wrong · these are seconds
# -     return step_seconds(between) / step_seconds(inside)
# +     return step_seconds(between)

# %% wrong · all-reduces in a step
# -     def step_seconds(link):
# +     sums = 1
# +     def step_seconds(link):

# %% wrong · inside and between are pairs
# -         bytes_per_second, latency = link
# -         message = latency + sum_bytes / n / bytes_per_second
# +         _, latency = link
# +         message = latency + sum_bytes / n / link

# %% wrong · in this order
# -         bytes_per_second, latency = link
# +         latency, bytes_per_second = link
# -     return step_seconds(between) / step_seconds(inside)
# +     return step_seconds((between[0], between[1] * 0)) / step_seconds((inside[0], inside[1] * 0))

# %% wrong · it is what a step computes on each of the n ranks already
# -         return compute_seconds + sums * 2 * (n - 1) * message
# +         return compute_seconds / n + sums * 2 * (n - 1) * message

# %% wrong · how much of the tensor a rank sends, not how many messages
# -         message = latency + sum_bytes / n / bytes_per_second
# -         return compute_seconds + sums * 2 * (n - 1) * message
# +         message = latency + sum_bytes / bytes_per_second
# +         return compute_seconds + sums * 2 * (n - 1) / n * message

# %% wrong · times the ratio of the bandwidths
# -     return step_seconds(between) / step_seconds(inside)
# +     share = (step_seconds(inside) - compute_seconds) / step_seconds(inside)
# +     return 1 - share + share * inside[0] / between[0]

# %% wrong · are swapped
# -         bytes_per_second, latency = link
# +         latency, bytes_per_second = link

# %% wrong · a function without `return`
# -     return step_seconds(between) / step_seconds(inside)
# +     step_seconds(between) / step_seconds(inside)
