"""The bytes that a machine's network card has carried, read from the kernel's counters of it.

The card carries what the ranks send to other machines, and headers, but not what ranks of one
machine send each other. A rank goes on as soon as the kernel has taken its message, so bytes that
still wait for the card, in the connections or in the card's queue, count as sent.

Source  /proc/net/dev in proc_pid_net(5), rtnetlink(7), sock_diag(7), TCA_STATS2 in Linux'
        include/net/gen_stats.h, struct tcp_info in its include/uapi/linux/tcp.h
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass

RECEIVED, SENT = 0, 8  # columns of /proc/net/dev, after the card's name
HEAD = struct.Struct("=IHHII")  # of a message: length, kind, flags, number, sender
REQUEST_ALL, ERROR, DONE = 0x301, 2, 3
ATTRIBUTE = struct.Struct("=HH")
# Queues, see rtnetlink(7): family, card, handle, parent, info; and the attributes of the figures.
GET_QUEUE, QUEUE, BACKLOG = 38, struct.Struct("=BxxxiIII"), struct.Struct("=II")
FIGURES, LENGTHS = 7, 3
# Connections, see sock_diag(7): family, protocol, request, states; in an answer, both addresses.
DIAGNOSE, GET_CONNECTIONS, LINUX_INFO = 4, 20, 2
CONNECTIONS, ADDRESSES = struct.Struct("=BBBxI48x"), struct.Struct("=8x4s12x4s")
CONNECTION_SIZE, NOT_SENT, UNSENT = 72, struct.Struct("=I"), 144  # the last in struct tcp_info
BUT_LISTENING = 0xFFF & ~(1 << 10)
READINGS, FEW_BYTES = 4, 20_000  # during a reading no longer than it must be, at 250 MB/s


class CardCounter:
    """A reader of the counters of some network cards in this process's network, summed up."""

    def __init__(self, cards: list[str]):
        self.cards, self.indices = set(cards), list(map(socket.if_nametoindex, cards))
        self.routes = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
        self.connections = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, DIAGNOSE)

    def read(self) -> tuple[int, int]:
        """Return bytes (sent, received) since the card was made; what waits for the card is sent.

        The card goes on while its counters are read. Of several readings, the one during which it
        carried least counts, and half of that is the largest error.
        """
        moved, sent, received = self.attempt()
        for _ in range(READINGS - 1):
            if moved <= FEW_BYTES:
                break
            moved, sent, received = min((moved, sent, received), self.attempt())
        return sent, received

    def attempt(self) -> tuple[int, int, int]:
        """Return (bytes sent during the reading, bytes sent, bytes received)."""
        before = self.read_card_bytes()
        waiting = self.sum_unsent_bytes() + self.sum_queue_bytes()
        after = self.read_card_bytes()
        moved = after[0] - before[0]
        return moved, before[0] + moved // 2 + waiting, after[1]

    def read_card_bytes(self) -> tuple[int, int]:
        with open("/proc/self/net/dev") as file:
            lines = (line.partition(":") for line in file)
            counts = [text.split() for name, _, text in lines if name.strip() in self.cards]
        return tuple(sum(int(of[column]) for of in counts) for column in (SENT, RECEIVED))

    def sum_queue_bytes(self) -> int:
        """Return the bytes in the cards' queues."""
        return sum(map(self.read_queue_bytes, self.indices))

    def read_queue_bytes(self, index) -> int:
        """Return the bytes in a card's queue; of nested queues, the innermost has all bytes."""
        answers = dump(self.routes, GET_QUEUE, QUEUE.pack(0, index, 0, 0, 0))
        own = [answer for answer in answers if QUEUE.unpack_from(answer)[1] == index]
        return max((backlog_of(answer[QUEUE.size :]) for answer in own), default=0)

    def sum_unsent_bytes(self) -> int:
        """Return the bytes that ranks have handed over for other machines, but that still wait."""
        wish = CONNECTIONS.pack(
            socket.AF_INET, socket.IPPROTO_TCP, 1 << (LINUX_INFO - 1), BUT_LISTENING
        )
        total = 0
        for answer in dump(self.connections, GET_CONNECTIONS, wish):
            here, there = ADDRESSES.unpack_from(answer)
            if here != there:  # within a machine, bytes do not cross the card
                info = find(answer[CONNECTION_SIZE:], LINUX_INFO)  # closed ones have none
                total += NOT_SENT.unpack_from(info, UNSENT)[0] if info else 0
        return total


def dump(netlink, kind, wish) -> Iterator[bytes]:
    """Yield all entries of a kind that the kernel has; none where it does not tell."""
    netlink.send(HEAD.pack(HEAD.size + len(wish), kind, REQUEST_ALL, 0, 0) + wish)
    while True:
        for kind_of_answer, answer in messages(netlink.recv(1 << 18)):
            if kind_of_answer in (DONE, ERROR):
                return
            yield answer


def messages(data) -> Iterator[tuple[int, bytes]]:
    """Yield the (kind, content) of each answer of the kernel."""
    while data:
        length, kind, *_ = HEAD.unpack_from(data)
        yield kind, data[HEAD.size : length]
        data = data[align_length(length) :]


def attributes(data) -> Iterator[tuple[int, bytes]]:
    while len(data) >= ATTRIBUTE.size:
        length, kind = ATTRIBUTE.unpack_from(data)
        yield kind, data[ATTRIBUTE.size : length]
        data = data[align_length(length) :]


def align_length(length) -> int:
    return (length + 3) & ~3


def find(data, wanted) -> bytes:
    """Return the content of the first attribute of a kind; empty if there is none."""
    return next((content for kind, content in attributes(data) if kind == wanted), b"")


def backlog_of(queue) -> int:
    lengths = find(find(queue, FIGURES), LENGTHS)
    return BACKLOG.unpack_from(lengths)[1] if lengths else 0


@dataclass(frozen=True)
class Card:
    """The traffic of a machine's card while at least one of its ranks was in a block of a label.

    A card cannot tell whose bytes it carries, so it includes what another rank of the machine sends
    meanwhile, in any block. A barrier before and after keeps blocks apart.

    ranks             the ranks of the machine
    sent_bytes, received_bytes   headers included
    seconds           the time in which at least one rank, of any machine, was in such a block
    bytes_per_second  the card's limit, in each direction; None if it has none
    """

    ranks: list[int]
    sent_bytes: int
    received_bytes: int
    seconds: float
    bytes_per_second: float | None

    @property
    def busy(self) -> float | None:
        """The share of `seconds` that the busier direction needs at full speed, or None."""
        if not self.bytes_per_second or not self.seconds:
            return None
        return max(self.sent_bytes, self.received_bytes) / self.bytes_per_second / self.seconds


def card_of(ranks, uses, bytes_per_second) -> Card:
    """Combine what the ranks of one machine read from their card when blocks began and ended.

    uses  the uses of all ranks of the world, each with `card`: the readings at its start and end
    """
    own = [use for rank in ranks for use in uses[rank] if use.card is not None]
    sent, received = (
        measure_union([(use.card[0][way], use.card[1][way]) for use in own]) for way in (0, 1)
    )
    seconds = measure_union([(use.start, use.end) for of_rank in uses for use in of_rank])
    return Card(list(ranks), sent, received, seconds, bytes_per_second)


def measure_union(spans):
    """Return the length that these spans cover together; what several of them cover counts once."""
    total, reached = 0, None
    for begin, end in sorted(spans):
        if reached is None or begin > reached:
            total, reached = total + end - begin, end
        elif end > reached:
            total, reached = total + end - reached, end
    return total
