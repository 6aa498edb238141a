"""`python -m pedagogy_lib machines 2 --mbit 200`: machines for a terminal, and shells on them."""

import functools
import os
import subprocess
import sys
import threading
from pathlib import Path

from ..basics.errors import LaunchError, need
from . import namespaces
from .network import Network
from .spec import Machines

EXAMPLE = "python -m pedagogy_lib machines 2"
MARK = "for-a-terminal"  # in the switch's command line, by which other terminals find it


def open_machines(count, mbit=None, latency_ms=0.0, command=None) -> int:
    """Make machines; run a command on each or open a shell on machine 0. Return an exit status.

    mbit        megabits per second of each card; None: as fast as possible
    latency_ms  from card to card, one way
    """
    speed = None if mbit is None else mbit * 1e6 / 8
    machines = Machines(count, bytes_per_second=speed, latency_seconds=latency_ms / 1e3)
    network = Network(count, MARK)
    try:
        network.make_whole(machines.link)
        ways = [(path, network.user) for path in network.networks]
        if command:
            return run_on_each(ways, command)
        print(f"{machines.text()}: {', '.join(map(namespaces.address_of, range(count)))}")
        for number in range(1, count):
            print(f"machine {number}, in another terminal: python -m pedagogy_lib machines --on "
                  f"{number}")  # fmt: skip
        print("This shell is on machine 0; when you leave it, all machines end.", flush=True)
        return subprocess.call(shell(), **make_settings(0, count, *ways[0]))
    finally:
        network.close()


def open_shell_on(number) -> int:
    """Open a shell on a machine that another terminal has made; return its exit status."""
    found = machines_of_terminals()
    need(found, f"there are no machines: first, in another terminal, {EXAMPLE}")
    need(number in found, f"there is no machine {number}; there are: {', '.join(map(str, found))}")
    folder = f"/proc/{found[number]}/ns"
    is_mine = os.stat(f"{folder}/user").st_ino == os.stat("/proc/self/ns/user").st_ino
    print(f"This shell is on machine {number}, {namespaces.address_of(number)}.", flush=True)
    way = f"{folder}/net", None if is_mine else f"{folder}/user"
    return subprocess.call(shell(), **make_settings(number, len(found), *way))


def make_settings(number, count, network, user) -> dict:
    """Return the arguments of `subprocess` functions that start a program on a machine."""
    environ = os.environ | {
        "MACHINE": str(number),
        "MACHINES": str(count),
        "ADDRESS": namespaces.address_of(number),
        "HEAD": namespaces.address_of(0),
        "GLOO_SOCKET_IFNAME": namespaces.CARD,
        "OMP_NUM_THREADS": "1",  # ranks share the cores
        "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]),
    }
    enters = functools.partial(namespaces.enter_machine, number, count, network, user)
    return {"env": environ, "preexec_fn": enters}


def shell() -> list[str]:
    return [os.environ.get("SHELL") or "/bin/sh"]


def run_on_each(ways, command) -> int:
    """Run a shell command on all machines; each line of the output names its machine."""
    programs = [
        subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         **make_settings(number, len(ways), *way))
        for number, way in enumerate(ways)
    ]  # fmt: skip
    readers = [threading.Thread(target=tell, args=(number, program.stdout), daemon=True)
               for number, program in enumerate(programs)]  # fmt: skip
    for reader in readers:
        reader.start()
    statuses = [program.wait() for program in programs]
    for reader in readers:
        reader.join(1)
    return max(map(abs, statuses))


def tell(number, lines):
    for line in lines:
        print(f"[machine {number}] {line.decode(errors='replace')}", end="", flush=True)


def machines_of_terminals() -> dict[int, int]:
    """Find the machines that a terminal of this user has made: {number: process}."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            name = (folder / "comm").read_text().split()
            if MARK.encode() in words and name[0] == "machine" and is_own(folder):
                found[int(name[1])] = int(folder.name)
        except (OSError, ValueError, IndexError):  # it has ended, or belongs to another user
            continue
    return dict(sorted(found.items()))


def is_own(folder) -> bool:
    return folder.stat().st_uid == os.getuid()


def main(arguments) -> int:
    """Run the command `machines` with its parsed arguments; return an exit status."""
    if sys.platform != "linux":
        raise LaunchError("machines need Linux: a process elsewhere cannot have its own network")
    if arguments.on is not None:
        return open_shell_on(arguments.on)
    need(arguments.count is not None, f"say how many machines: {EXAMPLE}")
    return open_machines(arguments.count, arguments.mbit, arguments.latency_ms, arguments.run)
