"""What a right plan is, one right plan, and the plans of known mistakes."""

from itertools import groupby


def truth(row):
    """Return the plan of a row, made of its stretches of one chunk."""
    stretches = [list(group) for _, group in groupby(row, key=lambda action: action[2])]
    plan = []
    for number, stretch in enumerate(stretches):
        chunk = stretch[0][2]
        plan += [("gather", chunk), *stretch]
        if all(later[0][2] != chunk for later in stretches[number + 1 :]):
            plan.append(("reduce", chunk))
        plan.append(("free", chunk))
    return plan


def reduce_each_backward(row):
    """Return the plan that reduces and frees after each backward, as ZeRO stage 3 does."""
    plan, held = [], None
    for action in row:
        chunk = action[2]
        if chunk != held:
            plan += [("free", held)] * (held is not None) + [("gather", chunk)]
            held = chunk
        plan.append(action)
        if action[0] == "B":
            plan += [("reduce", chunk), ("free", chunk)]
            held = None
    return plan


def gather_each_action(row):
    plan = []
    for number, action in enumerate(row):
        is_last = all(later[2] != action[2] for later in row[number + 1 :])
        plan += [("gather", action[2]), action, *[("reduce", action[2])] * is_last]
        plan.append(("free", action[2]))
    return plan


def reduce_each_stretch(row):
    """Return the plan that reduces whenever a chunk with backwards is left."""
    plan = []
    for chunk, group in groupby(row, key=lambda action: action[2]):
        stretch = list(group)
        has_backward = any(action[0] == "B" for action in stretch)
        plan += [("gather", chunk), *stretch, *[("reduce", chunk)] * has_backward, ("free", chunk)]
    return plan


MISTAKES = [
    ("each backward reduces and frees its chunk, as ZeRO stage 3 does without a pipeline. The "
     "gradients are right, and a step sends more with each micro-batch: reduce when no action of "
     "this chunk follows", reduce_each_backward),
    ("each action gathers and frees its chunk. A chunk stays whole until an action of another "
     "chunk comes", gather_each_action),
    ("a chunk is reduced each time that it is left. In a depth-first row it comes back: reduce it "
     "when no action of this chunk follows", reduce_each_stretch),
]  # fmt: skip
