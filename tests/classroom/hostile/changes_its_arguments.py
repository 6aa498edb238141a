# wrong · changes everything that it was given, and what it returned
kept = []


def house_gradients(*house):
    kept.append([0.0, 0.0, 0.0])
    for one in kept:
        one[:] = honest(*house)
    return kept[0][:2] + [None]
