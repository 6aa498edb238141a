# %% right · merged spans, minus what they share
def exposed_seconds(communication, computing):
    def merge(spans):
        merged = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        return merged

    a, b = merge(communication), merge(computing)
    shared = sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)
    return sum(end - start for start, end in a) - shared

# %% right · from edge to edge
def exposed_seconds(communication, computing):
    edges = sorted({edge for span in communication + computing for edge in span})
    total = 0.0
    for start, end in zip(edges, edges[1:]):
        middle = (start + end) / 2
        talks = any(a < middle < b for a, b in communication)
        if talks and not any(a < middle < b for a, b in computing):
            total += end - start
    return total

# %% wrong · this is all the communication
def exposed_seconds(communication, computing):
    total, reached = 0.0, float("-inf")
    for start, end in sorted(communication):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total

# %% wrong · all the computing is subtracted
def exposed_seconds(communication, computing):
    return covered_seconds(communication) - covered_seconds(computing)

# %% wrong · cut off at 0
def exposed_seconds(communication, computing):
    return max(0.0, covered_seconds(communication) - covered_seconds(computing))

# %% wrong · merge the spans of each list first
def exposed_seconds(communication, computing):
    exposed = 0.0
    for a, b in communication:
        exposed += b - a
        for c, d in computing:
            exposed -= max(0.0, min(b, d) - max(a, c))
    return exposed

# %% wrong · changed places
# - if under_way[0] and not under_way[1]:
# + if under_way[1] and not under_way[0]:

# %% wrong · this is what is covered
# - if under_way[0] and not under_way[1]:
# + if under_way[0] and under_way[1]:

# %% wrong · this is the share of the communication
# -     return exposed
# +     return exposed / covered_seconds(communication)

# %% wrong · sort the spans before they are merged
def exposed_seconds(communication, computing):
    def merge(spans):
        merged = []
        for start, end in spans:
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        return merged

    a, b = merge(communication), merge(computing)
    shared = sum(max(0, min(x[1], y[1]) - max(x[0], y[0])) for x in a for y in b)
    return sum(end - start for start, end in a) - shared

# %% wrong · both lists may be empty
def exposed_seconds(communication, computing):
    end = max(end for _, end in communication + computing)
    edges = sorted({edge for span in communication + computing for edge in span})
    total = 0.0
    for a, b in zip(edges, edges[1:]):
        talks = any(s <= a and b <= e for s, e in communication)
        total += (b - a) * (talks and not any(s <= a and b <= e for s, e in computing))
    return total

# %% wrong · float32 has 7 digits
def exposed_seconds(communication, computing):
    spans = torch.tensor([*communication, *computing]).reshape(-1, 2)
    edges = spans.flatten().unique()
    middles = (edges[1:] + edges[:-1]) / 2
    inside = (spans[:, :1] < middles) & (middles < spans[:, 1:])
    k = len(communication)
    return (edges.diff() * (inside[:k].any(0) & ~inside[k:].any(0))).sum().item()

# %% wrong · without a grid
def exposed_seconds(communication, computing):
    def busy(spans):
        return {t for a, b in spans for t in range(round(1e3 * a), round(1e3 * b))}

    return len(busy(communication) - busy(computing)) / 1e3

# %% wrong · What is different here?
def exposed_seconds(communication, computing):
    talks, computes = set(communication), set(computing)
    return covered_seconds(talks | computes) - covered_seconds(computes - talks)

# %% wrong · ends the longer one too early
def exposed_seconds(communication, computing):
    def covered(spans):
        merged = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = end
            else:
                merged.append([start, end])
        return sum(end - start for start, end in merged)

    return covered(communication + computing) - covered(computing)

# %% wrong · from the first start to the last end
def exposed_seconds(communication, computing):
    if not communication:
        return 0.0
    span = min(communication)[0], max(end for _, end in communication)
    return covered_seconds([span, *computing]) - covered_seconds(computing)
