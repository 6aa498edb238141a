"""Messages that an answer has begun, and whether it has waited for them."""

from ...basics.torch_private import request_in
from ...measuring.bytes_of_calls import RULES, calls_of
from .groups import Calls
from .refused import Refused

DROPPED = (
    "isend and irecv return at once, with a request: a message has gone, or its numbers have come, "
    "only after request.wait()"
)


class Requests(Calls):
    """Calls, and the requests of those that are messages: [(call, request)]."""

    def __init__(self):
        super().__init__()
        self.requests = []

    def judge(self, call, args):
        """Called before a call goes, with what its operator gets: may raise an error."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        for call in calls_of(func, args) if func.namespace in RULES else []:
            self.judge(call, args)
        before = len(self.made)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for call in self.made[before:]:
            if call.name in ("send", "recv"):
                self.requests.append((call, request_in(result)))
        return result

    def not_waited(self) -> list[str]:
        """Calls whose request nobody has waited for: with Gloo only that completes it."""
        return [call.name for call, request in self.requests if not request.is_completed()]

    def wait(self):
        """Wait for what nobody has waited for: a dropped request takes its message along."""
        for _, request in self.requests:
            if not request.is_completed():
                request.wait()

    def need_waited(self):
        """Raise `Refused` if nobody has waited for a message, which may be lost by that."""
        calls = [f"i{call.name}" for call, request in self.requests if not request.is_completed()]
        if calls:
            raise Refused(f"nobody has waited for the request of {calls[0]}", DROPPED)
