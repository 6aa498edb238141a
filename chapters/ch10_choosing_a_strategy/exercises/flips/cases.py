"""Data and functions that the cases and the truth share."""

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Engine:
    """A small engine for the check, whose judges need no more."""

    products: float = 1.0
    inside: float = 0.5
    across: float = 0.5
    exposed: float = 0.3
    launch: float = 2e-3


NAMES = tuple(field.name for field in fields(Engine))


# Judges: each takes an engine, and returns a verdict.
def judge_links(engine):
    return "agrees" if engine.inside > 0.4 else "disagrees"


def judge_ratio(engine):
    ratio = engine.inside / engine.across
    return "cannot be told" if 0.7 < ratio < 1.4 else "agrees" if ratio >= 1.4 else "disagrees"


def judge_exposed(engine):
    return "disagrees" if engine.exposed > 0.4 else "agrees"


def judge_narrow_range(engine):
    """Return the same other verdict below and above a range of `products`."""
    return "agrees" if abs(engine.products - 1) < 0.1 else "disagrees"


def judge_pair(engine):
    """Return another verdict only if `inside` and `across` are both large."""
    return "disagrees" if engine.inside > 0.7 and engine.across > 0.7 else "agrees"


def judge_launch(engine):
    """Return another verdict for a changed `launch` only if `inside` is unchanged."""
    is_changed = abs(engine.launch - 2e-3) > 1e-4 and abs(engine.inside - 0.5) < 1e-4
    return "disagrees" if is_changed else "agrees"


def judge_exposed_range(engine):
    """Return another verdict only if `exposed` leaves a small range, or `launch` reaches 1."""
    return "agrees" if 0.2 < engine.exposed < 0.44 and engine.launch < 1 else "disagrees"


def judge_large_exposed(engine):
    return "disagrees" if engine.exposed > 0.6 else "agrees"


def judge_middle_range(engine):
    """Return another verdict only if `products` is between its value and the changed one."""
    return "disagrees" if 1.1 < engine.products < 1.4 else "agrees"


def judge_with_new_string(engine):
    """Return an equal word, but another object, at each call."""
    return " ".join(["cannot", "be", "told" if engine.launch < 1 else "seen"])


def judge_nothing(engine):
    return "cannot be told"
