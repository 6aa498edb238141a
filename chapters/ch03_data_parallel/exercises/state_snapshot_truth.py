"""What is right, and what mistakes give: see state_snapshot.py."""

from coursekit.kit import complains


@complains
def leaves_alone(trial):
    """Ranks have found nothing under `touched`, [(what, why)]."""
    for place, touched in enumerate(trial.collect_values("touched") or ()):
        for what, why in touched:
            yield f"{trial.who(place)}: {what}", why
