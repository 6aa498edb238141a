"""An all-reduce for buckets that records when each one is begun and when it is waited for.

It hides the sum until the caller has waited.
"""

import torch
import torch.distributed as dist

from coursekit.kit import Rejection, first_true
from coursekit.kit.rank_trials import IN_A_GROUP

from ..shared.branches import loss_along

OVER = ("over", "")  # the end of the backward
ONCE_MORE = (
    "a bucket is sent twice in a step: its sums are summed up again. Or is what has begun "
    "forgotten too early, as in a forward? finish() starts over, and nothing else does"
)


def select_events(events, kind) -> list:
    return [what for event, what in events if event == kind]


class Watch:
    """An all-reduce for a DDP, and the events that it has observed in a step.

    events  ("ready", name), ("begin", bucket), OVER at the backward's end, ("wait", bucket)
    """

    def __init__(self, model, group):
        self.model, self.group, self.events = model, group, []
        self.dtype = next(model.parameters()).dtype
        for name, parameter in model.named_parameters():  # before DDP's own hooks, so noted first
            if parameter.requires_grad:
                note = lambda p, name=name: self.events.append(("ready", name))  # noqa: E731
                parameter.register_post_accumulate_grad_hook(note)

    def follow(self, ddp):
        self.ddp = ddp
        names = {id(p): name for name, p in self.model.named_parameters()}
        self.names = [[names[id(p)] for p in bucket] for bucket in ddp.buckets]
        self.lengths = [[p.numel() for p in bucket] for bucket in ddp.buckets]

    def step(self, orders, place, number) -> list[tuple]:
        """Take a step of the DDP; return the events from its last backward on."""
        for order in orders:
            self.ddp.synchronizing, self.events = order is orders[-1], []
            loss_along(self.ddp, order, place, number).backward()
        self.events.append(OVER)
        with torch.no_grad():  # an evaluation in between must change nothing
            loss_along(self.ddp, orders[-1], place, number)
        self.ddp.finish()
        return self.events

    def all_reduce(self, x, group=None):
        """Begin an all-reduce, return a function that waits; x holds zeros until that returns."""
        number = len(select_events(self.events, "begin"))
        self.refuse(x, number, group)
        self.events.append(("begin", number))
        summed = x.detach().clone()
        request = dist.all_reduce(summed, group=self.group, async_op=True)
        x.detach().zero_()

        def wait():
            if ("wait", number) not in self.events:
                request.wait()
                x.detach().copy_(summed)
                self.events.append(("wait", number))

        return wait

    def refuse(self, x, number, group):
        """Raise `Rejection` unless x is the flat tensor of the bucket of this number."""
        if not self.ddp.synchronizing:
            raise Rejection(
                "an all-reduce begins while synchronizing is False", "while synchronizing is False "
                "gradients only add up, and nothing is sent: is_ready has nothing to do then",
            )  # fmt: skip
        if self.group is not None and group is not self.group:
            raise Rejection("self.all_reduce was called without the group of this DDP", IN_A_GROUP)
        if x.dtype != self.dtype:
            what = f"a bucket of {format_dtype(self.dtype)} is sent as {format_dtype(x.dtype)}"
            raise Rejection(what, "it travels in the dtype of its gradients, as flatten makes it")
        sizes, length = [sum(of) for of in self.lengths], x.numel()
        if number == len(sizes):
            what = f"one more all-reduce, though all {number} buckets have begun in this step"
            raise Rejection(what, ONCE_MORE)
        if length != sizes[number]:
            what = f"{length} elements are sent when it is bucket {number}'s turn: {sizes[number]}"
            raise Rejection(what, first_true({
                "one parameter travels by itself. A bucket travels as one flat tensor, when the "
                "last gradient in it is ready: flatten makes it":
                    any(length in of for of in self.lengths),
                "the buckets begin in the order in which they became ready. On another rank that "
                "may be another order, and a collective is matched by its turn alone: gradients of "
                "different buckets would be added up. The next bucket is len(self.begun), on every "
                "rank": length in sizes[number + 1 :],
                ONCE_MORE: length in sizes[:number],
                "what is sent is to be the flat tensor of one bucket: flatten makes it": True,
            }))  # fmt: skip


def format_dtype(dtype) -> str:
    return str(dtype).removeprefix("torch.")
