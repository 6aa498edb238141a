"""DeepSpeed's three batch numbers, completed. The truth tries all there is."""

from ...course.checking import Exercise, Wrong
from ..kit.outcomes import outcome_and_arguments, outcome_of
from ..kit.tables import tabled
from ..kit.values import NO_RETURN, NOT_ITS_OWN, plain

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
KEYS = (TRAIN, MICRO, STEPS)


def config(train=None, micro=None, steps=None) -> dict:
    found = dict(zip(KEYS, (train, micro, steps)))
    return {key: value for key, value in found.items() if value is not None}


POSSIBLE = {  # the dict, and the copies
    "all three, 2 copies": (config(16, 4, 2), 2),
    "without accumulation, 2 copies": (config(16, 4), 2),
    "without the micro-batch, 3 copies": (config(60, steps=4), 3),
    "without the step's batch, 4 copies": (config(micro=3, steps=5), 4),
    "the step's batch alone, 3 copies": (config(12), 3),
    "the micro-batch alone, 5 copies": (config(micro=6), 5),
    "one copy": (config(24, 8), 1),
    "64 copies": (config(1024, 1), 64),
}
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
LARGEST = 64


@tabled(lambda: list(POSSIBLE.values()))
def truth(given, copies) -> dict:
    """Try every micro-batch and number of steps: what agrees with all that is given."""
    wanted = {STEPS: 1} | given if len(given) == 1 else given
    for micro in range(1, LARGEST + 1):
        for steps in range(1, LARGEST + 1):
            one = config(micro * steps * copies, micro, steps)
            if wanted.items() <= one.items():
                return one
    raise ValueError(f"nothing agrees with {given}")


MISTAKES = {
    TRAIN: [
        (lambda g, n: g.get(MICRO, 0) * g.get(STEPS, 1), "these are the samples of one copy: a "
         "step has those of all copies"),
        (lambda g, n: g.get(MICRO, 0) * n * (STEPS in g), "each copy goes through several "
         "micro-batches in a step"),
    ],
    MICRO: [
        (lambda g, n: 1, "what is missing follows from the rule; only the accumulation steps are 1 "
         "where nothing tells them"),
        (lambda g, n: g.get(TRAIN, 0) // g.get(STEPS, 1), "the copies share out the samples: each "
         "of them has its own part of a step"),
        (lambda g, n: g.get(TRAIN, 0) // n * (STEPS in g), "this is what a copy gets for the whole "
         "step; it goes through it in several micro-batches"),
    ],
    STEPS: [
        (lambda g, n: len(g) > 1, "the accumulation steps are 1 if only one number is there; here "
         "they follow from the rule"),
        (lambda g, n: g.get(TRAIN, 0) // g.get(MICRO, 1), "the copies go through their "
         "micro-batches at the same time: each has its own part"),
        (lambda g, n: g.get(TRAIN, 0) // n, "this counts samples of a copy; asked are its "
         "micro-batches"),
    ],
}  # fmt: skip


@tabled(lambda: list(POSSIBLE.values()))
def wrong_numbers(given, copies) -> dict[str, list[tuple]]:
    return {key: [(f(given, copies), why) for f, why in known] for key, known in MISTAKES.items()}


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
    "10.19",
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
