"""The right results, and the results of known mistakes."""


def choose(saved, is_allowed, pick=max):
    """Return the pick of the allowed steps; without any, the first one that was saved."""
    return pick([step for step in saved if is_allowed(step)] or [min(saved)])


def truth(saved, every, found):
    newest = None
    for step in saved:
        if step <= found - every and (newest is None or step > newest):
            newest = step
    return newest


def by_gap(saved, every, found):
    first, second, *_ = sorted(saved)
    return (found - every) // (second - first) * (second - first)


MISTAKES = [
    ("this is the newest checkpoint of all. The fault may be older: it came some time after the "
     "last check that passed, and this checkpoint may hold wrong weights.",
     lambda saved, every, found: choose(saved, lambda step: True)),
    ("a checkpoint from before the check that failed is not enough: the fault came some time "
     "after the check before it.", lambda saved, every, found: choose(saved, lambda step:
                                                                     step < found)),
    ("the fault came half a period ago on average, and up to a whole period ago: only what was "
     "saved before the last good check is certainly clean.",
     lambda saved, every, found: choose(saved, lambda step: step <= found - every / 2)),
    ("a checkpoint from the very step of the last good check is clean: that check has passed.",
     lambda saved, every, found: choose(saved, lambda step: step < found - every)),
    ("this is the nearest one to the good check, and it was saved after it: the fault may be in "
     "it.",
     lambda saved, every, found: min(saved, key=lambda step: abs(step - found + every))),
    ("this is the first checkpoint after the good check, and the fault may be in it.",
     lambda saved, every, found: choose(saved, lambda step: step >= found - every, min)),
    ("checkpoints need not be evenly spaced: look at each step in `saved`, and not at gaps.",
     by_gap),
    ("this is an index in the sorted list. Asked is a step.",
     lambda saved, every, found: sorted(saved).index(truth(saved, every, found))),
    ("a checkpoint need not have been checked itself: those before a good check are clean.",
     lambda saved, every, found: choose(saved, lambda step: step <= found - every
                                        and step % every == 0)),
    ("the second newest may still be newer than the last good check, or older than it has to be.",
     lambda saved, every, found: sorted(saved)[-2]),
    ("this is the oldest clean checkpoint; the newest one loses fewer steps.",
     lambda saved, every, found: choose(saved, lambda step: step <= found - every, min)),
    ("this is the step of the last good check. Asked is a checkpoint: one of `saved`.",
     lambda saved, every, found: found - every),
    ("that is how many steps are taken again. Asked is the step of the checkpoint.",
     lambda saved, every, found: found - truth(saved, every, found)),
    ("the checkpoints are in any order: the last one in the list is not always the newest.",
     lambda saved, every, found: choose(saved, lambda step: step <= found - every,
                                        lambda allowed: allowed[-1])),
    ("the checks are one period apart: the last good one was one period before, not two.",
     lambda saved, every, found: choose(saved, lambda step: step <= found - 2 * every)),
]  # fmt: skip
