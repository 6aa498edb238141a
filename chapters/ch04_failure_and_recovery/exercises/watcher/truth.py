"""The right results, and the results of known mistakes."""

from coursekit.kit.tables import tabulate

from .cases import CASES, PATIENCE


@tabulate(
    lambda: [(history[: k + 1], PATIENCE) for history, _ in CASES.values()
             for k in range(len(history))]
)  # fmt: skip
def truth(looks, patience) -> list[int]:
    """Return the ranks that are silent at the last of these looks, from the whole history."""
    counts, now = looks[-1]
    silent = []
    for rank, count in counts.items():
        since = now
        for earlier, at in reversed(looks):
            if earlier.get(rank) != count:
                break
            since = at
        if now - since > patience:
            silent.append(rank)
    return sorted(silent)
