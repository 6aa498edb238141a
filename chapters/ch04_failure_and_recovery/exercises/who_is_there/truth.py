"""The right results, and the results of known mistakes."""

from coursekit.kit.results import NO_RETURN

from .cases import DEAD_IS_IN

BYTES = "the store gives bytes: text.decode(); and a list that was written as text is read again"

TWO_TEXTS = (
    "store.append adds to what is there: what two have written is two texts in JSON, one after the "
    "other. Of the lists that are proposed, only the first one may be read"
)

A_LIST = "asked is a list: sorted(…) gives one"

EMPTY = "there is an empty name: after the last comma, split gives an empty text"

ORDER = "sorted: all need the same order, as it gives them their ranks"


def faults(trial):
    (asks,), (of,) = trial.case.args, trial.found
    lists = asks.lists(of.got)
    for name, _, value in lists:
        yield from other_kinds(name, value)
    if of.early:
        yield f"{of.early[0]!r} has returned after {of.early[1]:.2g} s", asks.not_before[2]
    if of.late:
        yield f"{of.late[0]!r} has returned after {of.late[1]:.2g} s", asks.not_after[2]
    for name, wanted, value in lists:
        if value != wanted:
            what = f"{name!r}: expected {wanted}, got {value}"
            yield what, ORDER if sorted(value) == wanted else asks.why or DEAD_IS_IN


def other_kinds(name, value):
    """Yield (error, diagnosis) for a value that is not a list of names."""
    if value is None:
        yield f"{name!r}: it returned None", NO_RETURN
    if not isinstance(value, list):
        why = BYTES if isinstance(value, str | bytes) else A_LIST
        yield f"{name!r}: it returned {value!r:.60}", why
    if any(not isinstance(one, str) for one in value):
        yield f"{name!r}: it returned {value!r:.60}", BYTES
    if "" in value:
        yield f"{name!r}: it returned {value!r:.60}", EMPTY


def describe_trial(trial) -> str:
    *_, (_, names) = trial[0].got
    return f"all get the same {len(names)}"
