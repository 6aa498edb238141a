"""The parts that the check and the truth share."""


def places_of(nodes, per_node) -> list[tuple[int, int, int]]:
    return [(node, local, per_node) for node in range(nodes) for local in range(per_node)]
