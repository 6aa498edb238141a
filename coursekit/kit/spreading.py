"""How many messages follow each other until everybody has something: played, and counted."""


def rounds_of_tree(n) -> int:
    """Whoever has the file sends it to one who has not."""
    have, rounds = 1, 0
    while have < n:
        have, rounds = have + min(have, n - have), rounds + 1
    return rounds


def steps_round_ring(n) -> int:
    """Each passes on to the next what it got in the step before; until all have everybody's."""
    has, steps = [{rank} for rank in range(n)], 0
    while min(map(len, has)) < n:
        has, steps = [has[rank] | has[rank - 1] for rank in range(n)], steps + 1
    return steps
