"""Reasons why a system allows its users no separate networks, and commands that allow them."""

import errno
import sys
from pathlib import Path

# Settings of Linux: {name: (the value that forbids networks, one that allows them)}.
SETTINGS = {
    "kernel.apparmor_restrict_unprivileged_userns": ("1", "0"),
    "kernel.unprivileged_userns_clone": ("0", "1"),
    "user.max_user_namespaces": ("0", "10000"),
    "user.max_net_namespaces": ("0", "10000"),
}


def why_not(number: int | None, what="a network") -> str:
    """Explain an error of the kernel in a sentence; return an empty text if there is no reason.

    number  errno of the refused call
    what    the thing that was asked for
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
