"""`begin`, which starts a launch in the background, so that cells can act on it as it runs."""

import threading

from ..basics.errors import LaunchError, need
from ..machines.faults import Faults
from .launcher import job_for, run_packed
from .packing import pack_function
from .run import Run
from .settings import is_torchrun_launched, need_function

LOOK_SECONDS = 0.1


def begin(fn, *args, **settings) -> "BackgroundLaunch":
    """Begin a launch and return at once: `begin(step, machines=Machines(2)).result()`.

    It takes the arguments of `launch`. While it runs, no other launch can.

    Returns  a `BackgroundLaunch`, `running`: `running.result()` waits for the `Run` and raises what
             `launch` would; `running.stop()` ends it; `running.is_done` tells whether it has ended.
             On machines, `running.unplug(1)` pulls the cable of machine 1 at once; `plug`, `slow`,
             `split`, `join` and `kill` do what they say
    Raises   LaunchError for arguments that make no sense, and in a program of torchrun
    """
    need_function(fn, "begin")
    if is_torchrun_launched():
        raise LaunchError("begin() is for notebooks: in a program of torchrun, call launch()")
    return BackgroundLaunch(job_for(fn, args, **settings), pack_function(fn, args))


class BackgroundLaunch(Faults):
    """A launch that runs in a thread, in the background."""

    def __init__(self, job, data):
        self.job, self.found, self.error = job, None, None
        self.thread = threading.Thread(target=self.run, args=(data,), daemon=True)
        self.thread.start()

    def run(self, data):
        try:
            self.found = run_packed(self.job, data)
        except BaseException as error:
            self.error = error
        finally:
            self.job.network_is_there.set()  # or it never will be

    def result(self) -> Run:
        """Wait for the end and return the Run; an interrupt meanwhile also stops the launch."""
        try:
            while self.thread.is_alive():
                self.thread.join(LOOK_SECONDS)
        except KeyboardInterrupt:
            self.stop()
            raise self.error or KeyboardInterrupt from None
        if self.error is not None:
            raise self.error
        return self.found

    def stop(self):
        """End the launch and wait until its ranks have gone."""
        self.job.is_to_stop = True
        self.thread.join()

    @property
    def is_done(self) -> bool:
        return not self.thread.is_alive()

    @property
    def count(self) -> int:
        need(self.job.machines is not None, "this launch has no machines of its own")
        return self.job.machines.count

    def wish(self, wish, machine, when):
        need(not when, f"{wish.name}() acts at once here; a plan belongs to Machines()")
        self.job.network_is_there.wait()
        if self.is_done or self.job.network is None:
            raise LaunchError("this launch has ended: see its result()")
        self.job.network.ask(wish.name, *wish.arguments)

    def __repr__(self):
        if not self.is_done:
            return "a launch that runs: .result() waits for it, .stop() ends it"
        return "a launch that has ended: see its .result()"
