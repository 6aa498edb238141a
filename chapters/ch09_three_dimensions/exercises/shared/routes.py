"""Routes of several exercises: weights and experts, compared token by token."""

from coursekit.kit.results import text_of


def differs(call, wanted, got) -> str:
    """Return the first token whose weights or experts differ, or ""."""
    if len(got) != 2:
        return f"expected two tensors, got {text_of(got)}"
    for name, of_wanted, of_got in zip(("weights", "experts"), wanted, got):
        for token, pair in enumerate(zip(of_wanted, of_got)):
            if [round(x, 9) for x in pair[0]] != [round(x, 9) for x in pair[1]]:
                numbers = f"expected {text_of(pair[0])}, got {text_of(pair[1])}"
                return f"{name} of token {token}: {numbers}"
    return ""
