"""Refusals of the operating system, in words that say what to do."""

import contextlib
import errno
import os
import sys

from ..basics.errors import LaunchError

TOLD_AS = {  # in messages of other libraries, which have no error number
    "Too many open files": errno.EMFILE,
    "can't start new thread": errno.EAGAIN,
    "Resource temporarily unavailable": errno.EAGAIN,
    "No space left on device": errno.ENOSPC,
    "Cannot allocate memory": errno.ENOMEM,
}
WITHOUT_LOOPBACK = "Unable to find address for"  # in Gloo's message
LOOPBACK_IS_DOWN = (
    "the loopback network of this machine is down, over which ranks talk: the administrator can "
    "turn it on with `ip link set lo up`"
)
CLOSED = (
    "the program has closed a file or connection that was not its own: close only files that you "
    "opened, and restart the kernel"
)
NO_EXECUTABLE = "Python itself ({}) is not there any more: restart the kernel"
NO_FOLDER = (
    "the temporary folder{} cannot be used ({}): name one that can be written in TMPDIR, and "
    "restart the kernel"
)


def reason(error: Exception) -> str:
    """Explain why the system refused, and what to do about it."""
    text = str(error)
    number = getattr(error, "errno", None) or number_in(text)
    path = getattr(error, "filename", None)
    if WITHOUT_LOOPBACK in text:
        return LOOPBACK_IS_DOWN
    if number in SENTENCES:
        return SENTENCES[number]()
    if path == sys.executable and number == errno.ENOENT:
        return NO_EXECUTABLE.format(path)
    if path == sys.executable:
        return f"Python itself ({path}) cannot be run ({error.strerror})"
    if isinstance(error, OSError) and (path or number == errno.ENOENT):
        return NO_FOLDER.format(f" {path}" if path else "", error.strerror)
    return text


def number_in(text) -> int | None:
    return next((number for words, number in TOLD_AS.items() if words in text), None)


def reason_in(text) -> str:
    """Explain why the system refused, if another library says so; else return an empty string."""
    number = number_in(text)
    return SENTENCES[number]() if number else ""


def too_many_files() -> str:
    import resource  # Windows has none

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        f"too many open files: a process may have {most} (`ulimit -n`); take fewer ranks, or raise "
        "this limit before you start Jupyter"
    )


def too_many_processes() -> str:
    import resource  # Windows has none

    most, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    own = "" if most == resource.RLIM_INFINITY else f", {most} for all your programs (`ulimit -u`)"
    return f"the limit of processes and threads is reached{own}: end some, or take fewer ranks"


def no_memory() -> str:
    return "the machine is out of memory: close other programs, or take fewer ranks"


def no_space() -> str:
    return "the disk with the temporary folder is full: make room there"


def long_environment() -> str:
    longest = max(os.environ, key=lambda name: len(os.environ[name]), default="")
    return (
        "os.environ holds more than a program can get when it starts, most of it in "
        f"{longest!r}: delete that, and pass large values as arguments"
    )


SENTENCES = {
    errno.EMFILE: too_many_files,
    errno.ENFILE: too_many_files,
    errno.ETOOMANYREFS: too_many_files,  # files on their way to the fork server count, too
    errno.EAGAIN: too_many_processes,
    errno.ENOMEM: no_memory,
    errno.ENOSPC: no_space,
    errno.EDQUOT: no_space,
    errno.E2BIG: long_environment,
    errno.EBADF: lambda: CLOSED,
}


@contextlib.contextmanager
def refusals_told():
    """Turn a refusal of the system into a LaunchError that says what to do."""
    try:
        yield
    except OSError as error:
        raise LaunchError(f"the ranks cannot be started: {reason(error)}") from None
