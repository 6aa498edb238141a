"""The right results, and the results of known mistakes."""

import shutil

from coursekit.kit import Wrong
from coursekit.kit.results import NO_RETURN

from .cases import LIST, flip_bit

NO_ERROR = (
    "a checkpoint that is not whole is nothing unusual: after a crash there is one. So the answer "
    "is False, and no error"
)

OTHER_SIZE = "it has another number of bytes than the list says"

SUM = "the number of bytes is right, but not what they are: only the checksum tells"

EACH = "each file of the list counts, the last one, too"

NOT_IN_LIST = "files that are not in the list do not matter: it says what belongs to the checkpoint"


def rewrite(name, change):
    def happens(folder):
        path = folder / name
        path.write_bytes(change(path.read_bytes()))

    return happens


def is_missing(name):
    return lambda folder: (folder / name).unlink()


def is_folder(name):
    def happens(folder):
        (folder / name).unlink()
        (folder / name).mkdir()

    return happens


def has_list(text):
    return lambda folder: (folder / LIST).write_text(text)


CASES = {  # {case: (change to the folder, whether it is whole, diagnosis of a wrong answer)}
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
    "in rank-0.pt one bit is another": (rewrite("rank-0.pt", flip_bit), False, SUM),
    "in rank-2.pt one bit is another": (rewrite("rank-2.pt", flip_bit), False, f"{SUM}. {EACH}"),
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


def judge(case, outcome, is_whole, why):
    if outcome.error:
        raise Wrong(case, str(outcome), "" if is_whole else NO_ERROR)
    if outcome.value is None:
        raise Wrong(case, "it returned None", NO_RETURN)
    if bool(outcome.value) is not is_whole:
        right_why = why or "each file is as the list says: the checkpoint is whole"
        raise Wrong(case, f"expected {is_whole}, got {outcome.value!r:.40}", right_why)
