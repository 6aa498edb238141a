"""How many bytes a machine's network card has carried, read from the kernel's counters of it.

Beside what the ranks send to other machines, the card carries headers; what ranks of one machine
send each other, it does not carry.

Source  /proc/net/dev in proc_pid_net(5), rtnetlink(7), TCA_STATS2 in Linux' include/net/gen_stats.h
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

RECEIVED, SENT = 0, 8  # columns, behind the card's name
# Of rtnetlink(7): a message's kind and flags; attributes of a queue, and of its figures.
GET_QUEUE, REQUEST_ALL, DONE = 38, 0x301, 3
FIGURES, LENGTHS = 7, 3
HEAD = struct.Struct("=IHHII")  # length, kind, flags, number, sender
QUEUE = struct.Struct("=BxxxiIII")  # family, card, handle, parent, info
ATTRIBUTE, BACKLOG = struct.Struct("=HH"), struct.Struct("=II")


class CardCounter:
    """Reads the counters of a card in the network of this process."""

    def __init__(self, card: str):
        self.card, self.index = card, socket.if_nametoindex(card)
        self.netlink = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)

    def read(self) -> tuple[int, int]:
        """(sent, received) since the card was made; what waits in the card's queue is sent."""
        waiting = self.waiting()
        with open("/proc/self/net/dev") as file:
            lines = (line.partition(":") for line in file)
            counts = next(text for name, _, text in lines if name.strip() == self.card).split()
        return int(counts[SENT]) + waiting, int(counts[RECEIVED])

    def waiting(self) -> int:
        """Bytes in the card's queue; the innermost, where queues lie in each other, has them all."""
        wish = QUEUE.pack(0, self.index, 0, 0, 0)
        self.netlink.send(HEAD.pack(HEAD.size + len(wish), GET_QUEUE, REQUEST_ALL, 0, 0) + wish)
        most = 0
        while True:
            for kind, message in messages(self.netlink.recv(1 << 16)):
                if kind == DONE:
                    return most
                if QUEUE.unpack_from(message)[1] == self.index:
                    most = max(most, backlog_of(message[QUEUE.size :]))


def messages(data) -> Iterator[tuple[int, bytes]]:
    """What the kernel has answered: kinds and contents."""
    while data:
        length, kind, *_ = HEAD.unpack_from(data)
        yield kind, data[HEAD.size : length]
        data = data[aligned(length) :]


def attributes(data) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        yield kind, data[ATTRIBUTE.size : length]
        data = data[aligned(length) :]


def aligned(length) -> int:
    return (length + 3) & ~3


def backlog_of(queue) -> int:
    figures = next((data for kind, data in attributes(queue) if kind == FIGURES), b"")
    lengths = next((data for kind, data in attributes(figures) if kind == LENGTHS), None)
    return BACKLOG.unpack_from(lengths)[1] if lengths else 0


@dataclass(frozen=True)
class Card:
    """What one machine's card carried in the blocks of a label, on any of the machine's ranks.

    ranks             of the machine
    sent_bytes, received_bytes   headers included
    seconds           in which at least one of these ranks was in such a block
    bytes_per_second  that the card can carry, in each direction; None: not limited
    """

    ranks: list[int]
    sent_bytes: int
    received_bytes: int
    seconds: float
    bytes_per_second: float | None

    @property
    def busy(self) -> float | None:
        """The share of these seconds that its busier direction needs at full speed."""
        if not self.bytes_per_second or not self.seconds:
            return None
        return max(self.sent_bytes, self.received_bytes) / self.bytes_per_second / self.seconds


def card_of(ranks, uses, bytes_per_second) -> Card:
    """Put together what the ranks of one machine read from their card when blocks began and ended.

    uses  of all ranks of the world, each with `card`: what was read at its begin and end
    """
    own = [use for rank in ranks for use in uses[rank] if use.card is not None]
    sent, received = (
        covered([(use.card[0][way], use.card[1][way]) for use in own]) for way in (0, 1)
    )
    seconds = covered([(use.start, use.end) for use in own])
    return Card(list(ranks), sent, received, seconds, bytes_per_second)


def covered(spans):
    """How much of a line these spans cover together: what several of them cover counts once."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        if reached is None or begin > reached:
            total, reached = total + end - begin, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
