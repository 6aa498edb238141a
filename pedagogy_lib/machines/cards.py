"""Speed limits and queues of network cards, used by the switch and by its machines.

Source  tc-tbf(8), tc-netem(8), through pyroute2
"""

import errno

from pyroute2.netlink.exceptions import NetlinkError

from .amounts import Link

FRAME_BYTES = 9000  # "jumbo frames", as in clusters, so that headers are less than 1 %
BURST_SECONDS = 0.002  # by which a card may be ahead of its limit; the kernel's clock needs some
SMALLEST_BURST_BYTES = 2 * (FRAME_BYTES + 100)  # with a smaller burst nothing would ever be sent
LONG_QUEUE = 1 << 14  # packets under way
QUEUE_BYTES = 1 << 24  # that wait at a card; any further packets are dropped
MICROSECONDS = 1_000_000  # per second


class WishError(Exception):
    """A wish that cannot be fulfilled; the message says why."""


class Shaper:
    """The limits of one end of a cable, set by a `Link`; `index` is the number of the interface."""

    def __init__(self, ip, index):
        self.ip, self.index, self.now = ip, index, None

    def set(self, link: Link):
        """Replace the interface's queues by those of a link, unless it has them already."""
        if link == self.now:
            return
        self.now = None
        limited, speed = {"handle": "2:"}, link.bytes_per_second
        if link.latency_seconds or link.loss:
            late = {"delay": MICROSECONDS * link.latency_seconds,
                    "jitter": MICROSECONDS * link.jitter_seconds}  # fmt: skip
            self.queue("netem", handle="1:", loss=100 * link.loss, limit=LONG_QUEUE, **late)
            limited = {"handle": "2:", "parent": "1:1"}
        elif not speed:
            self.queue("pfifo", handle="3:", limit=LONG_QUEUE)
        if speed:
            burst = max(SMALLEST_BURST_BYTES, round(BURST_SECONDS * speed))
            self.queue("tbf", rate=round(speed), burst=burst, limit=QUEUE_BYTES, **limited)
        self.now = link

    def queue(self, kind, **settings):
        """Replace the queue in which a card's packets wait."""
        try:
            self.ip.tc("replace", kind, self.index, **settings)
        except NetlinkError as error:
            if error.code != errno.ENOENT:
                raise
            raise WishError(MISSING[kind]) from None


MISSING = {
    "netem": "this kernel can neither delay nor lose packets: it has no netem, so leave "
    "latency_seconds, jitter_seconds and loss out",
    "tbf": "this kernel cannot limit the speed of a card: it has no tbf",
    "pfifo": "this kernel has no queue for a card",
}
