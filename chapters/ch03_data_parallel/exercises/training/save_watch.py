"""A watch over a program's checkpoint while the program saves the next one."""

import contextlib
import os
import sys
from unittest import mock

import torch

WRITES = os.O_WRONLY | os.O_RDWR
OPENED, REMOVED, RENAMED, ELSEWHERE = "opened", "removed", "renamed", "from elsewhere"
_watched = []  # (path, list of harms to it), one at a time
_hooked = []  # Python cannot remove an audit hook, so each process adds one only once


@contextlib.contextmanager
def what_happens_to(path):
    """Yield a list that gets all that the block does to the file at `path` but naming it so."""
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
    """Return the whole path; "" for a file that is named by a number."""
    return "" if isinstance(name, int) else os.path.realpath(os.fsdecode(name))


@contextlib.contextmanager
def calls_of_save():
    """Yield a list that gets an entry for each call of torch.save in the block."""
    found, save = [], torch.save

    def note_save(*args, **kwargs):
        found.append(True)
        return save(*args, **kwargs)

    with mock.patch.object(torch, "save", note_save):
        yield found
