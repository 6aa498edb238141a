"""The events in each case of the exam."""

RANKS, STEPS, AT, GUILTY = 4, 30, 12, 2
MORE_STEPS = 40  # in the case with all events
ALL, DISK_FULL, TWO_KILLS = "all of it", "disk full", "two kills"
AT_ONCE = "wrong gradients in the first step"
OTHERS = ("kill", "slow", DISK_FULL, "hang", "power cut", "wrong gradients", "wrong weights")
LAST = (TWO_KILLS, AT_ONCE, "power cut")  # each alone, after the case with all events

# Chosen, not drawn. Rank 0 computes wrongly, so that 0 has to be told from None. The rank of wrong
# weights is not replaced for another reason later. The disk is full before the power cut. The rank
# that hangs is not the last one, so that two of the other three get other ranks in their group.
EVERYTHING = (
    ("slow", 6, 2), ("wrong gradients", 7, 0), (DISK_FULL, 12, 2), ("power cut", 18, 0),
    ("wrong weights", 22, 3), ("hang", 31, 1), ("kill", 35, 2),
)  # fmt: skip


def plans_of(chaos) -> dict[str, list]:
    """Return {case: the events that are planned for it}."""
    plans = {what: [(what, AT, GUILTY)] for what in OTHERS}
    plans |= {"undisturbed": [], ALL: EVERYTHING, AT_ONCE: [("wrong gradients", 0, 0)]}
    plans[TWO_KILLS] = [("kill", AT, 1), ("kill", AT, 2)]
    return {name: [chaos.Event(*event) for event in plan] for name, plan in plans.items()}


def steps_of(name) -> int:
    return MORE_STEPS if name == ALL else STEPS
