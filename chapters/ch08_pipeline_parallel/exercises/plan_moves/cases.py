"""What is looked at next to the answer: the types in its plan."""


def describe_other_type(answer, arguments) -> str:
    """Return what keeps a plan from being a list of actions and moves, or ""."""
    plan = answer(*arguments)
    if not isinstance(plan, list):
        return f"a {type(plan).__name__}"
    fields = {3: ("kind", "microbatch", "chunk"), 2: ("kind", "chunk")}
    for number, one in enumerate(plan, 1):
        if any(not hasattr(one, name) for name in fields[len(one)]):
            return f"number {number} of the plan is a {type(one).__name__}: {one!r:.60}"
    return ""
