"""What the cases and the truth share."""


def labels(heads, kv_heads, size) -> list[tuple[str, int, int]]:
    """Of each row: what it belongs to, the number of its head, and how many heads there are."""
    kinds = {"query": heads, "key": kv_heads, "value": kv_heads}
    return [(kind, k, n) for kind, n in kinds.items() for k in range(n) for _ in range(size)]


def size_of(weight, heads, kv_heads) -> int:
    return len(weight) // (heads + 2 * kv_heads)
