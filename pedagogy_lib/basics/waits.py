"""Notices of waits for requests, whoever waits: it replaces methods of torch's own classes.

Like torch_private.py, this file uses private names, which may change.
"""

import torch
import torch.distributed as dist

_LOOKS = ("wait", "synchronize", "is_completed")  # methods of a request that wait for it
_FUTURE_LOOKS = ("wait", "value")  # methods of its future


class WaitsNoticed:
    """A context manager that calls `notice(request)` before and after each wait.

    Private: blocking calls of torch.distributed call Work.wait by its name, and `request_in`
    returns the very object that its caller has. A wait for a request's future counts, too, and one
    for another future, such as that of torch.futures.wait_all, for all requests that are then done.
    Private: torch._C.Future, the class of these futures, and the base of torch.futures.Future.
    """

    def __init__(self, notice):
        self.notice = notice
        self.futures = []  # (future, request)

    def __enter__(self):
        self.originals = {name: getattr(dist.Work, name) for name in _LOOKS}
        for name, original in self.originals.items():
            setattr(dist.Work, name, self.wrap_wait(original, name == "wait"))
        self.get_future = dist.Work.get_future
        dist.Work.get_future = lambda request: self.note_future(request)
        self.of_futures = {name: getattr(torch._C.Future, name) for name in _FUTURE_LOOKS}
        for name, original in self.of_futures.items():
            setattr(torch._C.Future, name, self.wrap_look(original))

    def wrap_wait(self, original, waits):
        def look(request, *args, **kwargs):
            found = None
            if waits:  # inside a wait, Gloo's reduce-scatter copies to its tensor
                self.notice(request)
            try:
                found = original(request, *args, **kwargs)
                return found
            finally:
                if found is not False:  # else it is not complete, and more waits follow
                    self.notice(request)

        return look

    def note_future(self, request):
        future = self.get_future(request)
        self.futures.append((future, request))
        return future

    def wrap_look(self, original):
        def look(future):
            found = original(future)
            known = [request for of, request in self.futures if of is future]
            for request in known or [request for of, request in self.futures if of.done()]:
                self.notice(request)
            return found

        return look

    def __exit__(self, *error):
        for name, original in self.originals.items():
            setattr(dist.Work, name, original)
        dist.Work.get_future = self.get_future
        for name, original in self.of_futures.items():
            setattr(torch._C.Future, name, original)
