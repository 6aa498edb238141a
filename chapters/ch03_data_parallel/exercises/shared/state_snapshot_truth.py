"""The fact that an answer leaves the state in a snapshot of state_snapshot.py unchanged."""

from coursekit.kit import complains


@complains
def leaves_alone(trial):
    """Complain of the changes that ranks have found: `touched`, [(what, why)]."""
    for place, touched in enumerate(trial.collect_values("touched") or ()):
        for what, why in touched:
            yield f"{trial.name_of_rank(place)}: {what}", why
