"""Why a system does not let its users have networks of their own, and what opens it."""

import errno
import sys
from pathlib import Path

# Of Linux: the value that closes it, and one that opens it.
SETTINGS = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "10000"),
    "user.max_net_namespaces": ("0", "10000"),
}


def why_not(number: int | None, what="a network") -> str:
    """A sentence for an error of the kernel; empty if there is nothing to say about it.

    number  errno of what was refused
    what    was asked for
    """
    if sys.platform != "linux":
        return "machines need Linux: elsewhere a process cannot have a network of its own"
    if number not in (errno.EPERM, errno.EACCES, errno.ENOSPC, errno.EINVAL, errno.EUSERS):
        return ""
    for name, (closed, opened) in SETTINGS.items():
        if value_of(name) == closed:
            how = f"sudo sysctl {name}={opened}"
            return f"this system lets nobody have {what} of their own; `{how}` opens it"
    return (
        f"this system lets nobody have {what} of their own; in a container, start it with "
        "--cap-add SYS_ADMIN --security-opt seccomp=unconfined"
    )


def value_of(name) -> str:
    try:
        return Path("/proc/sys", *name.split(".")).read_text().strip()
    except OSError:
        return ""
