"""The bytes that this process has put on the wire, read from the kernel's own counters.

Source  struct tcp_info in Linux' include/uapi/linux/tcp.h
"""

import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import sys

# The fields of struct tcp_info that are used here. The struct only ever grows at its end. Its first
# byte is the state; then come bytes received, not sent yet, sent, and sent again.
FIELDS = struct.Struct("=B 127x Q 8x I 52x QQ")
Info, Size = ctypes.c_char * FIELDS.size, ctypes.c_uint32
# Linux' own numbers, because importing termios for one of them would cost each rank a millisecond.
SO_COOKIE, FIONREAD = 57, 0x541B
LIBC = ctypes.CDLL(None)
ESTABLISHED, CLOSE_WAIT = 1, 8  # states in which a connection may still count


def kernel_counts() -> bool:
    """Return whether this kernel counts the bytes of each connection."""
    if sys.platform != "linux":
        return False
    with socket.socket() as probe:
        return len(probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)) >= FIELDS.size


def tcp_connections():
    """Yield (fd, fields) for every TCP connection of this process, whoever opened it."""
    info, size = Info(), Size(FIELDS.size)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)  # if it is no TCP socket, the call below fails
        if LIBC.getsockopt(fd, socket.IPPROTO_TCP, socket.TCP_INFO, info, ctypes.byref(size)):
            continue
        state, *counts = FIELDS.unpack(info)
        if ESTABLISHED <= state <= CLOSE_WAIT:
            yield fd, counts


def wire_bytes(ignore_ports=()) -> dict[int, tuple[int, int]]:
    """Return the bytes that each connection of this process has (sent, received) so far.

    Sent      bytes handed to the kernel, without retransmissions, but with queued bytes
    Received  bytes that have been read, without those that wait unread in the kernel
    ignore_ports  peers' ports whose traffic is not the learner's: torchrun's own
    """
    counts = {}
    for fd, (arrived, queued, transmitted, repeated) in tcp_connections():
        with contextlib.suppress(OSError):  # another thread, such as Gloo's, may close it meanwhile
            if ignore_ports and peer_port(fd) in ignore_ports:
                continue
            unread = int.from_bytes(fcntl.ioctl(fd, FIONREAD, b"\0" * 4), sys.byteorder)
            sent = transmitted - repeated + queued
            counts[cookie_of(fd)] = sent, arrived - unread
    return counts


def cookie_of(fd) -> int:
    """Return the kernel's cookie of a socket, which is never used again, unlike `fd`."""
    cookie, size = ctypes.c_uint64(), Size(8)
    LIBC.getsockopt(fd, socket.SOL_SOCKET, SO_COOKIE, ctypes.byref(cookie), ctypes.byref(size))
    return cookie.value


def peer_port(fd) -> int:
    return ends_of(fd)[1][1]


def ends_of(fd) -> tuple[tuple, tuple]:
    """Return the (address, port) of this end of a connection, and of the other end."""
    with socket.socket(fileno=os.dup(fd)) as connection:
        return connection.getsockname()[:2], connection.getpeername()[:2]


def connections_here() -> dict[int, int]:
    """Return {kernel's cookie: file descriptor} for every connection of this process."""
    return {cookie_of(fd): fd for fd, _ in tcp_connections()}


def bytes_between(before, after) -> tuple[int, int]:
    """Return bytes (sent, received) between two counts, without connections closed meanwhile."""
    none = (0, 0)
    sent = sum(now[0] - before.get(key, none)[0] for key, now in after.items())
    received = sum(now[1] - before.get(key, none)[1] for key, now in after.items())
    return sent, received
