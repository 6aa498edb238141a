"""Ranks in words."""


def ranks_text(ranks) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


def subject(ranks, verb="is", verb_of_several="are") -> str:
    """Return a sentence's beginning, such as "Ranks 0, 1 are"."""
    return f"{ranks_text(ranks).capitalize()} {verb if len(ranks) == 1 else verb_of_several}"
