"""As `sitecustomize` of a program: what of Linux the course uses is not there, as on macOS.

The course finds itself on "darwin", its ranks are fresh interpreters, and what Linux alone has is
missing: in `os`, `socket`, `select` and the C library, and pyroute2. What this cannot imitate is
macOS' own network and process code below Python.
"""

import builtins
import ctypes
import os
import select
import socket
import sys

LINUX_ONLY = {
    os: ("eventfd", "memfd_create", "pidfd_open", "posix_fadvise", "sched_getaffinity",
         "sched_setaffinity", "setns", "unshare"),
    select: ("epoll",),
    socket: ("AF_NETLINK", "AF_PACKET", "SO_BINDTODEVICE", "TCP_INFO"),
}  # fmt: skip
OF_THE_LIBRARY = ("prctl", "setns", "unshare", "mount", "umount2")
PACKAGES = [f"{os.sep}{name}{os.sep}" for name in ("pedagogy_lib", "coursekit")]


class Elsewhere:
    """`sys` with the name of another platform; what is set, is set in `sys` itself."""

    platform = "darwin"

    def __getattr__(self, name):
        return getattr(sys, name)

    def __setattr__(self, name, value):
        setattr(sys, name, value)


def import_there(name, scope=None, *others, **named):
    importer = str((scope or {}).get("__file__", ""))
    if name == "sys" and any(package in importer for package in PACKAGES):
        return Elsewhere()
    if name.partition(".")[0] == "pyroute2":
        raise ModuleNotFoundError("No module named 'pyroute2'")
    return real_import(name, scope, *others, **named)


def function_there(library, name):
    if name in OF_THE_LIBRARY:
        raise AttributeError(f"dlsym: symbol {name!r} not found")
    return real_function(library, name)


for module, names in LINUX_ONLY.items():
    for name in names:
        vars(module).pop(name, None)
real_import, builtins.__import__ = builtins.__import__, import_there
real_function, ctypes.CDLL.__getattr__ = ctypes.CDLL.__getattr__, function_there
