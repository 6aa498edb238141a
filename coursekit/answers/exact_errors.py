"""Errors as names and texts, and back, for those that an answer raises in another process.

An error is rebuilt under its own name, as a subclass of the nearest built-in class that it had, so
that a handler for ValueError still catches it. The course's own errors are rebuilt as they were.
"""

import builtins
import importlib

from pedagogy_lib.basics.errors import HangError, LaunchError, RankError, WrongInput
from pedagogy_lib.basics.folders import short_path
from pedagogy_lib.basics.source_lines import SourceLine

# Errors of the course that are made of texts, {name: (its module, its attributes)}.
OF_TEXTS = {
    "Rejection": ("protocol", ("what", "why")),
    "Wrong": ("protocol", ("case", "what", "why")),
    "NotSolvedYet": ("labs.module", ()),
}
PACKAGE = __name__.split(".")[0]
OF_LAUNCHES = {kind.__name__: kind for kind in (LaunchError, WrongInput)}
MOST_CHARACTERS = 20_000  # of a message


def where_raised(error) -> SourceLine | None:
    """Return the learner's line that an error came from, in this process or in another one."""
    # Imported here: it imports torch.distributed, which a reader of texts does not need.
    from pedagogy_lib.ranks.call_stack import find_source_line, is_library, steps_of_traceback

    if hasattr(error, "line_elsewhere"):
        return error.line_elsewhere
    source_line = find_source_line(steps_of_traceback(error.__traceback__))
    return None if source_line is None or is_library(source_line.filename) else source_line


# ---- In the answer's process ----------------------------------------------------------------


def parts_of_error(error) -> dict:
    """Return the parts of an error that travel: names, texts and source lines."""
    kinds = [kind.__name__ for kind in type(error).__mro__]
    parts = {
        "kinds": kinds,
        "message": message_of(error),
        "source_line": attach_source(where_raised(error)),
    }
    if isinstance(error, RankError):
        cause = error.exception and parts_of_error(error.exception)
        parts |= {"rank": error.rank, "cause": cause, "source_line": attach_source(error.place)}
    if isinstance(error, HangError):
        waits = {rank: attach_source(source_line) for rank, source_line in error.waits.items()}
        parts |= {"waits": waits, "seconds": float(error.seconds), "advice": error.advice}
    if kinds[0] in OF_TEXTS:
        parts["texts"] = [str(getattr(error, name)) for name in OF_TEXTS[kinds[0]][1]]
    return parts


def message_of(error) -> str:
    """Return an error's message, or the name of its class where its own __str__ fails."""
    try:
        said = error.message if isinstance(error, LaunchError) else str(error)
    except Exception:
        said = f"a {type(error).__name__}"
    return said[:MOST_CHARACTERS]


def attach_source(source_line):
    """Return a source line with its text, because its reader does not have the file."""
    if source_line is None or not source_line.line:
        return source_line
    callers = tuple(
        attach_source(one) if isinstance(one, SourceLine) else one for one in source_line.callers
    )
    short = short_path(source_line.filename)
    return source_line._replace(filename=short, text=source_line.source(), callers=callers)


# ---- In the check's process -----------------------------------------------------------------


def rebuild_error(parts: dict) -> BaseException:
    """Return the error that such parts were made from."""
    first, message = str(parts["kinds"][0]), str(parts["message"])[:MOST_CHARACTERS]
    if first in OF_TEXTS:
        where, names = OF_TEXTS[first]
        kind = getattr(importlib.import_module(f"{PACKAGE}.{where}"), first)
        texts = (str(one)[:MOST_CHARACTERS] for one in parts["texts"])
        return kind(*texts) if names else kind(message)
    if first == "HangError":
        waits = {int(rank): source_line_or_none(one) for rank, one in parts["waits"].items()}
        advice = str(parts["advice"])[:MOST_CHARACTERS]
        return HangError(waits, float(parts["seconds"]), network=advice)
    if first == "RankError":
        return rank_error(parts, message)
    if first in OF_LAUNCHES:
        return OF_LAUNCHES[first](message)
    return error_named(parts, message)


def source_line_or_none(source_line) -> SourceLine | None:
    return source_line if isinstance(source_line, SourceLine) else None


def rank_error(parts, message) -> RankError:
    """Return a RankError, whose message is complete already."""
    error = RankError(int(parts["rank"]), "", source_line=None)
    error.args = (message,)
    error.place = source_line_or_none(parts["source_line"])
    error.exception = rebuild_error(parts["cause"]) if parts["cause"] else None
    return error


def error_named(parts, message) -> BaseException:
    kinds = [str(kind) for kind in parts["kinds"]]
    known = (getattr(builtins, kind, None) for kind in kinds)
    base = next((one for one in known if is_catchable(one)), Exception)
    # Not every class takes a message alone, and KeyError shows it in quotes.
    namespace = {
        "__init__": lambda self, *args: None,
        "__str__": lambda self: message,
        "line_elsewhere": source_line_or_none(parts["source_line"]),
        "kinds_elsewhere": tuple(kinds),
    }
    return type(kinds[0], (base,), namespace)(message)


def is_catchable(kind) -> bool:
    """Return whether a learner's code may raise this class; interrupts are the teacher's alone."""
    is_error = isinstance(kind, type) and issubclass(kind, BaseException)
    return is_error and (issubclass(kind, Exception) or kind is SystemExit)
