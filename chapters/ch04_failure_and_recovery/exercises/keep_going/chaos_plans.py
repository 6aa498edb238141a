"""What happens in each case of the exam."""

RANKS, STEPS, AT, GUILTY = 4, 30, 12, 2
MORE_STEPS = 40  # where everything happens
ALL, DISK_FULL, TWO_KILLS = "all of it", "disk full", "two kills"
AT_ONCE = "wrong gradients in the first step"
OTHERS = ("kill", "slow", DISK_FULL, "hang", "power cut", "wrong gradients", "wrong weights")
LAST = (TWO_KILLS, AT_ONCE, "power cut")  # each alone, after all of it

# Not drawn. Rank 0 computes wrongly: a 0 is no None. Who has wrong weights is not replaced for
# another reason afterwards. The disk is full before the power cut. Who hangs is not the last rank:
# so two of the three that are left have other ranks in their group.
EVERYTHING = (
    ("slow", 6, 2), ("wrong gradients", 7, 0), (DISK_FULL, 12, 2), ("power cut", 18, 0),
    ("wrong weights", 22, 3), ("hang", 31, 1), ("kill", 35, 2),
)  # fmt: skip


def plans_of(chaos) -> dict[str, list]:
    """{case: what happens}"""
    plans = {what: [(what, AT, GUILTY)] for what in OTHERS}
    plans |= {"undisturbed": [], ALL: EVERYTHING, AT_ONCE: [("wrong gradients", 0, 0)]}
    plans[TWO_KILLS] = [("kill", AT, 1), ("kill", AT, 2)]
    return {name: [chaos.Event(*event) for event in plan] for name, plan in plans.items()}


def steps_of(name) -> int:
    return MORE_STEPS if name == ALL else STEPS
