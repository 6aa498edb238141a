"""What a rank of a pipeline does in each action, looked at before its messages go.

It refuses what is wrong: so a rank raises an error, where it would wait for ever.
"""

import contextlib

import torch.distributed as dist

from ...measuring.bytes_of_calls import RULES, calls_of, group_of
from .on_ranks import IN_A_GROUP
from .refused import Refused
from .requests import NOT_WAITED, Requests

INSIDE = (
    "self.around measures what an action computes. Waiting for a message, and sending one, is "
    "outside of it"
)
NO_COLLECTIVES = "what goes from stage to stage is a message: dist.recv, and self.send"
FIRST_RECEIVES = (
    "the model's first stage has its letters in self.inputs[i]: nobody sends them. "
    "self.is_first(chunk) tells which stage that is"
)
LAST_SENDS = (
    "behind the model's last stage there is nobody: what it computes is the loss. "
    "self.is_last(chunk) tells which stage that is"
)
BACK_PEER = (
    "inputs come from the rank before, gradients from the rank after: action.kind tells which of "
    'them is asked for, and only "F" asks for inputs'
)
FORWARD_PEER = "inputs come from the rank before, gradients from the rank after"
NO_SUCH_RANK = "before the first rank comes the last one, after the last the first: % self.ranks"
ANOTHERS_SIZE = (
    "this is the size of another micro-batch. Micro-batches may differ in their samples: "
    "self.inputs[action.microbatch].shape"
)
ONE_SHAPE = (
    "what travels has the shape (samples, context, width), for the samples of its micro-batch: "
    "torch.empty(*self.inputs[i].shape, self.width)"
)
DTYPE = (
    "what travels has the dtype of the model's weights, here float64: "
    "torch.empty(…, dtype=self.dtype). Without a dtype it takes the default one, float32"
)
NO_TAG = (
    "send has a tag for each message, tag_of(action), and recv gets the message of its own tag "
    "alone: without one it is 0"
)
RECEIVED_TWICE = "each action gets one message at most"
NOT_SENT = "the next stage waits for what this one has computed: self.send(y, action)"
SENT_TWICE = "one message is enough"
OUTSIDE = "what the stage computes is to be inside of `with self.around(action):`"
AROUND_ONCE = "each action computes in `with self.around(action):`, once"
STAGE_ONCE = "each forward computes its micro-batch once: self.stages[chunk].forward(i, x)"
ANOTHER_ONE = "an action says which micro-batch, and with which chunk: _, i, chunk = action"
OWN = (
    "on one rank the next stage is on the same rank. send has put the tensor into self.own, and "
    "self.own.pop(tag_of(action)) gives it back; no message is needed"
)
OWN_EMPTY = "what a rank sends to itself, send puts into self.own, under tag_of(action)"


class Watch(Requests):
    """A rank of a pipeline at work.

    case         see Case
    place        of this rank in its group, of so many ranks
    tag_of       of the lab: the tag of an action's messages
    bytes_of     {micro-batch: bytes of what travels}
    action       the one that is being done
    received     messages in this action; so are sent, computed and entered (around)
    """

    def __init__(self, case, place, ranks, group, tag_of, bytes_of):
        super().__init__()
        self.case, self.place, self.ranks, self.group = case, place, ranks, group
        self.tag_of, self.bytes_of, self.chunks = tag_of, bytes_of, case.chunks
        self.last, self.inside = ranks * case.chunks - 1, 0

    def followed(self, actions):
        """The actions, each looked at when it is done."""
        for self.action in actions:
            self.received = self.sent = self.computed = self.entered = 0
            yield self.action
            self.judge_done()

    @property
    def stage(self) -> int:
        return self.action.chunk * self.ranks + self.place

    def refuse(self, what, why):
        raise Refused(f"{self.action}: {what}", IN_A_GROUP if why is None else why)

    # ---- What the stages tell, and `around`

    @contextlib.contextmanager
    def around(self, action):
        if action != self.action:
            self.refuse(f"self.around gets {action!r:.40}", AROUND_ONCE)
        self.inside += 1
        self.entered += 1
        yield
        self.inside -= 1

    def computing(self, i, stage):
        self.computed += 1
        if (i, stage) != (self.action.microbatch, self.stage):
            self.refuse(f"micro-batch {i} is computed on stage {stage}", ANOTHER_ONE)
        if not self.inside:
            self.refuse("the stage computes outside of self.around(action)", OUTSIDE)
        if "recv" in self.not_waited():
            self.refuse("the stage computes before the message has come", NOT_WAITED)

    def judge_done(self):
        if self.computed != 1:
            self.refuse(f"the stage has computed {self.computed} times, expected once", STAGE_ONCE)
        if self.entered != 1:
            self.refuse(f"self.around was entered {self.entered} times, expected once", AROUND_ONCE)
        if self.ranks > 1 and self.gives() and not self.sent:
            self.refuse("nothing has been sent", NOT_SENT)

    # ---- Messages

    def gets(self) -> bool:
        """Whether the action needs something of another stage."""
        return {"F": self.stage > 0, "W": False}.get(self.action.kind, self.stage < self.last)

    def gives(self) -> bool:
        return {"F": self.stage < self.last, "W": False}.get(self.action.kind, self.stage > 0)

    def peer(self) -> int:
        """Whom it gets something from: the rank in the world."""
        peer = (self.place + (-1 if self.action.kind == "F" else 1)) % self.ranks
        return dist.get_global_rank(self.group or dist.group.WORLD, peer)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for call in calls_of(func, args) if func.namespace in RULES else []:
            judge = {"send": self.judge_send, "recv": self.judge_recv}.get(call.name)
            if judge is None:
                self.refuse(f"it calls {call.name}", NO_COLLECTIVES)
            if self.inside:
                self.refuse(f"{call.name} is inside of self.around(action)", INSIDE)
            if group_of(args[1]).group_name != (self.group or dist.group.WORLD).group_name:
                self.refuse(f"{call.name} is not in the group of this pipeline", None)
            judge(call, args[-1])
        return super().__torch_dispatch__(func, types, args, kwargs)

    def judge_send(self, call, tag):
        if not self.gives():
            self.refuse("the result is sent to somebody", LAST_SENDS)
        self.sent += 1
        if self.sent > 1:
            self.refuse(f"{self.sent} messages are sent", SENT_TWICE)

    def judge_recv(self, call, tag):
        if not self.gets():
            self.refuse("it waits for a message", FIRST_RECEIVES)
        self.received += 1
        if self.received > 1:
            self.refuse(f"it waits for {self.received} messages", RECEIVED_TWICE)
        if call.peer == dist.get_rank():
            self.refuse("it waits for a message of its own", OWN if self.ranks == 1 else None)
        if call.peer not in (None, self.peer()):
            what = f"it waits for a message of rank {call.peer}, expected {self.peer()}"
            why = FORWARD_PEER if self.action.kind == "F" else BACK_PEER
            why = why if 0 <= call.peer < dist.get_world_size() else NO_SUCH_RANK
            self.refuse(what, None if self.case.in_groups else why)
        self.judge_size(call.tensor_bytes)
        if tag != self.tag_of(self.action):
            what = f"it waits for a message with tag {tag}; that has {self.tag_of(self.action)}"
            self.refuse(what, NO_TAG)

    def judge_size(self, got):
        wanted = self.bytes_of[self.action.microbatch]
        if got != wanted:
            why = ANOTHERS_SIZE if got in self.bytes_of.values() else ONE_SHAPE
            why = DTYPE if got == wanted / 2 and why == ONE_SHAPE else why
            self.refuse(f"there is room for {got} bytes, and {wanted} come", why)


@contextlib.contextmanager
def to_itself(ranks):
    """What it means that one rank, alone in its group, does not find what it has sent itself."""
    try:
        yield
    except KeyError as error:
        if ranks > 1:
            raise
        raise Refused(f"self.own has no {error}", OWN_EMPTY) from error
