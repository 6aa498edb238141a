"""What tests of machines share: whether they can be had here, and what of them is left over."""

import contextlib
import os
import subprocess
import sys

import needs
from helpers import ROOT, environment, family, wait_until

from pedagogy_lib.machines import other_users

needs_machines = needs.mark("machines")
needs_netem = needs.mark("netem")

# Where Python lies in a folder of root's alone, an ordinary user gets a look at that place only.
AS_SOMEBODY = """
set -e
mkdir -p "$2/python" && mount --bind "$1" "$2/python"
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p "$1" && mount --bind "$2/python" "$1"
shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""


def networks(pids=None) -> set[int]:
    """The network namespaces that processes are in: these, or all that one may look at."""
    pids = pids or [int(name) for name in os.listdir("/proc") if name.isdigit()]
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or belongs to somebody else
            found.add(os.stat(f"/proc/{pid}/ns/net").st_ino)
    return found


_kept = {}  # {number of a network: a descriptor that keeps it}


def networks_of(pid) -> set[int]:
    """Those of a program's descendants, but not its own.

    They are kept until they `have_gone`: the kernel gives a number that is free to the next
    network, which another test may make.
    """
    pids = [*family(pid), pid]
    for one in pids:
        with contextlib.suppress(OSError):  # it has ended
            kept = os.open(f"/proc/{one}/ns/net", os.O_RDONLY)
            if _kept.setdefault(os.stat(kept).st_ino, kept) != kept:
                os.close(kept)
    return networks(pids) - networks([pid])


def have_gone(own) -> bool:
    """Whether no process is in these networks any more, after some time."""
    gone = wait_until(lambda: not networks() & own)
    for number in own & set(_kept):
        os.close(_kept.pop(number))
    return gone


def run_as(who, program, folder) -> subprocess.CompletedProcess:
    """Run a Python program as "root" of a user namespace, or as "somebody" without any rights."""
    command = [sys.executable, "-c", program]
    if who == "root":
        command = ["unshare", "-Ur", *command]
    elif os.geteuid() == 0:
        for name in needs.find_missing(["setpriv", "a folder open to all"]):
            needs.skip(name)
        folder.chmod(0o777)
        home = sys.base_prefix
        if home.startswith("/root/"):
            outside = ["unshare", "-m", "bash", "-c", AS_SOMEBODY, "-", home, str(folder)]
        else:
            outside = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        command = [*outside, *command]
    own = {"HOME": str(folder), "TMPDIR": str(folder), other_users.SWITCH: "1"}
    environ = environment(PYTHONDONTWRITEBYTECODE="1", **own)
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )
