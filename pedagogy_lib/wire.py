"""How many bytes this process has put on the wire, read from the kernel's own counters.

Source  struct tcp_info in Linux' include/uapi/linux/tcp.h
"""

import contextlib
import errno
import fcntl
import os
import socket
import struct
import sys
import termios

# Offsets in struct tcp_info, in bytes. The struct only ever grows at its end.
BYTES_RECEIVED, NOTSENT_BYTES, BYTES_SENT, BYTES_RETRANS = 128, 144, 200, 208
TCP_INFO_SIZE = 216


def kernel_counts() -> bool:
    """Whether this kernel counts the bytes of each connection for us."""
    if sys.platform != "linux":
        return False
    with socket.socket() as probe:
        return len(probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)) >= TCP_INFO_SIZE


def tcp_sockets(ignore_ports=()):
    """Yield every connected TCP socket of this process, whoever opened it."""
    for name in os.listdir("/proc/self/fd"):
        try:
            fd = os.dup(int(name))
        except OSError as error:
            if error.errno == errno.EBADF:  # closed since listed (the listing itself)
                continue
            raise
        try:
            connection = socket.socket(fileno=fd)
        except OSError:  # not a socket
            os.close(fd)
            continue
        with connection:
            if is_tcp_connection(connection, ignore_ports):
                yield connection


def is_tcp_connection(connection, ignore_ports):
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return False
    if connection.type != socket.SOCK_STREAM:
        return False
    with contextlib.suppress(OSError):  # not connected: a listener
        return connection.getpeername()[1] not in ignore_ports
    return False


def wire_bytes(ignore_ports=()) -> tuple[int, int]:
    """Bytes that this process has sent to and received from its peers so far.

    Sent      what it handed to the kernel: retransmissions left out, queued bytes counted
    Received  what it has read: bytes that wait unread in the kernel are left out
    """
    sent = received = 0
    for connection in tcp_sockets(ignore_ports):
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
        if len(info) < TCP_INFO_SIZE:
            continue
        (queued,) = struct.unpack_from("=I", info, NOTSENT_BYTES)
        transmitted, repeated = struct.unpack_from("=QQ", info, BYTES_SENT)
        (arrived,) = struct.unpack_from("=Q", info, BYTES_RECEIVED)
        unread = fcntl.ioctl(connection.fileno(), termios.FIONREAD, b"\0" * 4)
        sent += transmitted - repeated + queued
        received += arrived - struct.unpack("=i", unread)[0]
    return sent, received
