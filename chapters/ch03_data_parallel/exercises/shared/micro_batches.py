"""Micro-batches of several ranks."""

from coursekit.kit.reference_training import batch_of


def pieces_of(n, step, number):
    """Return the micro-batches of each rank in a step."""
    return [[batch_of(rank, step, piece) for piece in range(number)] for rank in range(n)]


def format_micro_batches(number) -> str:
    return f"{number} micro-batch" + ("" if number == 1 else "es")
