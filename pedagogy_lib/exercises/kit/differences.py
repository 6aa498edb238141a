"""Where two tensors differ, in words."""

from ...basics.closeness import close, first_off


def first_difference(got, wanted) -> str:
    if got is None or wanted is None or got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"is {kind_of(got)}, expected {kind_of(wanted)}"
    first = first_off(got, wanted)
    at = f"at {list(first)} " if first else ""
    return f"{at}is {got[first].item():.8g}, expected {wanted[first].item():.8g}"


def kind_of(x) -> str:
    return "None" if x is None else f"{str(x.dtype).removeprefix('torch.')}{list(x.shape)}"


def ratio(got, wanted) -> float | None:
    """How many times `wanted` this is; None if it is not."""
    factor = ((got @ wanted) / (wanted @ wanted)).item()
    return factor if factor and close(got, factor * wanted) else None


def recognise(got, guesses) -> str:
    """The first sentence in {sentence: what that misconception gives} that fits, or ""."""
    return next((why for why, wrong in guesses.items() if close(got, wrong)), "")


def told(numbers) -> str:
    return ", ".join(f"{x:.4g}" for x in numbers.tolist())
