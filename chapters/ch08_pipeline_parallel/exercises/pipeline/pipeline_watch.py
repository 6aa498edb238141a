"""A watch on the actions of a pipeline's rank, which inspects messages before they are sent.

It refuses wrong calls, so that a rank raises an error where it would wait forever.
"""

import contextlib

import torch.distributed as dist

from coursekit.kit import Rejection
from coursekit.kit.observed_calls import Requests
from coursekit.kit.rank_trials import IN_A_GROUP
from pedagogy_lib.measuring.bytes_of_calls import group_of

NO_SUCH_RANK = "before the first rank comes the last one, after the last the first: % self.ranks"
SRC = (
    "`src` is a rank of the whole world, even with a group; a rank of the group, such as "
    "self.rank, is `group_src=peer`"
)
AROUND = "each action enters self.around(action) once, and computes inside it"
PEERS = "inputs come from the rank before, gradients from the rank after"


class Lines(dict):
    """A pipeline's groups, and the key of the one that was last looked up."""

    asked = None

    def __getitem__(self, key):
        self.asked = key
        return super().__getitem__(key)


class Watch(Requests):
    """A record of a pipeline's actions on one rank, which refuses wrong ones.

    tag_of       the lab's function that returns the tag of an action's messages
    bytes_of     {micro-batch: bytes of its input to a stage, and of that input's gradient}
    action       the current action
    received     messages received in this action; likewise sent, computed and entered (around)
    came         {action: the tensor that its stage was given}, and the losses by their names
    lines        the pipeline's groups
    off_line     actions that have received through another group than theirs
    """

    def __init__(self, case, group, tag_of, bytes_of):
        super().__init__()
        self.is_group, self.group = case.is_group, group or dist.group.WORLD
        self.place, self.ranks = dist.get_rank(group), dist.get_world_size(group)
        self.tag_of, self.bytes_of, self.inside = tag_of, bytes_of, 0
        self.lines, self.off_line, self.came = Lines(), [], {}
        self.last = self.ranks * case.args[2] - 1

    def follow_actions(self, actions):
        """Yield the actions, and inspect each one when it is done."""
        for self.action in actions:
            self.received = self.sent = self.computed = self.entered = 0
            self.lines.asked = None
            yield self.action
            self.need(
                (self.computed == 1, f"the stage has computed {self.computed} times, expected once",
                 "each forward computes its micro-batch once, on the stage of its chunk"),
                (self.entered == 1, f"self.around was entered {self.entered} times, expected once",
                 AROUND),
                (self.sent or self.ranks == 1 or not self.gives(), "nothing has been sent",
                 "the next stage waits for what this one has computed"),
            )  # fmt: skip

    @property
    def stage(self) -> int:
        return self.action.chunk * self.ranks + self.place

    def need(self, *rules):
        """Raise `Rejection` at the first broken rule, (whether it holds, the error, the diagnosis).

        A diagnosis may be a list [(if, diagnosis), …], of which the first that applies is taken.
        """
        for holds, what, why in rules:
            if not holds:
                told = why if isinstance(why, str) else next(then for so, then in why if so)
                raise Rejection(f"{self.action}: {what}", told)

    @contextlib.contextmanager
    def check_action(self, action):
        self.need((action == self.action, f"self.around gets {action!r:.40}", AROUND))
        self.inside += 1
        self.entered += 1
        yield
        self.inside -= 1

    def note_compute(self, i, stage):
        """Count a computation of a stage, and refuse a wrong one; the stages call this."""
        self.computed += 1
        self.need(
            ((i, stage) == (self.action.microbatch, self.stage),
             f"micro-batch {i} is computed on stage {stage}",
             "an action says which micro-batch, and with which chunk: _, i, chunk = action"),
            (self.inside, "the stage computes outside of self.around(action)",
             "self.around measures what an action computes: the stage has to compute inside it"),
            ("recv" not in self.not_waited(), "the stage computes before the message has come",
             "irecv returns at once: the numbers are there after its wait()"),
        )  # fmt: skip

    # ---- Messages

    def gets(self) -> bool:
        """Return whether the action needs a tensor from another stage."""
        return {"F": self.stage > 0, "W": False}.get(self.action.kind, self.stage < self.last)

    def gives(self) -> bool:
        return {"F": self.stage < self.last, "W": False}.get(self.action.kind, self.stage > 0)

    def peer(self) -> int:
        """Return the rank in the world from which the action receives its tensor."""
        peer = (self.place + (-1 if self.action.kind == "F" else 1)) % self.ranks
        return dist.get_global_rank(self.group, peer)

    def judge(self, call, args):
        self.need(
            (call.name in ("send", "recv"), f"it calls {call.name}",
             "what goes from stage to stage is a message: dist.recv, and self.send"),
            (not self.inside, f"{call.name} is inside of self.around(action)",
             "self.around measures what an action computes. Waiting for a message, and sending "
             "one, is outside of it"),
            (group_of(args[1]).group_name == self.group.group_name,
             f"{call.name} is not in the group of this pipeline", IN_A_GROUP),
        )  # fmt: skip
        if call.name == "send":
            self.judge_send()
        else:
            self.judge_recv(call.peer, call.tensor_bytes, args[-1])

    def judge_send(self):
        self.sent += 1
        self.need(
            (self.gives(), "the result is sent to somebody",
             "behind the model's last stage there is nobody: what it computes is the loss. "
             "self.is_last(chunk) tells which stage that is"),
            (self.sent == 1, f"{self.sent} messages are sent", "one message is enough"),
        )  # fmt: skip

    def judge_recv(self, peer, size, tag):
        self.received += 1
        forward = self.action.kind == "F"
        line = forward, self.place == (0 if forward else self.ranks - 1)  # the key in Pipeline.line
        self.off_line += [self.action] * (self.lines.asked != line)
        wanted, right_tag = self.bytes_of[self.action.microbatch], self.tag_of(self.action)
        self.need(
            (self.gets(), "it waits for a message",
             "the model's first stage has its tokens in self.inputs[i]: nobody sends them. "
             "self.is_first(chunk) tells which stage that is"),
            (self.received == 1, f"it waits for {self.received} messages",
             "each action gets one message at most"),
            (self.ranks > 1, "it waits for a message of its own",
             "on one rank the next stage is on the same rank. send has put the tensor into "
             "self.own, where it stands under its tag: take it out, because no message comes"),
            (peer in (None, self.peer()),
             f"it waits for a message of rank {peer} of the world, expected {self.peer()}", [
                 (self.is_group, SRC),  # without a group, it was right
                 (peer not in range(self.ranks), NO_SUCH_RANK),
                 (self.action.kind == "F", PEERS),
                 (True, f"{PEERS}: action.kind tells which of them is asked for, and only "
                  '"F" asks for inputs'),
             ]),
            (size == wanted, f"there is room for {size} bytes, and {wanted} come", [
                (size in self.bytes_of.values(),
                 "this is the size of another micro-batch. Micro-batches may differ in their "
                 "samples: self.inputs[action.microbatch].shape"),
                (size == wanted / 2,
                 "what travels has the dtype of the model's weights, here float64: torch.empty(…, "
                 "dtype=self.dtype). Without a dtype it takes the default one, float32"),
                (True, "what travels has the shape (samples, context, width), for the samples of "
                 "its micro-batch: torch.empty(*self.inputs[i].shape, self.width)"),
            ]),
            (tag == right_tag, f"it waits for a message with tag {tag}; that has {right_tag}",
             "send has a tag for each message, tag_of(action), and recv gets the message of its "
             "own tag alone: without one it is 0"),
        )  # fmt: skip
