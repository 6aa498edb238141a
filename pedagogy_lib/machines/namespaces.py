"""Network namespaces of Linux: a process can have a network of its own, without being root.

Source  namespaces(7), user_namespaces(7), unshare(2), setns(2)
"""

import ctypes
import os
from pathlib import Path

CARD = "eth0"  # the name of a machine's network card
NEW_USER, NEW_NET = 0x10000000, 0x40000000


def call(name, *arguments):
    """A function of the C library; raises OSError with what the kernel says."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def have_own_network() -> bool:
    """Give this process, which has one thread, a network that only has a loopback.

    Who may not do that gets a user namespace first, and may do it there.
    Returns  whether that was needed
    Raises   OSError if this system allows neither
    """
    try:
        call("unshare", NEW_NET)
        return False
    except PermissionError:
        pass
    user, group = os.geteuid(), os.getegid()
    call("unshare", NEW_USER | NEW_NET)
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


def members(network: str) -> list[int]:
    """The processes whose network this is, as far as this one may look."""
    wanted, found = os.stat(network).st_ino, []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat(f"/proc/{name}/ns/net").st_ino == wanted:
                found.append(int(name))
        except OSError:  # it has ended, or belongs to somebody else
            continue
    return found
