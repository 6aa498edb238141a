"""Calls that fail during an answer, as if a rank had died, and checks that it raises the error."""

from collections.abc import Callable
from typing import NamedTuple

import torch

from coursekit.kit import Rejection
from coursekit.kit.observed_calls import Requests
from pedagogy_lib.basics.torch_private import request_in
from pedagogy_lib.basics.waits import WaitsNoticed

HALF = (
    "a call has failed, as somebody died, and the weights or the momentum have changed already: "
    "who is left takes the outer step once more. First all sums, then the step, and no call after "
    "that"
)
SWALLOWED = (
    "an all-reduce has failed, and nobody is told of it: do not catch the error, as those who call "
    "have to meet again"
)
OTHER_ERROR = (
    "an all-reduce has failed, and another error comes out of it. Those who call look at its words "
    "to know whether somebody is lost: let the error itself go on"
)
HIDDEN = (
    "optimizer.step() has failed, and nobody is told of it: who catches an error of any kind hides "
    "mistakes, too. Let errors go on to those who call"
)
WORDS = "[gloo] Connection closed by peer"


class Fault(NamedTuple):
    """A place of failure: a call of communication, its request's wait, or the optimizer's step."""

    what: str  # "call", "wait" or "step"
    number: int = 1  # of the call, from 1 on

    def __str__(self):
        return f"{'the wait for ' if self.what == 'wait' else ''}call number {self.number}"


class FaultInjector(Requests):
    """A failure of one call of communication on all ranks, as if a rank had died.

    If a call has async_op=True, the wait for its request fails. All other calls wait inside.
    """

    def __init__(self, fault):
        super().__init__()
        self.fault, self.so_far, self.error = fault, 0, None
        self.request = None  # of the call with the fault's number
        self.waits = WaitsNoticed(self.wait_for)

    def __enter__(self):
        self.waits.__enter__()
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.waits.__exit__(*error)

    def judge(self, call, args):
        self.so_far += 1
        if self.fault == ("call", self.so_far):
            self.fail()

    def wait_for(self, request):
        if self.fault.what == "wait" and request is self.request:
            self.fail()

    def fail(self):
        self.error = RuntimeError(WORDS)
        raise self.error

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        before = len(self.made)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if len(self.made) > before and self.so_far == self.fault.number:
            self.request = request_in(result)
        return result


def goes_on(call: Callable, fault: Fault, state: Callable) -> bool:
    """Let a call fail during an answer; return whether the answer has done without that call.

    state  returns the tensors that must stay unchanged if the call fails
    """
    before = [x.clone() for x in state()]
    with FaultInjector(fault) as calls:
        try:
            call()
        except Exception as error:
            if calls.error is None:
                raise
            if error is not calls.error and WORDS not in str(error):
                told = f"{type(error).__name__}: {error}"
                what = f"{fault} has failed, and this is raised: {told:.60}"
                raise Rejection(what, OTHER_ERROR) from None
        else:
            if calls.error is None:
                return True
            raise Rejection(f"{fault} has failed, and the function returns", SWALLOWED)
    after = state()
    if len(after) != len(before) or not all(map(torch.equal, before, after)):
        raise Rejection(f"{fault} has failed, and weights or momentum have changed", HALF)
    return False


def need_heard(call: Callable, optimizer):
    """Raise `Rejection` if an answer hides that the optimizer's step fails."""
    failed = []

    def fail(*args):
        failed.append(ArithmeticError("the learning rate is not a number"))
        raise failed[-1]

    hook = optimizer.register_step_pre_hook(fail)
    try:
        call()
    except Exception:
        if not failed:
            raise
    else:
        if failed:
            raise Rejection("the optimizer's step has failed, and the function returns", HIDDEN)
    finally:
        hook.remove()
