"""How many bytes this process has put on the wire, read from the kernel's own counters.

Source  struct tcp_info in Linux' include/uapi/linux/tcp.h
"""

import ctypes
import fcntl
import os
import socket
import struct
import sys
import termios

# Offsets in struct tcp_info, in bytes. The struct only ever grows at its end.
BYTES_RECEIVED, NOTSENT_BYTES, BYTES_SENT, BYTES_RETRANS = 128, 144, 200, 208
TCP_INFO_SIZE = 216
SO_COOKIE = 57  # names a socket for as long as the machine runs
LIBC = ctypes.CDLL(None)
ESTABLISHED, CLOSE_WAIT = 1, 8  # states, in the first byte, in which a connection may still count


def kernel_counts() -> bool:
    """Whether this kernel counts the bytes of each connection for us."""
    if sys.platform != "linux":
        return False
    with socket.socket() as probe:
        return len(probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)) >= TCP_INFO_SIZE


def tcp_connections():
    """Yield (fd, tcp_info) for every TCP connection of this process, whoever opened it."""
    info = ctypes.create_string_buffer(TCP_INFO_SIZE)
    for fd in map(int, os.listdir("/proc/self/fd")):
        if read_option(fd, socket.IPPROTO_TCP, socket.TCP_INFO, info):
            state = info.raw[0]
            if ESTABLISHED <= state <= CLOSE_WAIT:
                yield fd, info


def read_option(fd, level, option, buffer) -> bool:
    """Fill `buffer` with a socket's option; False if `fd` is something else, or has gone."""
    size = ctypes.c_uint32(len(buffer))
    return not LIBC.getsockopt(fd, level, option, buffer, ctypes.byref(size))


def wire_bytes(ignore_ports=()) -> dict[bytes, tuple[int, int]]:
    """Bytes that each connection of this process has (sent, received) so far.

    Sent      what was handed to the kernel: retransmissions left out, queued bytes counted
    Received  what has been read: bytes that wait unread in the kernel are left out
    ignore_ports  peers' ports whose traffic is not the learner's: torchrun's own
    """
    counts = {}
    for fd, info in tcp_connections():
        if ignore_ports and peer_port(fd) in ignore_ports:
            continue
        (queued,) = struct.unpack_from("=I", info, NOTSENT_BYTES)
        transmitted, repeated = struct.unpack_from("=QQ", info, BYTES_SENT)
        (arrived,) = struct.unpack_from("=Q", info, BYTES_RECEIVED)
        unread = fcntl.ioctl(fd, termios.FIONREAD, b"\0" * 4)
        cookie = ctypes.create_string_buffer(8)
        read_option(fd, socket.SOL_SOCKET, SO_COOKIE, cookie)
        counts[cookie.raw] = (
            transmitted - repeated + queued,
            arrived - struct.unpack("=i", unread)[0],
        )
    return counts


def peer_port(fd) -> int:
    with socket.socket(fileno=os.dup(fd)) as connection:
        return connection.getpeername()[1]


def bytes_between(before, after) -> tuple[int, int]:
    """(sent, received) from one count to a later one; connections closed meanwhile are lost."""
    none = (0, 0)
    sent = sum(now[0] - before.get(key, none)[0] for key, now in after.items())
    received = sum(now[1] - before.get(key, none)[1] for key, now in after.items())
    return sent, received
