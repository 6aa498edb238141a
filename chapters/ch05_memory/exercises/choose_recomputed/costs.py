"""What a choice of parts keeps and costs, and how a wrong one differs from the right one."""


def bytes_of(parts, chosen) -> float:
    return sum(parts[k][0] for k in chosen)


def flops_of(parts, chosen) -> float:
    return sum(parts[k][1] for k in chosen)


def kept_by(parts, recomputed) -> float:
    return bytes_of(parts, set(range(len(parts))) - set(recomputed))


def describe_difference(call, wanted, got) -> str:
    parts, budget = call
    try:
        kept = kept_by(parts, got)
        cost = flops_of(parts, got)
    except (TypeError, IndexError):
        return ""
    told = f"recompute {wanted} for {flops_of(parts, wanted):g} FLOPs; got {got}"
    if kept > budget:
        return f"{told}, with which {kept:g} bytes are kept: the budget is {budget:g}"
    return f"{told}, which costs {cost:g}"
