"""Network namespaces of Linux, which give a process its own network without being root.

Source  namespaces(7), user_namespaces(7), unshare(2), setns(2)
"""

import ctypes
import fcntl
import os
import signal
import socket
import struct
from contextlib import suppress
from pathlib import Path

CARD = "eth0"  # the name of a machine's first network card
CARDS = "eth"  # the prefix of the names of all of them
NEW_USER, NEW_NET, NEW_NAMES, NEW_MOUNTS = 0x10000000, 0x40000000, 0x04000000, 0x00020000
BIND, RECURSIVE, PRIVATE, DETACH = 0x1000, 0x4000, 0x40000, 2  # flags of mount(2) and umount2(2)
HOSTS, AS_IPV6 = "/etc/hosts", "::ffff:"  # PyTorch looks up the name of an address in this form
SET_FLAGS, IS_UP = 0x8914, 1  # SIOCSIFFLAGS and IFF_UP of netdevice(7)


def card_name(card: int) -> str:
    """Return the name of a machine's network card with this number, from 0 on."""
    return f"{CARDS}{card}"


def cards_here() -> list[str]:
    """Return the names of all network cards of the machine on which this process runs."""
    return sorted(name for _, name in socket.if_nameindex() if name.startswith(CARDS))


def address_of(machine: int, card: int = 0) -> str:
    """Return a card's address; all first cards are one network, all second cards another."""
    return f"10.{77 + card}.0.{machine + 1}"


def name_of(machine: int) -> str:
    """Return the host name by which programs on all machines know a machine."""
    return f"machine{machine}"


def hardware_address_of(machine: int, card: int = 0) -> str:
    """Return the hardware address by which a switch knows a machine's card."""
    return f"02:00:0a:4d:{card:02x}:{machine + 1:02x}"


def call(name, *arguments):
    """Call a function of the C library; raise OSError with the kernel's message if it fails."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def have_own_network() -> bool:
    """Give this single-threaded process a network with only a loopback; see have_own."""
    return have_own(NEW_NET)


def have_own(kind) -> bool:
    """Give this single-threaded process its own namespace.

    A process without the right to do that first gets a user namespace, in which it has the right.
    Returns  whether a user namespace was needed
    Raises   OSError if this system allows neither
    """
    try:
        call("unshare", kind)
        return False
    except PermissionError:
        pass
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEW_USER | kind)
    # User and group ids are the same inside as outside, so that the user keeps owning the files.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def own_network_only() -> None:
    """Give this process, which has the right to it, a network with only a loopback."""
    call("unshare", NEW_NET)


def enter(network: str, user: str | None = None):
    """Move this single-threaded process into namespaces by their paths in /proc."""
    for path, kind in ((user, NEW_USER), (network, NEW_NET)):
        if path is None:
            continue
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            call("setns", fd, kind)
        finally:
            os.close(fd)


def enter_machine(number: int, count: int, network: str, user: str | None = None):
    """Move this process to a machine, with its host name, before it becomes another program.

    number, count  index of the machine, and number of machines
    """
    enter(network, user)
    with suppress(OSError):  # a system may refuse names; addresses work, too
        have_name(number, count)


def have_name(number, count):
    """Give this process a host name, and a hosts file with the names of all machines."""
    call("unshare", NEW_NAMES | NEW_MOUNTS)
    call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)
    text = Path(HOSTS).read_text()
    for other in range(count):
        address, name = address_of(other), name_of(other)
        text += f"{address} {name}\n{AS_IPV6}{address} {name}.ipv4\n"
    # The file is in memory, and after the unmount it exists only in place of the hosts file.
    call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)
    Path("/tmp/hosts").write_text(text)
    call("mount", b"/tmp/hosts", HOSTS.encode(), None, BIND, None)
    call("umount2", b"/tmp", DETACH)
    name = name_of(number).encode()
    call("sethostname", name, len(name))


def put_disk(folder, size):
    """Mount an empty in-memory disk of `size` bytes at `folder`; the process has its own mounts."""
    call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)
    call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size},mode=700".encode())


class OwnNetwork:
    """A network with only a loopback, kept by open files, so that no process has to be in it.

    Raises  OSError if this system does not allow it
    """

    def __init__(self):
        hear, say = os.pipe()
        pid = os.fork()
        if pid == 0:
            with suppress(BaseException):
                kind = b"u" if have_own_network() else b"-"
                raise_loopback()
                os.write(say, kind)
                signal.pause()  # until the parent has opened its namespaces
            os._exit(1)
        os.close(say)
        try:
            said = os.read(hear, 1)
            if not said:
                raise OSError("no network of one's own is allowed")
            kinds = {"user": NEW_USER} if said == b"u" else {}
            self.files = [
                (kind, os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY | os.O_CLOEXEC))
                for name, kind in [*kinds.items(), ("net", NEW_NET)]
            ]
        finally:
            os.close(hear)
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

    def enter(self):
        for kind, fd in self.files:
            call("setns", fd, kind)


def raise_loopback():
    """Bring up the loopback of this process's network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        wish = struct.pack("16sh14x", b"lo", IS_UP)
        fcntl.ioctl(any_socket, SET_FLAGS, wish)


def members(network: str) -> list[int]:
    """List the processes in a network, as far as this one may look; none if it has gone."""
    found = []
    try:
        wanted = os.stat(network).st_ino
    except FileNotFoundError:
        return found
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino == wanted:
                found.append(int(name))
        except OSError:  # it has ended, or belongs to another user
            continue
    return found
