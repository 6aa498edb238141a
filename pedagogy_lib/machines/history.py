"""What network cards carry over time, as the switch sees it."""

import time

LOOK_SECONDS, MOST_LOOKS = 0.005, 10_000


class History:
    """What every card has sent and received, read again and again at the switch's ports."""

    def __init__(self, machines):
        self.ports = {f"port{machine.number}": machine.number for machine in machines}
        self.times, self.sent, self.received, self.events = [], [], [], []
        self.period = LOOK_SECONDS
        self.last, self.before = {}, {}  # a card that replaces another one counts from 0
        self.look()

    def until_next(self) -> float:
        return max(0.0, self.times[-1] + self.period - time.perf_counter())

    def look(self):
        now = time.perf_counter()
        if self.times and now < self.times[-1] + self.period:
            return
        sent, received = ([*looks[-1]] if looks else [0] * len(self.ports)
                          for looks in (self.sent, self.received))  # fmt: skip
        with open("/proc/self/net/dev") as file:
            for line in file:
                name, _, counts = line.partition(":")
                number = self.ports.get(name.strip())
                if number is not None:  # what comes into the switch, the machine has sent
                    into, out = (int(counts.split()[column]) for column in (0, 8))
                    sent[number] = self.continued("sent", number, into)
                    received[number] = self.continued("received", number, out)
        self.times.append(now)
        self.sent.append(sent)
        self.received.append(received)
        if len(self.times) > MOST_LOOKS:
            self.period *= 2
            for looks in (self.times, self.sent, self.received):
                del looks[1:-1:2]

    def continued(self, way, number, count) -> int:
        key = way, number
        if count < self.last.get(key, 0):
            self.before[key] = self.before.get(key, 0) + self.last[key]
        self.last[key] = count
        return self.before.get(key, 0) + count

    def as_lists(self) -> dict:
        self.period = 0.0
        self.look()
        return {"times": self.times, "sent": self.sent, "received": self.received,
                "events": self.events}  # fmt: skip
