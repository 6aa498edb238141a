"""What a program does to its checkpoint while it saves the next one."""

import contextlib
import os
import sys
from unittest import mock

import torch

WRITES = os.O_WRONLY | os.O_RDWR
OPENED, REMOVED, RENAMED, ELSEWHERE = "opened", "removed", "renamed", "from elsewhere"
_watched = []  # (path, list of what is done to it), one at a time
_hooked = []  # Python cannot take such a hook back, so there is one in each process


@contextlib.contextmanager
def what_happens_to(path):
    """Gets, in order, what the block does to the file at `path`, but for giving it its name."""
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(note)
    found = []
    _watched.append((os.path.realpath(path), found))
    try:
        yield found
    finally:
        _watched.clear()


def note(event, args):
    if _watched and event in ("open", "os.remove", "os.truncate", "os.rename"):
        path, found = _watched[0]
        found += harm(event, args, path)


def harm(event, args, path) -> list[str]:
    first = place_of(args[0])
    if event == "os.rename":
        second = place_of(args[1])
        beside = first.startswith(os.path.dirname(path) + os.sep)
        return [RENAMED] * (first == path) + [ELSEWHERE] * (second == path and not beside)
    if first != path or (event == "open" and not args[2] & WRITES):
        return []
    return [OPENED if event == "open" else REMOVED]


def place_of(name) -> str:
    """The whole path; "" of a file that is named by a number."""
    return "" if isinstance(name, int) else os.path.realpath(os.fsdecode(name))


@contextlib.contextmanager
def calls_of_save():
    """Gets an entry for each call of torch.save in the block."""
    found, save = [], torch.save

    def note_save(*args, **kwargs):
        found.append(True)
        return save(*args, **kwargs)

    with mock.patch.object(torch, "save", note_save):
        yield found
