"""Other people on this computer, from whose programs a separate network shields launches."""

import contextlib
import functools
import os
import time
from pathlib import Path

PEOPLE = range(1000, 60_000)  # user ids of accounts on this machine; all others belong to services
FIRST_OF_NETWORK = 65_536  # user ids from here on are those of accounts in a network's directory
LOOK_SECONDS = 60.0  # after which another person may have come
SWITCH = "PEDAGOGY_OWN_NETWORK"  # "1": launches always have one; "0": never


def keeps_to_itself() -> bool:
    """Return whether launches run in a separate network, as far as this system lets them."""
    wish = os.environ.get(SWITCH, "")
    return wish == "1" or (wish != "0" and are_there(int(time.monotonic() // LOOK_SECONDS)))


@functools.lru_cache(maxsize=1)
def are_there(_) -> bool:
    try:
        return bool(other_people())
    except ImportError:  # Windows has no accounts of this kind
        return False


def other_people() -> set[int]:
    """Return the user ids of other people, found by their accounts and by their processes."""
    import pwd  # Windows has none

    accounts = {one.pw_uid for one in pwd.getpwall() if can_log_in(one)}
    return {uid for uid in accounts | owners_of_processes() if is_person(uid)} - {os.getuid()}


def can_log_in(account) -> bool:
    return not account.pw_shell.endswith(("nologin", "false"))


def is_person(uid) -> bool:
    return uid in PEOPLE or uid >= FIRST_OF_NETWORK


def owners_of_processes() -> set[int]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            found.add(folder.stat().st_uid)
    return found
