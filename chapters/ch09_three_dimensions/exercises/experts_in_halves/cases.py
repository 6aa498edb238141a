"""The code that runs next to the answer, and its inputs."""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, measure_answer
from coursekit.kit.results import NO_RETURN

WIDTH = 3
ONCE = "each half is sent once to the experts, and once back: call there and back once for each"
OWN_NUMBER = "every call takes rows of a half and that half's own number, as enumerate gives it"


def rows_of(case, number, place) -> torch.Tensor:
    """Return the rows of a half on a rank: its counts for each rank, one after another."""
    counts = case.args[number][place]
    first = 1 + 100 * place + 1000 * number
    rows = torch.arange(first, first + sum(counts), dtype=torch.float64)
    return rows.unsqueeze(1) * torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)


def compute(rows, number, place) -> torch.Tensor:
    """Return what a rank's experts make of rows: exact numbers, different on each rank."""
    return rows * (place + 2) + 0.5 + number


class Transfer:
    """Rows under way: `rows` is nan until they have been waited for."""

    def __init__(self, watch, name, number, coming):
        self.watch, self.name, self.number, self.coming = watch, name, number, coming
        self.rows = torch.full_like(coming, torch.nan)

    def wait(self):
        self.watch.events.append([f"wait {self.name}", self.number])
        self.rows.copy_(self.coming)
        self.watch.arrived[self.name, self.number] = self.coming
        return self.rows


class Watch:
    """A record of events, and the three functions that the answer gets."""

    def __init__(self, case, group):
        self.case, self.group, self.place = case, group, dist.get_rank(group)
        self.events, self.nans, self.sent, self.arrived = [], "", [], {}

    def exchange(self, name, rows, number):
        if not isinstance(rows, torch.Tensor):
            raise Rejection(f"{name} got {type(rows).__name__}",
                            "it takes rows, a tensor; a transfer's wait() returns one")  # fmt: skip
        for other in range(len(self.case.args) if name == "there" else 0):
            if other != number and len(rows) and rows.equal(rows_of(self.case, other, self.place)):
                what = f"there got the rows of half {other} with the number {number}"
                raise Rejection(what, OWN_NUMBER)
        if number not in range(len(self.case.args)):
            raise Rejection(f"{name} got the number {number!r:.40}", OWN_NUMBER)
        if [name, number] in self.events:
            raise Rejection(f"half {number} is sent {name} once more", ONCE)
        counts = self.case.args[number]
        send, receive = counts[self.place], [of[self.place] for of in counts]
        if name == "back":
            send, receive = receive, send
        if len(rows) != sum(send):
            raise Rejection(
                f"{name} got {len(rows)} rows of half {number}, expected {sum(send)}",
                "there takes the rows of a half, and back what the experts made of the rows that "
                "came, both with the half's number",
            )
        self.events.append([name, number])
        self.sent.append((rows, rows.detach().clone()))
        coming = rows.new_empty(sum(receive), WIDTH)
        dist.all_to_all_single(coming, rows.contiguous(), list(receive), list(send), self.group)
        return Transfer(self, name, number, coming)

    def there(self, rows, number):
        return self.exchange("there", rows, number)

    def back(self, rows, number):
        return self.exchange("back", rows, number)

    def experts(self, rows, number):
        if not isinstance(rows, torch.Tensor):
            what = f"the experts got {type(rows).__name__}"
            raise Rejection(what, "they take rows, a tensor; a transfer's wait() returns one")
        if number not in range(len(self.case.args)):
            raise Rejection(f"the experts got the number {number!r:.40}", OWN_NUMBER)
        came, own = self.arrived.get(("there", number)), rows_of(self.case, number, self.place)
        if came is not None and rows.equal(own) and not rows.equal(came):
            raise Rejection(
                f"the experts got rows of half {number} that this rank has sent",
                "a rank's experts compute with the rows that came to it: wait() returns these",
            )
        self.events.append(["experts", number])
        if rows.isnan().any():
            self.nans = self.nans or f"nan, in half {number}"
        return compute(rows, number, self.place)


def run_halves(answer, group, case):
    watch, place = Watch(case, group), dist.get_rank(group)
    halves = [rows_of(case, number, place) for number in range(len(case.args))]
    before, given = [half.clone() for half in halves], list(halves)
    with measure_answer():
        got = answer(given, watch.there, watch.experts, watch.back)
    if got is None:
        raise Rejection("it returned None", NO_RETURN)
    if not isinstance(got, list | tuple):
        raise Rejection(f"it returned {type(got).__name__}",
                        "asked is a list of tensors, one for each half")  # fmt: skip
    for x in got:
        if not isinstance(x, torch.Tensor):
            raise Rejection(f"the list has {type(x).__name__} in it",
                            "asked are tensors: a transfer's wait() returns one")  # fmt: skip
    return {
        "list_changed": [id(x) for x in given] != [id(x) for x in halves],
        "nans": watch.nans,
        "events": watch.events,
        "outputs": [x.clone() for x in got],
        "changed": not all(half.equal(x) for half, x in zip(halves, before)),
        "changed_on_the_way": not all(
            x.equal(copy) or copy.isnan().any() for x, copy in watch.sent
        ),
    }
