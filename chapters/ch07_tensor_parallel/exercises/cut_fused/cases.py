"""The rows of a fused matrix, as the check and the truth see them."""


def labels(heads, kv_heads, size) -> list[tuple[str, int, int]]:
    """Return (kind, head, number of heads of this kind) for each row."""
    kinds = {"query": heads, "key": kv_heads, "value": kv_heads}
    return [(kind, k, n) for kind, n in kinds.items() for k in range(n) for _ in range(size)]


def size_of(weight, heads, kv_heads) -> int:
    return len(weight) // (heads + 2 * kv_heads)
