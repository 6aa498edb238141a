"""The right results, and the results of known mistakes."""

from itertools import product
from numbers import Real

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from coursekit.kit import Wrong
from coursekit.kit.results import NOT_ITS_OWN, RETURNS_NONE, outcome_and_arguments

from .cases import BOTH_FREE, FORM, NAMES

TRIED = {  # small enough to try all zeros and ones
    "one operator, 2 ways": ([2], []),
    "two operators without an edge": ([2, 3], []),
    "an edge, 2 and 2 ways": ([2, 2], [(0, 1)]),
    "an edge, 3 and 2 ways": ([3, 2], [(0, 1)]),
    "an edge to an operator of 1 way": ([1, 3], [(0, 1)]),
    "two edges in a chain": ([2, 2, 2], [(0, 1), (1, 2)]),
    "an edge that skips an operator": ([2, 1, 2], [(0, 2)]),
    "a chain, and an edge that skips an operator": ([2, 1, 2], [(0, 1), (1, 2), (0, 2)]),
    "two edges to one operator": ([2, 2, 2], [(0, 2), (1, 2)]),
}

SOLVED = {
    "five operators and a residual": (
        [4, 3, 1, 4, 2], [(0, 1), (1, 2), (2, 3), (3, 4), (0, 4), (1, 3)]),
    "four operators, one of which all others need": ([3, 4, 4, 3], [(0, 1), (0, 2), (0, 3)]),
}  # fmt: skip


def variables_of(counts, edges) -> list[tuple]:
    ways = [(u, i) for u, count in enumerate(counts) for i in range(count)]
    pairs = [(u, i, v, j) for u, v in edges for i in range(counts[u]) for j in range(counts[v])]
    return ways + pairs


def choices_of(counts, edges):
    """Yield the variables that are 1, for each choice of one way per operator."""
    for chosen in product(*map(range, counts)):
        ones = set(enumerate(chosen))
        yield ones | {(u, chosen[u], v, chosen[v]) for u, v in edges}


def read_equations(answer, case, counts, edges):
    """Return the equations as a matrix over all variables, their sums, and these variables."""
    outcome, given = outcome_and_arguments(answer, list(counts), list(edges))
    if outcome.error:
        is_list = "unhashable" in outcome.message
        raise Wrong(case, str(outcome), f"{NAMES}; a list is no key of a dict" if is_list else "")
    if given != [counts, edges]:
        raise Wrong(case, "counts or edges are others now", NOT_ITS_OWN)
    if outcome.value is None:
        raise Wrong(case, "it returned None", RETURNS_NONE)
    variables = variables_of(counts, edges)
    number = {variable: k for k, variable in enumerate(variables)}
    rows, sums = [], []
    for factors, right in equations_in(case, outcome.value):
        row = np.zeros(len(variables))
        for variable, factor in factors.items():
            need_known(case, variable, number, counts, edges)
            row[number[variable]] = factor
        rows.append(row)
        sums.append(float(right))
    if not rows:
        why = "each operator has exactly one way, also one without edges: that is an equation"
        raise Wrong(case, "there is no equation", why)
    return np.array(rows), np.array(sums), variables


def equations_in(case, value):
    if isinstance(value, dict):
        raise Wrong(case, f"it returned {value!r:.80}", "asked is a list of equations")
    try:
        found = [tuple(equation) for equation in value]
    except TypeError:
        raise Wrong(case, f"it returned {value!r:.80}", FORM) from None
    for equation in found:
        if len(equation) != 2 or not isinstance(equation[0], dict):
            raise Wrong(case, f"one of them is {equation!r:.80}", FORM)
        numbers = (*equation[0].values(), equation[1])
        if not all(isinstance(number, Real) for number in numbers):
            raise Wrong(case, f"one of them is {equation!r:.80}", f"{FORM}; all are numbers")
    return found


def need_known(case, variable, number, counts, edges):
    if variable in number:
        return
    what = f"there is no variable {variable!r:.60}"
    if isinstance(variable, tuple) and len(variable) == 4:
        u, i, v, j = variable
        if (v, j, u, i) in number:
            raise Wrong(case, what, "an edge (u, v) has its variables in that order: u first")
        if (u, v) not in edges and (u, i) in edges:
            raise Wrong(case, what, "a pair is (u, i, v, j): each operator stands before its way")
        if (u, v) not in edges:
            raise Wrong(case, what, "only operators that an edge joins have variables of pairs")
        raise Wrong(case, what, "counts may differ: u has counts[u] ways, and v has counts[v]")
    if isinstance(variable, tuple) and len(variable) == 2 and variable[0] in range(len(counts)):
        count = counts[variable[0]]
        ways = f"counts[{variable[0]}] is {count}: its ways are 0 to {count - 1}"
        raise Wrong(case, what, ways if count > 1 else f"counts[{variable[0]}] is 1: way 0 alone")
    raise Wrong(case, what, NAMES)


def need_all_choices(case, matrix, sums, variables, counts, edges):
    for ones in choices_of(counts, edges):
        values = np.array([variable in ones for variable in variables], float)
        broken = np.flatnonzero(abs(matrix @ values - sums) > 1e-9)
        if len(broken):
            row = {v: f for v, f in zip(variables, matrix[broken[0]]) if f}
            told = " + ".join(f"{f:g} · {v}" for v, f in list(row.items())[:6])
            more = " + …" if len(row) > 6 else ""
            what = f"{sorted(ones, key=lambda v: (len(v), v))} is forbidden by {told}{more} = "
            raise Wrong(case, f"{what}{sums[broken[0]]:g}", why_forbidden(row, sums[broken[0]]))


def why_forbidden(row, right) -> str:
    kinds = {len(variable) for variable in row}
    if kinds == {2} and len({variable[0] for variable in row}) > 1:
        return "operators choose on their own: each one has its own equation"
    if kinds == {2} and set(row.values()) == {1}:
        return ("all ways of an operator belong into its equation" if right == 1 else
                "of an operator's ways exactly one is chosen: how large is their sum?")  # fmt: skip
    if kinds == {2, 4} and right:
        return ("the pairs with a way are 1 together if the way is chosen, and 0 if not: they are "
                "compared with the way's variable, and not with 1")  # fmt: skip
    if kinds == {4}:
        return ("of the pairs of an edge exactly one is 1. Those of one way alone may all be 0, if "
                "another way is chosen")  # fmt: skip
    if kinds == {2, 4} and len([v for v in row if len(v) == 4]) == 1:
        return ("a pair is 0 if only one of both ways is chosen: the sum over the other operator's "
                "ways is what equals a way's variable")  # fmt: skip
    if kinds == {2, 4} and all(factor > 0 for factor in row.values()):
        return "if both sides of an equation grow together, one of them needs the factor -1"
    return "each choice of one way for each operator has to be allowed"


def need_all_edges(case, matrix, variables, edges):
    """Raise `Wrong` if an edge is in no equation, because nothing ties its variables then."""
    for edge in edges:
        own = [k for k, v in enumerate(variables) if len(v) == 4 and (v[0], v[2]) == edge]
        if not matrix[:, own].any() and len(edges) > 1:
            what = f"no equation has a variable of the edge {edge}"
            raise Wrong(case, what, "each edge has its own equations, beside those of the others")


def need_nothing_else(case, matrix, sums, variables, counts, edges):
    count = len(variables)
    values = (np.arange(2**count)[:, None] >> np.arange(count)) & 1
    fulfil = values[(abs(values @ matrix.T - sums) < 1e-9).all(1)]
    right = {frozenset(ones) for ones in choices_of(counts, edges)}
    found = [frozenset(v for v, value in zip(variables, row) if value) for row in fulfil]
    wrong = [ones for ones in found if ones not in right]
    if wrong:
        told, why = why_allowed(wrong, len(counts), edges)
        what = f"{sorted(told, key=lambda v: (len(v), v))} fulfils all equations"
        raise Wrong(case, what, why)


def why_allowed(wrong, operators, edges) -> tuple[frozenset, str]:
    """Return one of these wrong solutions, and the reason why it is allowed."""
    reasons = {}
    for ones in wrong:
        reasons.setdefault(reason(ones, operators, edges), ones)
    for why in (NO_WAY, WAYS, NO_PAIR, PAIRS):
        if why in reasons:
            return reasons[why], why
    tied = [why for why in (SECOND_FREE, FIRST_FREE) if why in reasons]
    why = tied[0] if len(tied) == 1 and BOTH_FREE not in reasons else BOTH_FREE
    return next(iter(reasons.values())) if why not in reasons else reasons[why], why


NO_WAY = "an operator has no way at all: it has to have exactly one"

WAYS = "an operator has several ways at a time: it has to have exactly one"

NO_PAIR = "no pair of an edge is 1: so resharding would never be paid"

PAIRS = "several pairs of an edge are 1 at a time"

SECOND_FREE = "a pair is tied to its first operator alone: the second one has to agree, too"

FIRST_FREE = "a pair is tied to its second operator alone: the first one has to agree, too"


def reason(ones, operators, edges) -> str:
    """Return the diagnosis of a wrong solution, or ""."""
    ways = [sum(v[0] == u for v in ones if len(v) == 2) for u in range(operators)]
    if set(ways) != {1}:
        return NO_WAY if 0 in ways else WAYS
    for edge in edges:
        own = [v for v in ones if len(v) == 4 and (v[0], v[2]) == edge]
        if len(own) != 1:
            return PAIRS if own else NO_PAIR
        ((u, i, v, j),) = own
        ends = (u, i) in ones, (v, j) in ones
        if not all(ends):
            return {(True, False): SECOND_FREE, (False, True): FIRST_FREE}.get(ends, BOTH_FREE)
    return ""


def need_the_cheapest(case, matrix, sums, variables, counts, edges, costs):
    found = milp(costs, integrality=np.ones(len(costs)), bounds=Bounds(0, 1),
                 constraints=LinearConstraint(matrix, sums, sums))  # fmt: skip
    cost = dict(zip(variables, costs.tolist()))
    cheapest = min(sum(cost[v] for v in ones) for ones in choices_of(counts, edges))
    if not found.success:
        raise Wrong(case, "the program has no solution", "each choice has to be allowed")
    if abs(found.fun - cheapest) > 1e-6:
        ones = {v for v, x in zip(variables, found.x) if x > 0.5}
        what = f"the solver finds {found.fun:g}, and the cheapest choice is {cheapest}"
        raise Wrong(case, what, reason(ones, len(counts), edges))
