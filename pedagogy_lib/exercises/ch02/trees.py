"""How far a message gets along a tree."""


def rounds_to_reach(n) -> int:
    """Play it: whoever has the file sends it to one who has not."""
    have, rounds = 1, 0
    while have < n:
        have, rounds = have + min(have, n - have), rounds + 1
    return rounds
