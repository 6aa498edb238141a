"""The right results, and the results of known mistakes."""


def choose(saved, is_allowed, pick=max):
    allowed = [step for step in saved if is_allowed(step)]
    return pick(allowed) if allowed else None


def truth(saved, every, found):
    newest = None
    for step in saved:
        if step <= found - every and (newest is None or step > newest):
            newest = step
    return newest


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
