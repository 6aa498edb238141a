"""The right owners, and those of known mistakes."""

import torch

from coursekit.kit.tables import tabulate

from .costs import TASKS, cost_of


@tabulate(lambda: TASKS)
def truth(shapes, n):
    """Return the right owners, found by looking for the next matrix again and again."""
    return deal(shapes, n)


def add(load, cost):
    return load + cost


def deal(
    shapes, n, cost=cost_of, cheapest=False, tie=min, of_equals=min, sort=True, key=None, after=add
):
    """Return the owners that a rule gives.

    cost       of a matrix with these rows and columns
    cheapest   whether the cheapest matrix comes first
    tie        which of several ranks that have least gets the matrix
    of_equals  which of several equally expensive matrices comes first
    sort       whether matrices are sorted at all
    key        what they are sorted by, of rows and columns, if it is not the cost
    after      takes a rank's load and a matrix's cost, and returns the next load
    """
    costs, loads, owners = [cost(*shape) for shape in shapes], [0] * n, {}
    keys = [key(*shape) for shape in shapes] if key else costs
    while len(owners) < len(shapes):
        left = [k for k in range(len(shapes)) if k not in owners]
        best = (min if cheapest else max)(keys[k] for k in left)
        k = of_equals(k for k in left if keys[k] == best) if sort else left[0]
        owners[k] = tie(rank for rank in range(n) if loads[rank] == min(loads))
        loads[owners[k]] = after(loads[owners[k]], costs[k])
    return [owners[k] for k in range(len(shapes))]


def in_order_dealt(shapes, n):
    order = sorted(range(len(shapes)), key=lambda k: -cost_of(*shapes[k]))
    owners = deal(shapes, n)
    return [owners[k] for k in order]


def sorted_in_turn(shapes, n):
    order = sorted(range(len(shapes)), key=lambda k: -cost_of(*shapes[k]))
    return [order.index(k) % n for k in range(len(shapes))]


def to_and_fro(shapes, n):
    order = sorted(range(len(shapes)), key=lambda k: -cost_of(*shapes[k]))
    snake = [*range(n), *reversed(range(n))]
    return [snake[order.index(k) % (2 * n)] for k in range(len(shapes))]


def with_equal_shapes(pick):
    """Return a function that deals out right, and then confuses matrices of one shape.

    pick  takes the owners of equal shapes in the order of dealing, and which of these it is
    """

    def function(shapes, n):
        owners = deal(shapes, n)
        alike = [[k for k, other in enumerate(shapes) if other == shape] for shape in shapes]
        return [pick([owners[one] for one in some], some.index(k)) for k, some in enumerate(alike)]

    return function


def with_other_ties(second):
    """Return a function in which, of ranks that have least, one is first by another rule.

    second  takes the matrices that a rank has, as their turns, and returns what to sort by
    """

    def function(shapes, n):
        order = sorted(range(len(shapes)), key=lambda k: -cost_of(*shapes[k]))
        loads, turns, owners = [0] * n, [[] for _ in range(n)], {}
        for turn, k in enumerate(order):
            owners[k] = min(range(n), key=lambda rank: (loads[rank], second(turns[rank]), rank))
            turns[owners[k]].append(turn)
            loads[owners[k]] += cost_of(*shapes[k])
        return [owners[k] for k in range(len(shapes))]

    return function


def in_float32(load, cost):
    return (torch.tensor(load, dtype=torch.float32) + cost).item()


def lists_as_dealt(shapes, n):
    order = sorted(range(len(shapes)), key=lambda k: -cost_of(*shapes[k]))
    owners = deal(shapes, n)
    return [[k for k in order if owners[k] == rank] for rank in range(n)]


def lists_of_ranks(shapes, n):
    owners = deal(shapes, n)
    return [[k for k, owner in enumerate(owners) if owner == rank] for rank in range(n)]


def loads_of_ranks(shapes, n):
    owners = deal(shapes, n)
    return [sum(cost_of(*shape) for shape, owner in zip(shapes, owners) if owner == rank)
            for rank in range(n)]  # fmt: skip


MISTAKES = [
    ("matrices are dealt out in turn, like cards, whatever they cost. Give each to the rank that "
     "has the lowest cost so far", lambda shapes, n: [k % n for k in range(len(shapes))]),
    ("matrices are sorted by cost and then dealt out in turn. Give each to the rank that has the "
     "lowest cost so far", sorted_in_turn),
    ("a matrix counts by its numbers, rows times columns. The work is 4 l s² + 2 s³, and a square "
     "matrix costs more than a long one with as many numbers",
     lambda shapes, n: deal(shapes, n, lambda rows, columns: rows * columns)),
    ("the cheapest matrix is dealt out first. Then the most expensive ones come last, when nothing "
     "is left to balance them", lambda shapes, n: deal(shapes, n, cheapest=True)),
    ("matrices are dealt out in the order of the list. Sort them first, the most expensive one "
     "first", lambda shapes, n: deal(shapes, n, sort=False)),
    ("the owners are listed in the order in which matrices were dealt out. Entry k has to be the "
     "owner of matrix k of the list", in_order_dealt),
    ("the number of rows counts as the shorter side. If there are more rows than columns, s is "
     "the number of columns",
     lambda shapes, n: deal(shapes, n, lambda m, k: 4 * k * m**2 + 2 * m**3)),
    ("the number of columns counts as the shorter side. If there are fewer rows than columns, s "
     "is the number of rows",
     lambda shapes, n: deal(shapes, n, lambda m, k: 4 * m * k**2 + 2 * k**3)),
    ("the longer side is squared. In 4 l s² + 2 s³, s is the shorter side",
     lambda shapes, n: deal(shapes, n, lambda m, k: 4 * min(m, k) * max(m, k)**2
                            + 2 * max(m, k)**3)),
    ("the longer side is squared in the first term. In 4 l s² + 2 s³, s is the shorter side",
     lambda shapes, n: deal(shapes, n, lambda m, k: 4 * min(m, k) * max(m, k)**2
                            + 2 * min(m, k)**3)),
    ("a matrix costs 4 l s² here. Its work is 4 l s² + 2 s³",
     lambda shapes, n: deal(shapes, n, lambda m, k: 4 * max(m, k) * min(m, k) ** 2)),
    ("if several ranks have the same cost so far, the last of them gets the matrix here, and it "
     "should be the first", lambda shapes, n: deal(shapes, n, tie=max)),
    ("of equally expensive matrices, the later one comes first here. They keep the order of the "
     "list", lambda shapes, n: deal(shapes, n, of_equals=max)),
    ("if several ranks have the same cost so far, the one that has waited longest gets the matrix "
     "here, and it should be the first",
     with_other_ties(lambda turns: max(turns, default=-1))),
    ("if several ranks have the same cost so far, the one with the fewest matrices gets the next "
     "here, and it should be the first", with_other_ties(len)),
    ("matrices are dealt out in turn, to and fro, whatever a rank already has. Give each to the "
     "rank that has the lowest cost so far", to_and_fro),
    ("matrices are sorted by rows times columns, and not by cost: the most expensive one comes "
     "first", lambda shapes, n: deal(shapes, n, key=lambda m, k: m * k)),
    ("matrices are sorted by their longer side, and not by cost: the most expensive one comes "
     "first", lambda shapes, n: deal(shapes, n, key=max)),
    ("a rank's cost is that of its last matrix alone: costs add up, +=",
     lambda shapes, n: deal(shapes, n, after=lambda load, cost: cost)),
    ("costs are added up in float32, which has 24 bits: small matrices vanish next to large ones. "
     "Python's whole numbers add up exactly", lambda shapes, n: deal(shapes, n, after=in_float32)),
    ("equal shapes are one matrix here. Each entry of the list is a matrix: go through their "
     "numbers, and not through shapes.index(shape) or a dict of shapes",
     with_equal_shapes(lambda owners, which: owners[-1])),
    ("equal shapes are one matrix here. Each entry of the list is a matrix: go through their "
     "numbers, and not through shapes.index(shape) or a dict of shapes",
     with_equal_shapes(lambda owners, which: 0 if which else owners[-1])),
    ("ranks are counted from 0", lambda shapes, n: [owner + 1 for owner in deal(shapes, n)]),
    ("these are the matrices of each rank. Return the owner of each matrix", lists_of_ranks),
    ("these are the matrices of each rank. Return the owner of each matrix", lists_as_dealt),
    ("these are the costs of the ranks. Return the owner of each matrix", loads_of_ranks),
]  # fmt: skip
