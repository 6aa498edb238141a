"""The right results, and the results of known mistakes."""

from itertools import combinations

from .costs import bytes_of, flops_of, kept_by


def choices(parts):
    """Yield each set of indices, as a list."""
    for bits in range(1 << len(parts)):
        yield [k for k in range(len(parts)) if bits >> k & 1]


def cheapest(parts, budget) -> list[int]:
    """Return the right indices; it goes from part to part, and keeps the best for each size."""
    best = {0: (0, [])}  # bytes kept: (FLOPs, recomputed)
    for number, (size, flops) in enumerate(parts):
        after = {}
        for kept, (cost, chosen) in best.items():
            both = ((kept + size, (cost, chosen)), (kept, (cost + flops, [*chosen, number])))
            for key, value in both:
                if key <= budget and (key not in after or value < after[key]):
                    after[key] = value
        best = after
    return min(best.values())[1]


def greedily(key, reverse=True):
    """Return a function that recomputes in the order of a key until the rest fits."""

    def function(parts, budget):
        chosen = []
        for k in sorted(range(len(parts)), key=lambda k: key(*parts[k]), reverse=reverse):
            if kept_by(parts, chosen) > budget:
                chosen.append(k)
        return sorted(chosen)

    return function


def of_those(fits, cost=flops_of):
    """Return a function that takes the cheapest choice for which fits(parts, chosen, budget)."""

    def function(parts, budget):
        possible = [chosen for chosen in choices(parts) if fits(parts, chosen, budget)]
        return min(possible, key=lambda chosen: cost(parts, chosen))

    return function


def fits_budget(parts, chosen, budget):
    return kept_by(parts, chosen) <= budget


def others(parts, budget):
    return sorted(set(range(len(parts))) - set(cheapest(parts, budget)))


def smallest_choice(lengths):
    """Return a function that takes the first fitting choice of the first length that has one."""

    def function(parts, budget):
        some = (chosen for length in lengths(len(parts))
                for chosen in combinations(range(len(parts)), length))  # fmt: skip
        return list(next(chosen for chosen in some if fits_budget(parts, chosen, budget)))

    return function


def greedily_without_the_needless(parts, budget):
    chosen = greedily(lambda size, flops: size / max(flops, 1e-9))(parts, budget)
    for k in sorted(chosen, key=lambda k: -parts[k][1]):
        without = [one for one in chosen if one != k]
        chosen = without if kept_by(parts, without) <= budget else chosen
    return chosen


def keep_greedily(parts, budget):
    """Return the rest if parts with the most FLOPs per byte are kept as long as they fit."""
    kept = []
    for k in sorted(range(len(parts)), key=lambda k: -parts[k][1] / max(parts[k][0], 1e-9)):
        if bytes_of(parts, [*kept, k]) <= budget:
            kept.append(k)
    return sorted(set(range(len(parts))) - set(kept))


def cheapest_but_all(parts, budget):
    found = cheapest(parts, budget)
    return [] if len(found) == len(parts) else found


def is_run(chosen) -> bool:
    return not chosen or chosen[-1] - chosen[0] + 1 == len(chosen)


def exchange(parts):
    return [(flops, size) for size, flops in parts]


def sort_by_bytes(parts, budget):
    return sorted(cheapest(parts, budget), key=lambda k: -parts[k][0])


def sort_by_flops(parts, budget):
    return sorted(cheapest(parts, budget), key=lambda k: parts[k][1])


MISTAKES = [
    ("these parts are kept; asked are those that are recomputed", others),
    ("the parts with the most bytes per FLOP are taken first. That is a good rule, but the last "
     "part taken may free much more than is needed, and another choice is cheaper: try all of them",
     greedily(lambda size, flops: size / max(flops, 1e-9))),
    ("the parts with the fewest FLOPs are taken first, however little they free",
     greedily(lambda size, flops: flops, reverse=False)),
    ("the largest parts are taken first, however much recomputing them costs",
     greedily(lambda size, flops: size)),
    ("this is the fewest parts that are enough; asked are the fewest FLOPs",
     of_those(fits_budget, lambda parts, chosen: (len(chosen), flops_of(parts, chosen)))),
    ("this frees as few bytes as is enough; asked are the fewest FLOPs",
     of_those(fits_budget, bytes_of)),
    ("what takes exactly `budget` bytes fits: <=",
     of_those(lambda parts, chosen, budget: kept_by(parts, chosen) < budget
              or len(chosen) == len(parts))),
    ("the bytes of the parts that are recomputed are compared with the budget; those of the others "
     "have to fit",
     of_those(lambda parts, chosen, budget: bytes_of(parts, chosen) >= min(
         budget, bytes_of(parts, range(len(parts)))))),
    ("everything is recomputed, although some parts may be kept",
     lambda parts, budget: list(range(len(parts)))),
    ("the indices are in descending order; asked is ascending order",
     lambda parts, budget: cheapest(parts, budget)[::-1]),
    ("the bytes of the recomputed parts are compared with the budget; those of the kept ones have "
     "to fit", of_those(lambda parts, chosen, budget: bytes_of(parts, chosen) <= budget)),
    ("equal parts are one here: take the index of each part, and not parts.index(part)",
     lambda parts, budget: [parts.index(parts[k]) for k in cheapest(parts, budget)]),
    ("the indices are in the order of their FLOPs; asked is ascending order", sort_by_flops),
    ("the indices are in the order of their bytes; asked is ascending order", sort_by_bytes),
    ("the first parts are taken, one after another, until the rest fits; asked are the fewest "
     "FLOPs", greedily(lambda size, flops: 0)),
    ("this is the first choice of the fewest parts that is enough; asked are the fewest FLOPs",
     smallest_choice(lambda n: range(n + 1))),
    ("the most bytes per FLOP are taken first, and what is not needed is left out again. Another "
     "choice may still be cheaper: try all of them", greedily_without_the_needless),
    ("the parts with the most FLOPs per byte are kept as long as they fit. Another choice may be "
     "cheaper: try all of them", keep_greedily),
    ("to recompute all parts is a choice, too, and it may be the only one that fits: count to "
     "their number, inclusive",
     cheapest_but_all),
    ("to recompute nothing is a choice, too, and the best one if everything fits: count from 0",
     of_those(lambda parts, chosen, budget: fits_budget(parts, chosen, budget)
              and (chosen or not parts))),
    ("only parts side by side are tried: any parts may be recomputed together",
     of_those(lambda parts, chosen, budget: fits_budget(parts, chosen, budget)
              and is_run(chosen))),
    ("a pair is (bytes, FLOPs), and is read the other way round",
     lambda parts, budget: cheapest(exchange(parts), budget)),
    ("indices are counted from 0", lambda parts, budget: [k + 1 for k in cheapest(parts, budget)]),
    ("these are the parts themselves; asked are their indices",
     lambda parts, budget: [parts[k] for k in cheapest(parts, budget)]),
    ("this says of each part whether it is recomputed; asked are the indices of those that are",
     lambda parts, budget: [k in cheapest(parts, budget) for k in range(len(parts))]),
    ("the FLOPs are returned, too; asked is the list of indices alone",
     lambda parts, budget: [flops_of(parts, cheapest(parts, budget)), cheapest(parts, budget)]),
]  # fmt: skip
