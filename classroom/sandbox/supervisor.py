"""A program that starts another, and ends with all its processes once the grader closes a pipe.

    python -I supervisor.py '{"lifeline": fd, "own": …, "limits": …, "user": …, "command": […]}'

own  "root": this is the first process of a namespace, and makes a new root first.
     "user": this is root, and the program is another user's, all of whose processes end.
"""

import json
import os
import select
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import drop_privileges

LOOK_SECONDS = 0.05
REAP_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)


def start(wish) -> int:
    """Start the program, and return its process number."""
    pid = os.fork()
    if pid == 0:
        try:
            os.close(wish["lifeline"])
            if wish["own"] == "root":
                import new_root

                new_root.restrict(wish["cells"])
            os.setsid()
            drop_privileges.settle(wish)
            os.execv(wish["command"][0], wish["command"])
        finally:
            os._exit(127)
    return pid


def wait(lifeline, pid):
    """Wait until the grader closes the pipe or the program has ended; reap orphans meanwhile."""
    while True:
        readable, _, _ = select.select([lifeline], [], [], LOOK_SECONDS)
        if readable or has_ended(pid):
            return


def has_ended(pid) -> bool:
    try:
        while True:
            ended, _ = os.waitpid(-1, os.WNOHANG)
            if ended == pid:
                return True
            if ended == 0:
                return False
    except ChildProcessError:
        return True


def end_all_of(user):
    """Kill all processes of a user at once, until none is left."""
    while True:
        pid = os.fork()
        if pid == 0:
            os.setresuid(user, user, user)
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if os.waitstatus_to_exitcode(status) == 1:
            return
        has_ended(pid)  # reaps: a dead process can be signalled until it is waited for


def main():
    wish = json.loads(sys.argv[1])
    if wish["own"] == "root":
        sys.path.append(wish["course"])
        import new_root

        new_root.make(*(wish[name] for name in ("base", "places", "cells", "disk_bytes")))
    else:
        drop_privileges.prctl(REAP_ORPHANS, 1, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pid = start(wish)
    drop_privileges.prctl(drop_privileges.SET_DUMPABLE, 0, 0)  # no process can look into this one
    keep(wish, pid)


def keep(wish, pid):
    for fd in wish["given"]:  # the program's ends of its pipes, which it alone keeps
        os.close(fd)
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(null, fd)
    wait(wish["lifeline"], pid)
    if wish["own"] == "user":
        end_all_of(wish["user"])


if __name__ == "__main__":
    main()
