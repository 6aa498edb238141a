"""The right results, and the results of known mistakes."""

from .cases import places_of


def count_global_rank(node, local_rank, per_node) -> int:
    """Return RANK by listing the processes of all nodes in order."""
    return places_of(node + 1, per_node).index((node, local_rank, per_node))


MISTAKES = [
    ("the same number would be given on several nodes: count on from node to node",
        lambda node, local, per_node: local),
    ("a node has several processes: before those of node 1 there are per_node, not one",
        lambda node, local, per_node: node + local),
    ("nodes 0 and 1 are right, from node 2 on ranks repeat: before the processes of node k "
     "there are k times per_node",
        lambda node, local, per_node: min(node, 1) * per_node + local),
    ("this is the number of the node; its processes differ by their local rank",
        lambda node, local, per_node: node),
    ("this is the first rank of the node; its other processes come after it",
        lambda node, local, per_node: node * per_node),
    ("nodes count from 0: before node 0 there is nobody",
        lambda node, local, per_node: (node + 1) * per_node + local),
    ("every rank is `per_node` too small: nodes count from 0, not from 1",
        lambda node, local, per_node: (node - 1) * per_node + local),
    ("a node has per_node processes, with local ranks from 0 to per_node - 1: before the "
     "processes of node k there are k times per_node, not k times the highest local rank",
        lambda node, local, per_node: node * (per_node - 1) + local),
    ("`|` joins binary digits: that is the sum only where they have no 1 at the same place",
        lambda node, local, per_node: node * per_node | local),
    *((f"a node has `per_node` processes, and not always {number}",
        lambda node, local, _, number=number: node * number + local)
      for number in (2, 3, 4, 8)),
    ("RANK is none of the three, nor their sum: per_node is how many processes each node "
     "before this one has", lambda node, local, per_node: node + local + per_node),
    ("on node 0, RANK is the local rank: it is added, and nothing is multiplied by it",
        lambda node, local, per_node: node * local * per_node),
    ("the place on its own node is added once, not once for each node before it",
        lambda node, local, per_node: node * (per_node + local)),
    ("each further node brings per_node ranks more, not per_node times as many",
        lambda node, local, per_node: per_node**node + local),
    ("ranks count from 0: the first process of node 0 has RANK 0",
        lambda node, local, per_node: node * per_node + local + 1),
    ("from node 1 on ranks are left out: before the processes of node k there are k times "
     "per_node, and nobody else has a rank (torchrun itself has none)",
        lambda node, local, per_node: node * (per_node + 1) + local),
    ("the two are swapped: RANK counts through all processes of node 0 first, then those of "
     "node 1", lambda node, local, per_node: local * per_node + node),
]  # fmt: skip
