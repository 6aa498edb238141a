"""The right results, and the results of known mistakes."""

import difflib

from coursekit.kit import Wrong
from pedagogy_lib.basics.units import brief

from .cases import CASE, MOST_REASONS
from .sheet_evidence import SHOWS, describe_evidence, difference

ONE_NAME = "each sheet has one name, as a text; or None, without quotes, where you cannot tell"


def need(condition, what, why=""):
    if not condition:
        raise Wrong(CASE, what, why)


def need_sheets(named, sheets):
    """Raise `Wrong` unless each sheet has a name from the list, or None."""
    unknown = [letter for letter in named if letter not in sheets]
    need(not unknown, f"there is no sheet {brief((unknown or [None])[0])}", "the sheets are A to L")
    missing = [letter for letter in sheets if letter not in named]
    need(
        not missing,
        f"there is nothing on {', '.join(missing)}",
        "name a fault for each sheet, or None where you cannot tell",
    )
    for letter, name in named.items():
        need(
            name is None or name in list(SHOWS),
            f"sheet {letter}: no fault is called {brief(name)}",
            nearest(name),
        )


def nearest(name) -> str:
    if not isinstance(name, str) or name in ("None", ""):
        return ONE_NAME
    near = difflib.get_close_matches(name.strip().lower(), SHOWS, n=1)
    return f"did you mean {near[0]!r}?" if near else "take a name from the list of candidates"


def explain_wrong_names(named, sheets) -> tuple[str, str]:
    """Return which sheets are wrong, and the reasons for the first ones."""
    wrong = [letter for letter in sheets if named[letter] not in (None, sheets[letter])]
    if not wrong:
        open_ones = ", ".join(letter for letter in sheets if named[letter] is None)
        return f"nothing is wrong; still open: {open_ones}", ""
    what = "; ".join(f"sheet {letter} is not “{named[letter]}”" for letter in wrong)
    return what, "\n".join(reason(one, named[one], sheets[one]) for one in wrong[:MOST_REASONS])


def reason(letter, name, fault) -> str:
    """Describe what the sheet would show with the named fault, and what it does show."""
    evidence, would, does = difference(name, fault)
    return (
        f"{letter}: with “{name}”, {describe_evidence(evidence, would)}. Here "
        f"{describe_evidence(evidence, does)}."
    )
