"""Whether a checkpoint is whole: files that are missing, cut off, or changed."""

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from ...course.checking import Exercise, Wrong
from ...course.trying import there
from ..kit.outcomes import outcome_of
from ..kit.values import NO_RETURN

LIST, RANKS = "files.json", ("rank-0.pt", "rank-1.pt", "rank-2.pt")
NO_ERROR = (
    "a checkpoint that is not whole is nothing unusual: after a crash there is one. So the answer "
    "is False, and no error"
)
OTHER_SIZE = "it has another number of bytes than the list says"
SUM = "the number of bytes is right, but not what they are: only the checksum tells"
EACH = "each file of the list counts, the last one, too"
NOT_IN_LIST = "files that are not in the list do not matter: it says what belongs to the checkpoint"


def data_of(name) -> bytes:
    return name.encode() * 500


def note_of(data) -> dict:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def make_whole(folder, names=RANKS):
    for name in names:
        (folder / name).write_bytes(data_of(name))
    files = {name: note_of(data_of(name)) for name in names}
    (folder / LIST).write_text(json.dumps({"step": 50, "files": files}))


# ---- What happens to it: each takes its folder ---


def rewrite(name, change):
    def happens(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return happens


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


def is_missing(name):
    return lambda folder: (folder / name).unlink()


def is_folder(name):
    def happens(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return happens


def has_list(text):
    return lambda folder: (folder / LIST).write_text(text)


CASES = {  # what has happened: (how, whether it is whole, what an answer has overlooked)
    "as it was written": (lambda folder: None, True, ""),
    "with a file that is not in the list": (
        lambda folder: (folder / "rank-9.pt").write_bytes(b"of another time"), True,
        NOT_IN_LIST),
    "rank-1.pt is missing": (is_missing("rank-1.pt"), False, "a file of the list may be missing"),
    "rank-1.pt is cut off": (
        rewrite("rank-1.pt", lambda data: data[:-7]), False, OTHER_SIZE),
    "rank-0.pt is empty": (rewrite("rank-0.pt", lambda data: b""), False, OTHER_SIZE),
    "rank-2.pt has more bytes": (
        rewrite("rank-2.pt", lambda data: data + b"more"), False, OTHER_SIZE),
    "in rank-0.pt one bit is another": (rewrite("rank-0.pt", flipped), False, SUM),
    "in rank-2.pt one bit is another": (rewrite("rank-2.pt", flipped), False, f"{SUM}. {EACH}"),
    "rank-2.pt is missing": (is_missing("rank-2.pt"), False, EACH),
    "rank-1.pt is a folder": (is_folder("rank-1.pt"), False, NO_ERROR),
    "the list is missing": (
        is_missing(LIST), False, "without a list nobody knows what belongs to it"),
    "the list is cut off": (
        rewrite(LIST, lambda data: data[: len(data) // 2]), False, "half a list is no JSON"),
    "the list is empty": (has_list(""), False, "an empty file is no JSON"),
    "the list has no files": (
        has_list('{"step": 50}'), False, 'there may be no "files": then it is not whole'),
    "the list has no checksums": (
        has_list('{"step": 50, "files": {"rank-0.pt": {"bytes": 4500}}}'), False,
        "what has no checksum is not known to be whole"),
    "the list is a list": (has_list("[1, 2]"), False, "JSON may be anything: here no dict"),
    "the folder is not there": (shutil.rmtree, False, NO_ERROR),
}  # fmt: skip


def looked_at(answer, happens) -> tuple:
    """Beside the answer: what came of it, and whether the folder is as it was."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent, "step-000050")
        folder.mkdir()
        make_whole(folder)
        happens(folder)
        before = contents(folder)
        return outcome_of(answer, folder), contents(folder) == before


def examine(answer):
    for case, (happens, is_whole, why) in CASES.items():
        outcome, is_as_before = there(looked_at, answer, happens)
        judge(case, outcome, is_whole, why)
        if not is_as_before:
            raise Wrong(case, "the folder has changed", "is_whole only looks")
        yield f"{case}: {is_whole}"


def judge(case, outcome, is_whole, why):
    if outcome.error:
        raise Wrong(case, str(outcome), "" if is_whole else NO_ERROR)
    if outcome.value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if bool(outcome.value) is not is_whole:
        right_why = why or "each file is as the list says: the checkpoint is whole"
        raise Wrong(case, f"expected {is_whole}, got {outcome.value!r:.40}", right_why)


def contents(folder) -> dict:
    return {path.name: path.is_file() and path.read_bytes() for path in folder.glob("*")}


EXERCISE = Exercise(
    "4.3",
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
