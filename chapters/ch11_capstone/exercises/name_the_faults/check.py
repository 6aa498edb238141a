"""The exam: the fault on each sheet. A wrong name is explained by what the sheet shows."""

from coursekit.kit.formula import is_raised, value_of
from coursekit.kit.results import MOST_DIGITS, text_of
from coursekit.labs import find_lab
from coursekit.protocol import Exercise, Wrong
from pedagogy_lib.basics.units import brief

from .cases import A_SEED, OTHER_SEEDS, SHAPE
from .truth import explain_wrong_names, need, need_sheets


def examine(answer):
    named = value_of(answer, ())
    need(not is_raised(named), f"it raised {getattr(named, 'text', '')}")
    need(isinstance(named, dict), f"it returned {brief(named, 60)}", SHAPE)
    need("seed" in named, "there is no seed", OTHER_SEEDS)
    seed, named = named["seed"], {k: v for k, v in named.items() if k != "seed"}
    is_whole = isinstance(seed, int) and not isinstance(seed, bool)
    need(is_whole, f"the seed is {brief(seed)}", A_SEED)
    need(abs(seed) < 10**MOST_DIGITS, f"the seed is {text_of(seed)}", A_SEED)
    sheets = find_lab("exam").draw_faults(seed)
    need_sheets(named, sheets)
    right = [letter for letter in sheets if named[letter] == sheets[letter]]
    if len(right) < len(sheets):
        raise Wrong(f"{len(right)} of {len(sheets)} are right", *explain_wrong_names(named, sheets))
    yield f"all {len(sheets)} sheets of the exam with seed {seed}"


EXERCISE = Exercise(
    "name_the_faults",
    examine,
    hints=(
        "Go through the evidence in one order: do all steps end? Which bytes differ? Which memory? "
        "Which step of the timeline? Only then look at the losses.",
        "Of losses, ask first: at which step do they leave last week's? At 0 it is the samples or "
        "the forward. At 1 it is the first gradient; a small error in it may show in the fourth "
        "digit only at 2. Later, ask what happens for the first time just before that step.",
        "Where two candidates remain, say what one of them would change and the other would not. "
        "Then look at that: a factor, a rank, or the order of the bars.",
    ),
)
