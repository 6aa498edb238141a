"""The exam: which fault is on which sheet. A wrong name is told by what the sheet shows."""

import difflib

from ...basics.units import brief
from ...course.checking import Exercise, Wrong
from ...course.labs import find_lab
from ..kit.formula import is_raised, value_of
from ..kit.values import MOST_DIGITS, text_of
from .what_sheets_show import SHOWS, as_text, difference

CASE, MOST_REASONS = "your names", 3
SHAPE = 'return a dict: {"seed": 7, "A": "summed", "B": …}'
OTHER_SEEDS = "the dict has the seed of your exam, too: other seeds draw other sheets"
A_SEED = "the seed of your exam is a whole number: the one behind `seed =`"
ONE_NAME = "each sheet has one name, as a text; or None, without quotes, where you cannot tell"


def examine(answer):
    named = value_of(answer, ())
    need(not is_raised(named), f"it raised {getattr(named, 'text', '')}")
    need(isinstance(named, dict), f"it returned {brief(named, 60)}", SHAPE)
    need("seed" in named, "there is no seed", OTHER_SEEDS)
    seed, named = named["seed"], {k: v for k, v in named.items() if k != "seed"}
    is_whole = isinstance(seed, int) and not isinstance(seed, bool)
    need(is_whole, f"the seed is {brief(seed)}", A_SEED)
    need(abs(seed) < 10**MOST_DIGITS, f"the seed is {text_of(seed)}", A_SEED)
    sheets = find_lab("exam").drawn_for(seed)
    need_sheets(named, sheets)
    right = [letter for letter in sheets if named[letter] == sheets[letter]]
    if len(right) < len(sheets):
        raise Wrong(f"{len(right)} of {len(sheets)} are right", *told(named, sheets))
    yield f"all {len(sheets)} sheets of the exam with seed {seed}"


def need(condition, what, why=""):
    if not condition:
        raise Wrong(CASE, what, why)


def need_sheets(named, sheets):
    """Raise `Wrong` unless each sheet is there, with a name of the list, or None."""
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


def told(named, sheets) -> tuple[str, str]:
    """What is wrong about the first sheets that are not right; and why."""
    wrong = [letter for letter in sheets if named[letter] not in (None, sheets[letter])]
    if not wrong:
        open_ones = ", ".join(letter for letter in sheets if named[letter] is None)
        return f"nothing is wrong; still open: {open_ones}", ""
    what = "; ".join(f"sheet {letter} is not “{named[letter]}”" for letter in wrong)
    return what, "\n".join(reason(one, named[one], sheets[one]) for one in wrong[:MOST_REASONS])


def reason(letter, name, fault) -> str:
    """What the sheet would show with the named fault, and what it does show."""
    evidence, would, does = difference(name, fault)
    return f"{letter}: with “{name}”, {as_text(evidence, would)}. Here {as_text(evidence, does)}."


EXERCISE = Exercise(
    "11.4",
    "name_the_faults",
    examine,
    hints=(
        "Go through the evidence in one order: do all steps end? Which bytes differ? Which memory? "
        "Which step of the timeline? Only then look at the losses.",
        "Of losses, ask first: at which step do they leave last week's? At 0 it is the samples or "
        "the forward. At 1 it is the first gradient. Later, ask what happens for the first time "
        "just before that step.",
        "Where two candidates remain, say what one of them would change and the other would not. "
        "Then look at that: a factor, a rank, or the order of the bars.",
    ),
)
