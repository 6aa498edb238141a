"""DeepSpeed's three batch numbers, completed. The truth tries all numbers up to a limit."""

from coursekit.kit.results import NO_RETURN, NOT_ITS_OWN, outcome_and_arguments, outcome_of, plain
from coursekit.protocol import Exercise, Wrong

from .cases import KEYS, MICRO, POSSIBLE, STEPS, TRAIN, config
from .truth import truth, wrong_numbers

IMPOSSIBLE = {
    "16 samples, micro-batch 4, 2 steps, 4 copies": (
        config(16, 4, 2), 4, "all three are there, and their product with the copies is another "
        "number: nothing may be corrected in silence"),
    "18 samples, micro-batch 4, 2 copies": (
        config(18, 4), 2, "the samples of a step are no multiple of micro-batch × copies"),
    "20 samples, micro-batch 4, 2 copies": (
        config(20, 4), 2, "4 divides 20, and 2 divides 20; their product has to"),
    "16 samples, 3 steps, 2 copies": (
        config(16, steps=3), 2, "no whole micro-batch gives these samples in so many steps"),
    "15 samples, 2 copies": (config(15), 2, "15 samples cannot be dealt to 2 copies evenly"),
    "12 samples, micro-batch 4, 4 copies": (
        config(12, 4), 4, "the copies need 16 samples for one micro-batch each"),
    "accumulation alone": (
        config(steps=8), 2, "how many samples a step has, no rule says: one of both batch sizes "
        "has to be there"),
    "nothing": ({}, 2, "one of both batch sizes has to be there"),
}  # fmt: skip


def examine(answer):
    for case, (given, copies) in POSSIBLE.items():
        outcome, (told, _) = outcome_and_arguments(answer, dict(given), copies)
        if told != given:
            raise Wrong(case, f"the dict is now {told!r:.90}", NOT_ITS_OWN)
        judge(case, outcome, given, copies)
        right = truth(given, copies)
        yield f"{case}: {right[TRAIN]} = {right[MICRO]} × {right[STEPS]} × {copies}"
    for case, (given, copies, why) in IMPOSSIBLE.items():
        outcome = outcome_of(answer, dict(given), copies)
        if isinstance(outcome.value, Exception):
            what = f"it returned {outcome.value!r:.60}"
            raise Wrong(case, what, "an error is raised, and not returned")
        if not outcome.error:
            raise Wrong(case, f"no ValueError; it returned {outcome.value!r:.90}", why)
        if "ValueError" not in outcome.kinds:
            raise Wrong(case, str(outcome), "asked is a ValueError: raise ValueError(…)")
        yield f"{case}: ValueError"


def judge(case, outcome, given, copies):
    if outcome.error:
        raise Wrong(case, str(outcome), why_raised(outcome, truth(given, copies), copies))
    got, wanted = plain(outcome.value), truth(given, copies)
    if got is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not isinstance(got, dict) or set(got) != set(KEYS):
        raise Wrong(case, f"it returned {got!r:.150}", "asked is a dict with all three names")
    for key in KEYS:
        if isinstance(got[key], str):
            raise Wrong(case, f"{key} is {got[key]!r:.40}", "asked are whole numbers, and no text")
        if got[key] != wanted[key]:
            why = "this number was given: it stays as it is" if key in given else next(
                (why for n, why in wrong_numbers(given, copies)[key] if n == got[key]), ""
            )  # fmt: skip
            raise Wrong(case, f"{key} is {got[key]!r:.40}, expected {wanted[key]}", why)
        if not isinstance(got[key], int) or isinstance(got[key], bool):
            raise Wrong(case, f"{key} is {got[key]!r:.40}", "asked are whole numbers: // gives one")


def why_raised(outcome, right, copies) -> str:
    if "ValueError" in outcome.kinds:
        numbers = f"{right[TRAIN]} = {right[MICRO]} × {right[STEPS]} × {copies}"
        return f"this is possible: {numbers}. What has computed another number?"
    if "KeyError" in outcome.kinds:
        return "any of the three names may be missing: `in`, or .get(), tells whether it is there"
    if "TypeError" in outcome.kinds:
        return "a name that is missing has no number: .get() gives None for it"
    return ""


EXERCISE = Exercise(
    "complete_batch",
    examine,
    hints=(
        "A step's samples are micro-batch × micro-batches of a copy × copies. Which of the three "
        "is not known?",
        "With one number alone, the micro-batches of a copy are 1. Then one number is missing at "
        "most.",
        "Compute the missing number with //, and then test the product: a division with a rest "
        "shows there, too.",
    ),
)
