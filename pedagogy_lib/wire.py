"""How many bytes this process has put on the wire, read from the kernel's own counters.

Source  struct tcp_info in Linux' include/uapi/linux/tcp.h
"""

import fcntl
import os
import socket
import struct
import sys
import termios

# Offsets in struct tcp_info, in bytes. The struct only ever grows at its end.
BYTES_RECEIVED, NOTSENT_BYTES, BYTES_SENT, BYTES_RETRANS = 128, 144, 200, 208
TCP_INFO_SIZE = 216
TCP = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
ESTABLISHED, CLOSE_WAIT = 1, 8  # states, in the first byte, in which a connection may still count


def kernel_counts() -> bool:
    """Whether this kernel counts the bytes of each connection for us."""
    if sys.platform != "linux":
        return False
    with socket.socket() as probe:
        return len(probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)) >= TCP_INFO_SIZE


def tcp_connections():
    """Yield (socket, tcp_info) for every TCP connection of this process, whoever opened it."""
    for name in os.listdir("/proc/self/fd"):
        try:
            connection = socket.socket(*TCP, fileno=int(name))
        except OSError:  # not a socket, or closed since it was listed
            continue
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_INFO_SIZE)
            if ESTABLISHED <= info[0] <= CLOSE_WAIT:
                yield connection, info
        except OSError:  # a socket of another kind
            continue
        finally:
            connection.detach()  # it is not ours to close


def wire_bytes(ignore_ports=()) -> tuple[int, int]:
    """Bytes that this process has sent to and received from its peers so far.

    Sent      what it handed to the kernel: retransmissions left out, queued bytes counted
    Received  what it has read: bytes that wait unread in the kernel are left out
    ignore_ports  peers' ports whose traffic is not the learner's: torchrun's own
    """
    sent = received = 0
    for connection, info in tcp_connections():
        if ignore_ports and connection.getpeername()[1] in ignore_ports:
            continue
        (queued,) = struct.unpack_from("=I", info, NOTSENT_BYTES)
        transmitted, repeated = struct.unpack_from("=QQ", info, BYTES_SENT)
        (arrived,) = struct.unpack_from("=Q", info, BYTES_RECEIVED)
        unread = fcntl.ioctl(connection.fileno(), termios.FIONREAD, b"\0" * 4)
        sent += transmitted - repeated + queued
        received += arrived - struct.unpack("=i", unread)[0]
    return sent, received
