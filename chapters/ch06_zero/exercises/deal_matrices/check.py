"""Owners of matrices, balanced by the work of Muon's step."""

from coursekit.kit import Formula
from pedagogy_lib.basics.units import format_count

from .costs import TASKS, cost_of
from .truth import MISTAKES, truth


def describe_loads(calls, values) -> str:
    """Say how much the busiest rank has to do, in fair shares."""
    (shapes, n), (owners,) = calls[0], values
    costs = [cost_of(*shape) for shape in shapes]
    if not costs:
        return "no owner"
    loads = [sum(c for c, owner in zip(costs, owners) if owner == rank) for rank in range(n)]
    return f"the busiest rank has {max(loads) * n / sum(costs):.2f} fair shares"


EXERCISE = Formula(
    "deal_matrices",
    cases={
        f"{len(shapes)} matrices, the largest {max(shapes, default='none')}, "
        f"{format_count(n, 'rank')}": [(shapes, n)]
        for shapes, n in TASKS
    },
    truth=truth,
    mistakes=MISTAKES,
    right=describe_loads,
    whole="owners are ranks, which are whole numbers",
    asked="a list of ranks, one for each matrix",
    shape="return a list with the owner of each matrix, a rank from 0 to n - 1",
    errors={
        "not enough values to unpack": "`shapes` may be empty: there is nothing to deal out then",
    },
    hints=(
        "What does each matrix cost? Which of them should find its rank first, when all ranks are "
        "still free?",
        "Go through the numbers 0, 1, 2, … of the matrices in the order of falling cost. Keep the "
        "cost that each rank has so far in a list of n numbers.",
        "sorted(range(len(shapes)), key=…) sorts numbers, and leaves equal ones in their order. "
        "loads.index(min(loads)) is the first rank that has least.",
    ),
)
