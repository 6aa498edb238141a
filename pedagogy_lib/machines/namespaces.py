"""Network namespaces of Linux: a process can have a network of its own, without being root.

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
CARDS = "eth"  # how the names of all of them begin
NEW_USER, NEW_NET, NEW_NAMES, NEW_MOUNTS = 0x10000000, 0x40000000, 0x04000000, 0x00020000
BIND, RECURSIVE, PRIVATE, DETACH = 0x1000, 0x4000, 0x40000, 2  # of mount(2) and umount2(2)
HOSTS, AS_IPV6 = "/etc/hosts", "::ffff:"  # PyTorch looks for the name of an address so written
SET_FLAGS, IS_UP = 0x8914, 1  # SIOCSIFFLAGS and IFF_UP of netdevice(7)


def card_name(card: int) -> str:
    """Of the first card of a machine, or of another one."""
    return f"{CARDS}{card}"


def cards_here() -> list[str]:
    """The names of all network cards of the machine on which this process is."""
    return sorted(name for _, name in socket.if_nameindex() if name.startswith(CARDS))


def address_of(machine: int, card: int = 0) -> str:
    """Of a machine's card. The first cards of all machines are one network, the second another."""
    return f"10.{77 + card}.0.{machine + 1}"


def name_of(machine: int) -> str:
    """By which a machine is known to programs on all of them."""
    return f"machine{machine}"


def hardware_address_of(machine: int, card: int = 0) -> str:
    """Of a machine's card: what a switch knows it by."""
    return f"02:00:0a:4d:{card:02x}:{machine + 1:02x}"


def call(name, *arguments):
    """A function of the C library; raises OSError with what the kernel says."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def have_own_network() -> bool:
    """Give this process, which has one thread, a network that only has a loopback; see have_own."""
    return have_own(NEW_NET)


def have_own(kind) -> bool:
    """Give this process, which has one thread, a namespace of its own.

    Who may not do that gets a user namespace first, and may do it there.
    Returns  whether that was needed
    Raises   OSError if this system allows neither
    """
    try:
        call("unshare", kind)
        return False
    except PermissionError:
        pass
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEW_USER | kind)
    # The same numbers inside as outside, so that files stay one's own.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    return True


def own_network_only() -> None:
    """As `have_own_network`, for a process that has the right to it."""
    call("unshare", NEW_NET)


def enter(network: str, user: str | None = None):
    """Move this process, which has one thread, into namespaces by their paths in /proc."""
    for path, kind in ((user, NEW_USER), (network, NEW_NET)):
        if path is None:
            continue
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            call("setns", fd, kind)
        finally:
            os.close(fd)


def enter_machine(number: int, count: int, network: str, user: str | None = None):
    """Move this process, which is about to become another program, to a machine, with its name.

    number, count  which of how many machines it is
    """
    enter(network, user)
    with suppress(OSError):  # a system may refuse this: addresses do as well
        have_name(number, count)


def have_name(number, count):
    """Give this process a host name, and a file with those of all machines."""
    call("unshare", NEW_NAMES | NEW_MOUNTS)
    call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)
    text = Path(HOSTS).read_text()
    for other in range(count):
        address, name = address_of(other), name_of(other)
        text += f"{address} {name}\n{AS_IPV6}{address} {name}.ipv4\n"
    # A file in memory, of which nothing but this one place is left.
    call("mount", b"tmpfs", b"/tmp", b"tmpfs", 0, None)
    Path("/tmp/hosts").write_text(text)
    call("mount", b"/tmp/hosts", HOSTS.encode(), None, BIND, None)
    call("umount2", b"/tmp", DETACH)
    name = name_of(number).encode()
    call("sethostname", name, len(name))


def put_disk(folder, size):
    """In a process with mounts of its own: put an empty disk of `size` bytes, in memory, there."""
    call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)
    call("mount", b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size},mode=700".encode())


class OwnNetwork:
    """A network with nothing but a loopback, kept by open files: no process has to be in it.

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
                signal.pause()  # until its namespaces have been opened
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
    """Set the loopback of this process' network up."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        wish = struct.pack("16sh14x", b"lo", IS_UP)
        fcntl.ioctl(any_socket, SET_FLAGS, wish)


def members(network: str) -> list[int]:
    """The processes whose network this is, as far as this one may look; none if it has gone."""
    found = []
    try:
        wanted = os.stat(network).st_ino
    except FileNotFoundError:
        return found
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino == wanted:
                found.append(int(name))
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found
