"""The numbers that follow from a command line, and whether it is possible at all."""

from coursekit.kit.results import NO_RETURN, NOT_ITS_OWN, outcome_and_arguments, outcome_of, plain
from coursekit.protocol import Exercise, Wrong

from .cases import KEYS, LINE, POSSIBLE
from .truth import truth, wrong_numbers

IMPOSSIBLE = {  # {the change: (arguments, ranks, what does not divide)}
    "60 GPUs": (LINE, 60, "the number of ranks has to be a multiple of tp × pp"),
    "16 GPUs": (LINE, 16, "the world has fewer ranks than one copy of the model needs"),
    "78 layers on pp 4": (LINE | {"layers": 78}, 64, "each stage needs as many layers"),
    "60 heads on tp 8": (LINE | {"heads": 60}, 64, "a head cannot be cut: tp divides their number"),
    "global batch 1023": (
        LINE | {"global_batch": 1023}, 64, "each copy gets as many samples of a step"),
    "36 GPUs, tp 4 and pp 6": (
        LINE | {"tp": 4, "pp": 6, "layers": 78}, 36, "the number of ranks has to be a multiple of "
        "tp × pp: of their product, not of each"),
    "24 samples for 4 copies, micro-batch 4": (
        LINE | {"global_batch": 24, "micro_batch": 4}, 128, "each copy's samples have to be a "
        "multiple of the micro-batch: its share, not the whole batch"),
    "micro-batch 3": (
        LINE | {"micro_batch": 3}, 64, "each copy's samples have to be a multiple of the "
        "micro-batch"),
}  # fmt: skip


def examine(answer):
    for case, (arguments, world_size) in POSSIBLE.items():
        outcome, (given, _) = outcome_and_arguments(answer, dict(arguments), world_size)
        judge(case, outcome, arguments, world_size)
        if given != arguments:
            raise Wrong(case, f"the arguments are now {given!r:.90}", NOT_ITS_OWN)
        yield f"{case}: " + ", ".join(
            f"{key} {value}" for key, value in truth(arguments, world_size).items()
        )
    for case, (arguments, world_size, why) in IMPOSSIBLE.items():
        outcome = outcome_of(answer, dict(arguments), world_size)
        if not outcome.error:
            raise Wrong(
                case, f"no ValueError; it returned {outcome.value!r:.90}",
                f"{why}: if something is no whole number, nothing may be returned",
            )  # fmt: skip
        if "ValueError" not in outcome.kinds:
            raise Wrong(case, str(outcome), "asked is a ValueError: raise ValueError(…)")
        yield f"{case}: ValueError"


def judge(case, outcome, arguments, world_size):
    if outcome.error:
        raise Wrong(case, str(outcome), why_raised(outcome))
    got, wanted = plain(outcome.value), truth(arguments, world_size)
    if got is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if not isinstance(got, dict) or set(got) != set(KEYS):
        raise Wrong(case, f"it returned {got!r:.90}", f"a dict with the keys {', '.join(KEYS)}")
    for key in KEYS:
        if got[key] != wanted[key]:
            known = wrong_numbers(arguments, world_size)[key]
            why = next((why for number, why in known if number == got[key]), "")
            raise Wrong(case, f"{key} is {got[key]!r:.40}, expected {wanted[key]}", why)
        if not isinstance(got[key], int) or isinstance(got[key], bool):
            raise Wrong(case, f"{key} is {got[key]!r:.40}", "asked are whole numbers: // gives one")


def why_raised(outcome) -> str:
    if "ValueError" in outcome.kinds:
        return "this is possible: everything divides"
    if "KeyError" in outcome.kinds:
        return "the names are tp, pp, micro_batch, global_batch, layers and heads"
    return ""


EXERCISE = Exercise(
    "derive",
    examine,
    hints=(
        "One copy of the model needs tp × pp ranks. What is left of the world?",
        "Each of the four is a division. total % parts tells whether it comes out even.",
        "A step's samples are shared out among the copies, and each copy's share into "
        "micro-batches.",
    ),
)
