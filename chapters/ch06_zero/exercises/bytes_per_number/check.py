"""The dtypes of a step under FSDP2's mixed precision and autocast, as bytes per number."""

from coursekit.kit import Formula

from .rules import NAMES, RULES, inputs
from .truth import MISTAKES, bytes_in_step

CASES = {
    "nothing set": [(None, None, None, False)],
    "the policy of the file": [(2, 4, 4, False), (2, 4, None, False)],
    "param_dtype alone": [(2, None, None, False)],
    "autocast alone": [(None, None, None, True)],
    "both": [(2, 4, None, True), (2, 4, 4, True), (2, None, None, True)],
    "weights in float32, said aloud": [(4, None, None, True), (4, 2, 2, False)],
    "an output in bfloat16": [(None, None, 2, False), (None, 2, 2, True)],
    "all 54 arguments": inputs(),
}


def differs(call, wanted, got) -> str:
    if not isinstance(got, list) or len(got) != len(NAMES):
        return ""
    at = next(k for k in range(len(NAMES)) if got[k] != wanted[k])
    told = f"{NAMES[at]}: expected {wanted[at]}, got {got[at]}"
    return f"param, reduce, output, autocast = {call}: {told}"


SHAPE = "five numbers, each 2 or 4: gathered, product, output, loss, reduced"


def why_of_another_length(found, case) -> str:
    lists = [value for value in found[case] if isinstance(value, list)]
    return SHAPE if any(len(value) != len(NAMES) for value in lists) else ""


def rule_of_the_first_wrong(found, case) -> str:
    """Return what decides about the first wrong number of a case."""
    if told := why_of_another_length(found, case):
        return told
    for call, got in zip(CASES[case], found[case]):
        for name, mine, right in zip(NAMES, got, bytes_in_step(*call)):
            if mine != right:
                return RULES[name] if mine in (2, 4) else SHAPE
    return ""


EXERCISE = Formula(
    "bytes_per_number",
    cases=CASES,
    truth=bytes_in_step,
    right=lambda calls, values: "; ".join(" ".join(map(str, value)) for value in values[:3]),
    differs=differs,
    asked="five numbers: gathered, product, output, loss, reduced",
    shape=SHAPE,
    explain=rule_of_the_first_wrong,
    mistakes=MISTAKES,
    hints=(
        "Follow the numbers in the order in which they arise: the gathered weights first. Which "
        "of the four arguments decides about each?",
        "Where the policy says nothing, weights are used as they are stored. Autocast decides "
        "about products, whatever the weights are, and about the loss.",
        "The output is a product, unless output_dtype casts it. Gradients have the dtype of the "
        "gathered weights, unless reduce_dtype casts them.",
    ),
)  # fmt: skip
