"""What an answer does on a rank: its calls of communication, what it waits for, what it hashes."""

import builtins
import contextlib
import sys
import warnings

from pedagogy_lib.basics.torch_private import OperatorMode, WaitsNoticed, makes_view, request_in
from pedagogy_lib.measuring.bytes_of_calls import RULES, calls_of, tensors_in
from pedagogy_lib.ranks.call_stack import is_library

from ..protocol import Rejection

PASSED_BY = (
    "the numbers are right, but by chance: autograd does not know dist.all_reduce and passes it "
    "by, with a warning, and later versions of PyTorch will not. AllReduce.apply, or leave, tells "
    "it what the backward is"
)


class Calls(OperatorMode):
    """The communication calls that are made under it."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.made += calls_of(func, args)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def note_bypassed():
    """Gives a list of the operators that a backward in here passes by; torch's warnings go there.

    Of a call on a tensor with a gradient torch warns in the backward alone.
    """
    passed = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield passed
    for warning in found:
        operator, unknown, _ = str(warning.message).partition(": an autograd kernel was not")
        if unknown:
            passed.append(operator)
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def parts_of(x, n, dim=0):
    """What each of n ranks has."""
    return x.tensor_split(n, dim)


DROPPED = (
    "isend and irecv return at once, with a request: a message has gone, or its numbers have come, "
    "only after request.wait()"
)
NOT_WAITED = (
    "with async_op=True a collective returns at once, with a request. What it computes is in its "
    "tensor only after request.wait(): until then nobody may read or change that tensor, and each "
    "request has to be waited for"
)


class Requests(Calls):
    """Calls, and the requests of those that are messages: [(call, request)]."""

    def __init__(self):
        super().__init__()
        self.requests = []
        self.coming = []  # (request, where its numbers go: from which byte to which) of recvs

    def judge(self, call, args):
        """Called before a call goes, with what its operator gets: may raise an error."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.coming and not looks_only(func):
            self.need_come(func, [*args, *(kwargs or {}).values()])
        for call in calls_of(func, args) if func.namespace in RULES else []:
            self.judge(call, args)
        before = len(self.made)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for call in self.made[before:]:
            if call.name in ("send", "recv"):
                self.requests.append((call, request_in(result)))
            if call.name == "recv":
                self.coming += [(self.requests[-1][1], bytes_of(x)) for x in tensors_in(args[0])]
        return result

    def need_come(self, func, values):
        """Raise `Rejection` if an operator uses numbers that a message is still to bring."""
        self.coming = [each for each in self.coming if not each[0].is_completed()]
        used = [bytes_of(x) for x in tensors_in(values)]
        if any(a < y and x < b for _, (a, b) in self.coming for x, y in used):
            name = func.overloadpacket.__name__
            what = f"nobody has waited for the request of irecv when {name} uses its tensor"
            raise Rejection(what, DROPPED)

    def not_waited(self) -> list[str]:
        """Calls whose request nobody has waited for: with Gloo only that completes it."""
        return [call.name for call, request in self.requests if not request.is_completed()]

    def wait(self):
        """Wait for what nobody has waited for: a dropped request takes its message along."""
        for _, request in self.requests:
            if not request.is_completed():
                request.wait()

    def need_waited(self):
        """Raise `Rejection` if nobody has waited for a message, which may be lost by that."""
        calls = [f"i{call.name}" for call, request in self.requests if not request.is_completed()]
        if calls:
            raise Rejection(f"nobody has waited for the request of {calls[0]}", DROPPED)


class AllRequests(Requests):
    """Those of collectives, too: each has to be waited for before its tensors are used.

    Small ones are often done before anybody waits. So what counts is whether somebody waits.
    """

    def __init__(self):
        super().__init__()
        self.begun = []  # (call, request, where its numbers go) of collectives, not waited for yet
        self.waits = WaitsNoticed(self.note_wait)

    def __enter__(self):
        self.waits.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.waits.__exit__(*error)

    def note_wait(self, request):
        self.begun = [each for each in self.begun if each[1] is not request]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self.begun and not looks_only(func):
            used = [bytes_of(x) for x in tensors_in([*args, *(kwargs or {}).values()])]
            for call, _, where in self.begun:
                if any(a < y and x < b for a, b in where for x, y in used):
                    self.refuse(call, f" when {func.overloadpacket.__name__} uses its tensor")
        before = len(self.made)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for call in self.made[before:]:
            request = request_in(result)
            if request is not None and call.name not in ("send", "recv"):
                self.begun.append((call, request, [bytes_of(x) for x in tensors_in(args[0])]))
        return result

    def need_waited(self):
        super().need_waited()
        for call, _, _ in self.begun:
            self.refuse(call, "")

    def refuse(self, call, when):
        raise Rejection(f"nobody has waited for the request of {call.name}{when}", NOT_WAITED)


@contextlib.contextmanager
def all_waited():
    """Gives the calls that are made in here; refuses a collective that nobody has waited for."""
    with AllRequests() as requests:
        yield requests
    requests.need_waited()


def bytes_of(x) -> tuple[int, int]:
    """From which address to which a tensor's numbers are; of none, nowhere."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))
    return x.data_ptr(), x.data_ptr() + extent * x.itemsize * bool(x.numel())


def looks_only(func) -> bool:
    """Whether an operator leaves numbers alone: a view of a tensor, or a new one like it."""
    name = func.overloadpacket.__name__
    return makes_view(func) or name.startswith("new_") or name.endswith("_like")


HASHES = (
    "hash() of a text or of bytes is another one in each process (see PYTHONHASHSEED): ranks that "
    "torchrun starts would all differ. checksum([…]), from the lab, is the same everywhere"
)


@contextlib.contextmanager
def hashes_as_elsewhere(rank):
    """Let hash() of texts and bytes differ between ranks, as between processes of torchrun.

    The ranks of a check are forked from one process, and so have its seed. Yields the list of what
    has been hashed.
    """
    usual, hashed = builtins.hash, []

    def hash_with_rank(value):
        is_salted = isinstance(value, str | bytes | tuple | frozenset)
        if not is_salted or is_library(sys._getframe(1).f_code.co_filename):
            return usual(value)
        hashed.append(type(value).__name__)
        return usual((rank, value))

    builtins.hash = hash_with_rank
    try:
        yield hashed
    finally:
        builtins.hash = usual
