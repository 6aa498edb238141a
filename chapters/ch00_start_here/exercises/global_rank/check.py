"""RANK from the node and the local rank."""

from coursekit.kit import Formula
from pedagogy_lib.basics.units import format_count

from .cases import places_of
from .truth import MISTAKES, count_global_rank

CLUSTERS = [(2, 3), (4, 3), (1, 4), (3, 1), (2, 8)]  # (nodes, processes per node)

EXERCISE = Formula(
    "global_rank",
    cases={
        f"{format_count(nodes, 'node')} with {format_count(per_node, 'process')}": places_of(
            nodes, per_node
        )
        for nodes, per_node in CLUSTERS
    },
    truth=count_global_rank,
    right=lambda calls, ranks: " ".join(map(str, ranks)),
    differs=lambda call, wanted, got: (
        f"process {call[1]} of node {call[0]}: expected {wanted}, got {got!r}"
    ),
    whole="ranks are whole numbers",
    mistakes=MISTAKES,
    hints=(
        "How many processes are on the nodes before this one?",
        "Nodes count from 0, so `node` nodes come before it, with per_node processes each. "
        "Add the place on its own node.",
    ),
)
