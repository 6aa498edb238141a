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

# %% wrong · are swapped
# -         bytes_per_second, latency = link
# +         latency, bytes_per_second = link

# %% wrong · a function without `return`
# -     return step_seconds(between) / step_seconds(inside)
# +     step_seconds(between) / step_seconds(inside)

# %% wrong · upside down
# -     return step_seconds(between) / step_seconds(inside)
# +     return step_seconds(inside) / step_seconds(between)
