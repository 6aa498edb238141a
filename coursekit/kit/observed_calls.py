"""The actions of an answer on a rank: communication calls, waits for requests, and hashes."""

import builtins
import contextlib
import sys
import warnings

from pedagogy_lib.basics.torch_private import OperatorMode, makes_view, request_in
from pedagogy_lib.basics.waits import WaitsNoticed
from pedagogy_lib.measuring.bytes_of_calls import RULES, calls_of, tensors_in
from pedagogy_lib.ranks.call_stack import is_library

from ..protocol import Rejection

PASSED_BY = (
    "the numbers are right, but by chance: autograd does not know dist.all_reduce and passes it "
    "by, with a warning, and later versions of PyTorch will not. AllReduce.apply, or leave, tells "
    "it what the backward is"
)


class Calls(OperatorMode):
    """A mode that records the communication calls that are made under it."""

    def __init__(self):
        super().__init__()
        self.made = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.namespace in RULES:
            self.made += calls_of(func, args)
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def note_bypassed():
    """Yield a list of the operators that a backward in here passes by, filled at the end.

    torch warns about a call on a tensor with a gradient only in the backward. The list takes the
    place of these warnings.
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
    """Return the parts of x that each of n ranks has."""
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
    """A record of calls, with the requests of those that are messages: [(call, request)]."""

    def __init__(self):
        super().__init__()
        self.requests = []
        self.coming = []  # (request, start and end address of its numbers) of recvs

    def judge(self, call, args):
        """Inspect a call before it runs, with its operator's arguments; may raise an error."""

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
        """Raise `Rejection` if an operator uses numbers that a message has yet to bring."""
        self.coming = [each for each in self.coming if not each[0].is_completed()]
        used = [bytes_of(x) for x in tensors_in(values)]
        if any(a < y and x < b for _, (a, b) in self.coming for x, y in used):
            name = func.overloadpacket.__name__
            what = f"nobody has waited for the request of irecv when {name} uses its tensor"
            raise Rejection(what, DROPPED)

    def not_waited(self) -> list[str]:
        """Return the calls that were not waited for: with Gloo only a wait completes a request."""
        return [call.name for call, request in self.requests if not request.is_completed()]

    def wait(self):
        """Wait for the remaining requests, because a dropped request takes its message along."""
        for _, request in self.requests:
            if not request.is_completed():
                request.wait()

    def need_waited(self):
        """Raise `Rejection` if a message was not waited for, which may lose it."""
        calls = [f"i{call.name}" for call, request in self.requests if not request.is_completed()]
        if calls:
            raise Rejection(f"nobody has waited for the request of {calls[0]}", DROPPED)


class AllRequests(Requests):
    """A record of messages and collectives: each needs a wait before its tensors are used.

    Small ones are often done before anybody waits, so the wait counts and not the completion.
    """

    def __init__(self):
        super().__init__()
        self.begun = []  # (call, request, addresses of its numbers) of collectives not waited for
        self.waits = WaitsNoticed(self.forget_request)

    def __enter__(self):
        self.waits.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.waits.__exit__(*error)

    def forget_request(self, request):
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
    """Yield the record of calls that are made in here; refuse a request that was not waited for."""
    with AllRequests() as requests:
        yield requests
    requests.need_waited()


def bytes_of(x) -> tuple[int, int]:
    """Return the addresses at which a tensor's numbers begin and end; equal if it has none."""
    extent = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride()))
    return x.data_ptr(), x.data_ptr() + extent * x.itemsize * bool(x.numel())


def looks_only(func) -> bool:
    """Return whether an operator leaves numbers alone: a view of a tensor, or a new one like it."""
    name = func.overloadpacket.__name__
    return makes_view(func) or name.startswith("new_") or name.endswith("_like")


HASHES = (
    "hash() of a text or of bytes is another one in each process (see PYTHONHASHSEED): ranks that "
    "torchrun starts would all differ. checksum([…]), from the lab, is the same everywhere"
)


@contextlib.contextmanager
def hashes_as_elsewhere(rank):
    """Let hash() of texts and bytes differ between ranks, as between processes of torchrun.

    The ranks of a check are forked from one process, and so share its hash seed. Yields the list of
    the types that have been hashed.
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
