"""The first program in a sandbox: it gives up its privileges, and becomes the driver.

    python -I drop_privileges.py '{"limits": {…}, "user": …, "command": […]}'

It runs before any line of a student's code, and imports only the standard library.
"""

import ctypes
import json
import os
import platform
import resource
import signal
import sys
from contextlib import suppress

NO_NEW_PRIVILEGES, DROP_BOUND, SET_DUMPABLE, AMBIENT = 38, 24, 4, 47  # of prctl(2)
KEYRING_CALL = {"x86_64": 250, "aarch64": 219}  # keyctl(2)
JOIN_A_NEW_KEYRING = 1
CLEAR_ALL, LAST_CAPABILITY = 4, 63
OUT_OF_MEMORY_FIRST = "1000"  # of proc(5): the kernel ends these processes before any others


def prctl(*arguments):
    ctypes.CDLL(None).prctl(*arguments, 0, 0)


def leave_keyring():
    """Leave the keyring of the teacher's session, whose keys processes inherit."""
    number = KEYRING_CALL.get(platform.machine())
    if number is not None:
        ctypes.CDLL(None).syscall(number, JOIN_A_NEW_KEYRING, None)


def limit(limits: dict[str, int]):
    for name, most in limits.items():
        _, hard = resource.getrlimit(int(name))
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(int(name), (least, least))


def become(user: int | None):
    """Become another user without this one's rights; if None, stay this one, without its rights."""
    for capability in range(LAST_CAPABILITY + 1):  # or a program would get them from its user
        prctl(DROP_BOUND, capability, 0)
    prctl(AMBIENT, CLEAR_ALL, 0)
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    prctl(NO_NEW_PRIVILEGES, 1, 0)


def settle(wish):
    """Give up rights and resources for good."""
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(OUT_OF_MEMORY_FIRST)
    leave_keyring()
    limit(wish["limits"])
    become(wish["user"])
    os.chdir(wish["folder"])
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, programs inherit it
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)


def main():
    wish = json.loads(sys.argv[1])
    settle(wish)
    os.execv(wish["command"][0], wish["command"])


if __name__ == "__main__":
    main()
