# %% right · bits of a number
def choose_recomputed(parts, budget):
    best = None
    for bits in range(2 ** len(parts)):
        chosen = [k for k in range(len(parts)) if bits & 2**k]
        kept = sum(size for k, (size, _) in enumerate(parts) if k not in chosen)
        flops = sum(parts[k][1] for k in chosen)
        if kept <= budget and (best is None or flops < best[0]):
            best = flops, chosen
    return best[1]

# %% right · recursive
def choose_recomputed(parts, budget):
    def solve(number, left):
        if left < 0:
            return float("inf"), ()
        if number == len(parts):
            return 0, ()
        size, flops = parts[number]
        keep = solve(number + 1, left - size)
        cost, chosen = solve(number + 1, left)
        return min(keep, (cost + flops, (number, *chosen)))
    return list(solve(0, budget)[1])

# %% wrong · these parts are kept
# -     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
# +     chosen = min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen))
# +     return [k for k in numbers if k not in chosen]

# %% wrong · most bytes per FLOP are taken first
def choose_recomputed(parts, budget):
    left, chosen = sum(size for size, _ in parts), []
    for k in sorted(range(len(parts)), key=lambda k: -parts[k][0] / parts[k][1]):
        if left > budget:
            chosen.append(k)
            left -= parts[k][0]
    return sorted(chosen)

# %% wrong · the largest parts are taken first
def choose_recomputed(parts, budget):
    left, chosen = sum(size for size, _ in parts), []
    for k in sorted(range(len(parts)), key=lambda k: -parts[k][0]):
        if left > budget:
            chosen.append(k)
            left -= parts[k][0]
    return sorted(chosen)

# %% wrong · the parts with the fewest FLOPs are taken first
def choose_recomputed(parts, budget):
    left, chosen = sum(size for size, _ in parts), []
    for k in sorted(range(len(parts)), key=lambda k: parts[k][1]):
        if left > budget:
            chosen.append(k)
            left -= parts[k][0]
    return sorted(chosen)

# %% wrong · the fewest parts that are enough
# -     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
# +     return list(min(fits, key=lambda chosen: (len(chosen), sum(parts[k][1] for k in chosen))))

# %% wrong · this frees as few bytes as is enough
# -     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
# +     return list(min(fits, key=lambda chosen: sum(parts[k][0] for k in chosen)))

# %% wrong · fits: <=
# -             if sum(parts[k][0] for k in numbers if k not in chosen) <= budget]
# +             if sum(parts[k][0] for k in numbers if k not in chosen) < budget or len(chosen) == len(parts)]

# %% wrong · those of the others have to fit
# -             if sum(parts[k][0] for k in numbers if k not in chosen) <= budget]
# +             if sum(parts[k][0] for k in chosen) >= min(budget, sum(size for size, _ in parts))]

# %% wrong · everything is recomputed
def choose_recomputed(parts, budget):
    return list(range(len(parts)))

# %% wrong · a list of indices
# -     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
# +     return min(sum(parts[k][1] for k in chosen) for chosen in fits)

# %% wrong · in descending order
# -     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
# +     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))[::-1]

# %% wrong · of the recomputed parts are compared with the budget
# -             if sum(parts[k][0] for k in numbers if k not in chosen) <= budget]
# +             if sum(parts[k][0] for k in chosen) <= budget]

# %% wrong · and not parts.index(part)
# -     return list(min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen)))
# +     best = min(fits, key=lambda chosen: sum(parts[k][1] for k in chosen))
# +     return [parts.index(parts[k]) for k in best]
