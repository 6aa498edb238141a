"""User numbers that nobody has: each sandbox of a grader that is root runs as another user."""

import os
import pwd
from itertools import count

import psutil

FIRST, MANY = 60100, 900  # between the numbers of people and those that systemd takes
_turns = count(os.getpid())


def stranger() -> int:
    """Return a user's number that no process and no account has."""
    taken = {uid for process in psutil.process_iter(["uids"]) for uid in process.info["uids"] or ()}
    taken |= {person.pw_uid for person in pwd.getpwall()}
    for turn in _turns:
        uid = FIRST + turn % MANY
        if uid not in taken:
            return uid
    raise AssertionError("itertools.count() has no end")
