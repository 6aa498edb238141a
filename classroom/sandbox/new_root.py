"""A root directory that holds what a student's process needs, in its own mount namespace.

It is for systems without bubblewrap. Landlock is behind it as a second barrier.

Source  pivot_root(2), mount_setattr(2), landlock(7)
"""

import ctypes
import os
from pathlib import Path

from landlockpy import AccessFS, Ruleset, Scope, abi_version, fs_for_abi

from pedagogy_lib.machines.namespaces import BIND, DETACH, RECURSIVE, call, raise_loopback

MOUNT_SETATTR, HERE, THE_TREE = 442, -100, 0x8000
READ_ONLY, NO_SET_USER = 1, 2
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
READ = AccessFS.READ_FILE | AccessFS.READ_DIR | AccessFS.EXECUTE
IN_PLACE = AccessFS.READ_FILE | AccessFS.READ_DIR | AccessFS.WRITE_FILE | AccessFS.TRUNCATE


class Attributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "user")]


def set_attributes(path: Path, attributes, flags=0):
    library = ctypes.CDLL(None, use_errno=True)
    wish = Attributes(attributes, 0, 0, 0)
    if library.syscall(MOUNT_SETATTR, HERE, bytes(path), flags, ctypes.byref(wish), 32):
        number = ctypes.get_errno()
        raise OSError(number, f"mount_setattr: {os.strerror(number)}")


def make(base, places, cells, disk_bytes):
    """Replace the system's root by a new one, with a network that is only a loopback.

    cells   a folder in one of the places, which can be written
    places  {path inside: path outside, or "" for an empty folder}, folders before those in them
    """
    base = Path(base)
    put_memory(base, disk_bytes)
    for name in ("tmp", "dev/shm"):
        put_memory(base / name, disk_bytes)
    for inside, outside in places.items():  # after /tmp, because this Python may be there
        put(base / inside.lstrip("/"), outside)
    put_memory(base / cells.lstrip("/"), disk_bytes)
    for device in DEVICES:
        put(base / "dev" / device, f"/dev/{device}", attributes=0)
    (base / "proc").mkdir()
    call("mount", b"proc", bytes(base / "proc"), b"proc", NO_SET_USER, None)
    os.chdir(base)
    call("pivot_root", b".", b".")
    call("umount2", b".", DETACH)
    os.chdir("/")
    set_attributes(Path("/"), READ_ONLY)
    raise_loopback()


def put(place: Path, outside: str, attributes=READ_ONLY | NO_SET_USER):
    if not outside:
        call("mount", b"none", bytes(place), b"tmpfs", READ_ONLY, b"size=4096")
        return
    if Path(outside).is_dir():
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    call("mount", outside.encode(), bytes(place), None, BIND | RECURSIVE, None)
    if attributes:
        set_attributes(place, attributes, THE_TREE)


def put_memory(place: Path, size):
    place.mkdir(parents=True, exist_ok=True)
    call("mount", b"tmpfs", bytes(place), b"tmpfs", NO_SET_USER, f"size={size},mode=1777".encode())


def restrict(cells):
    """Let Landlock allow only reading, and writing in three folders; no signal leaves."""
    with Ruleset(scoped=Scope.ABSTRACT_UNIX_SOCKET | Scope.SIGNAL, handled_net=0) as rules:
        rules.allow_path("/", READ)
        for path in ("/proc", *(f"/dev/{name}" for name in DEVICES)):
            rights = IN_PLACE if Path(path).is_dir() else IN_PLACE & ~AccessFS.READ_DIR
            rules.allow_path(path, rights)
        for path in ("/tmp", "/dev/shm", cells):
            rules.allow_path(path, fs_for_abi(abi_version()))
        rules.restrict()
