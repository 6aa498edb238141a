"""Reports of errors in a rank to the notebook: in words, with the learner's line."""

import builtins
import contextlib
import pickle
import signal
import time

import cloudpickle

from .call_stack import find_source_line, is_library, steps_of_traceback
from .messages import FailureReport
from .packing import format_error

MOST_CHARACTERS = 2000  # of a message, which may hold a whole tensor
MOST_LINES = 10  # of details that belong to an error
PACK_SECONDS = 1.0  # for an exception's object; its text travels in any case
CONNECTED_TWICE = "initialize the default process group twice"  # in PyTorch's message
CONNECTED = " launch() has already connected the ranks: leave init_process_group() out"
NO_LINE = "no memory was left to note the line; make what the function holds smaller"


class CannotBegin(Exception):
    """A failure of a rank before the learner's function, which its message explains fully."""


def report_failure(error, block="") -> FailureReport:
    """Build the report with which the notebook explains an error at the learner's own line.

    block  the label of the innermost `measure` that the error has left
    """
    at = time.perf_counter()
    if isinstance(error, CannotBegin):
        return FailureReport(str(error), None, None, at)
    exception = pack_error(error)
    source_line = find_source_line(steps_of_traceback(error.__traceback__), block)
    source_line = None if source_line is None or is_library(source_line.filename) else source_line
    hint = CONNECTED if CONNECTED_TWICE in str(error) else ""
    lines = [f"raised {words_of(error)}{hint}", *list_error_details(error)]
    if isinstance(error, MemoryError) and source_line is None and not str(error):
        lines.append(NO_LINE)  # Python drops lines of a traceback for which it has no memory
    return FailureReport("\n  ".join(lines), exception, source_line, at)


def pack_error(error) -> bytes | None:
    """Pickle an exception; return None if that fails or takes too long."""
    try:
        with limit_time(PACK_SECONDS):
            data = cloudpickle.dumps(error)
            pickle.loads(data)
    except BaseException:  # whatever its class does, this error must be reported
        return None
    return data


@contextlib.contextmanager
def limit_time(seconds):
    """Raise TimeoutError in a block that takes longer than `seconds`, by the signal SIGALRM."""

    def end(*_):
        raise TimeoutError

    signal.signal(signal.SIGALRM, end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def words_of(error) -> str:
    """Return the class of an error and its message, cut where it is very long."""
    return f"{type(error).__name__}: {truncate_text(error)}".rstrip(": ")


def truncate_text(thing) -> str:
    """Return the text of an error or of a note, cut where it is very long."""
    try:
        text = str(thing)
    except Exception:
        text = "<its message cannot be shown>"
    more = len(text) - MOST_CHARACTERS
    return text if more <= 0 else f"{text[:MOST_CHARACTERS]}… ({more:,} characters more)"


def list_error_details(error) -> list[str]:
    """Return a line for an error's cause, each note, and each member of an ExceptionGroup."""
    notes = getattr(error, "__notes__", ())  # a program may have put anything there
    lines = [f"note: {truncate_text(note)}" for note in (notes if isinstance(notes, list) else ())]
    if error.__cause__ is not None:
        lines.insert(0, f"caused by {words_of(error.__cause__)}")
    if isinstance(error, getattr(builtins, "BaseExceptionGroup", ())):  # Python 3.11 has it
        lines += [f"member: {words_of(member)}" for member in error.exceptions]
    more = len(lines) - MOST_LINES
    lines = [" ".join(line.split()) for line in lines[:MOST_LINES]]
    return lines + [f"… and {more} more"] * (more > 0)


def cannot_travel(value, error) -> Exception:
    """Build the error to raise for a value that cannot be packed because of `error`."""
    kind = f"a {type(value).__name__}"
    if any(isinstance(e, MemoryError) or "allocate memory" in str(e) for e in chain_of(error)):
        return MemoryError(
            f"{kind} travels to the notebook as a copy, for which this rank has no memory; return "
            "less of it"
        )
    return TypeError(
        f"{kind} cannot travel to the notebook ({truncate_text(format_error(error))}); "
        "return numbers, strings, tensors, or lists and dicts of them"
    )


def chain_of(error):
    """Yield an error, and then those during whose handling it was raised."""
    while error is not None:
        yield error
        error = error.__context__
