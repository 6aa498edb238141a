"""Checkpoints that are whole, or whose files are missing, cut off or changed."""

from coursekit.answers.remote_answer import call_next_to_answer
from coursekit.protocol import Exercise, Wrong

from .cases import try_is_whole
from .truth import CASES, judge


def examine(answer):
    for case, (happens, is_whole, why) in CASES.items():
        outcome, is_as_before = call_next_to_answer(try_is_whole, answer, happens)
        judge(case, outcome, is_whole, why)
        if not is_as_before:
            raise Wrong(case, "the folder has changed", "is_whole only looks")
        yield f"{case}: {is_whole}"


EXERCISE = Exercise(
    "is_whole",
    examine,
    lab="checkpoints",
    hints=(
        "The list says of each file how many bytes it has, and their checksum. note_of(data) gives "
        "the same of what you read.",
        "json.loads((checkpoint / LIST).read_text())[\"files\"] is the dict of files; "
        "(checkpoint / name).read_bytes() what one of them has.",
        "Reading may fail in many ways: OSError, ValueError (of which JSON's error is one), "
        "KeyError, TypeError, AttributeError. All of them mean False, so that `except Exception` "
        "is right here.",
    ),
)  # fmt: skip
