"""What tests of machines share: whether they can be had here, and what of them is left over."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import ROOT, environment, wait_until

from pedagogy_lib.machines import neighbours
from pedagogy_lib.machines.network import try_machines

needs_machines = pytest.mark.skipif(bool(try_machines()), reason=f"no machines: {try_machines()}")
GONE_SECONDS = 5.0  # for the kernel to clear a network away

# Where Python lies in a folder of root's alone, an ordinary user gets a look at that place only.
AS_SOMEBODY = """
set -e
mkdir -p "$2/python" && mount --bind "$1" "$2/python"
mount -t tmpfs -o mode=755 tmpfs /root
mkdir -p "$1" && mount --bind "$2/python" "$1"
shift 2
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
"""


def networks() -> set[int]:
    """The network namespaces in which there is a process that this one may look at."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found.add(os.stat(folder / "ns" / "net").st_ino)
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found


def none_but(before) -> bool:
    """Whether all networks that there were not before have gone, after some time."""
    return wait_until(lambda: not networks() - before, GONE_SECONDS)


def run_as(who, program, folder) -> subprocess.CompletedProcess:
    """Run a Python program as "root" of a user namespace, or as "somebody" without any rights."""
    command = [sys.executable, "-c", program]
    if who == "root":
        command = ["unshare", "-Ur", *command]
    elif os.geteuid() == 0:
        if not shutil.which("setpriv"):
            pytest.skip("no setpriv, to give up root's rights with")
        folder.chmod(0o777)
        home = sys.base_prefix
        if home.startswith("/root/"):
            outside = ["unshare", "-m", "bash", "-c", AS_SOMEBODY, "-", home, str(folder)]
        else:
            outside = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        command = [*outside, *command]
    own = {"HOME": str(folder), "TMPDIR": str(folder), neighbours.SWITCH: "1"}
    environ = environment(PYTHONDONTWRITEBYTECODE="1", **own)
    return subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120
    )
