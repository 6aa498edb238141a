"""The part of a watched program that watches: a thread that answers, and notes how it ends.

It imports nothing of torch before the program does, because the program may still set variables
that torch reads on its import.
"""

import atexit
import faulthandler
import os
import signal
import socket
import sys
import threading
import time

from .after_import import call_after_import
from .watch_folder import WatchFolder, touch

LOOK_SECONDS = 0.1  # between two looks whether somebody asks
POLL_SECONDS = 0.002  # between two looks whether a collective has ended
MANY_EVENTS = 2_000  # that are not written yet


class Watcher:
    """The watcher of this rank's program."""

    def __init__(self, folder):
        self.folder = WatchFolder(folder)
        self.rank = int(os.environ["RANK"])
        self.progress = 0  # collectives so far
        self.trace = self.collectives = None  # of a traced program
        self.thread = threading.Thread(target=self.watch, name="watcher", daemon=True)

    def start(self):
        """Begin to watch the program that this process will run."""
        for kind in ("failed", "ended"):  # of an earlier life of this rank
            self.folder.file(self.rank, kind).unlink(missing_ok=True)
        dump = open(self.folder.file(self.rank, "stack"), "w")  # noqa: SIM115 - for the handler
        faulthandler.register(signal.SIGUSR1, file=dump, all_threads=True)
        self.redirect_output()
        machine = int(os.environ.get("MACHINE", os.environ.get("GROUP_RANK", "0")))
        told = {"pid": os.getpid(), "host": socket.gethostname(), "machine": machine}
        self.folder.write(self.rank, "started", told)
        call_after_import("torch", self.watch_torch)
        self.thread.start()

    def redirect_output(self):
        """Print into this rank's own pipe, if there is one, and each line as it ends."""
        if self.folder.has(self.rank, "output"):
            pipe = os.open(self.folder.file(self.rank, "output"), os.O_WRONLY)
            for stream in (sys.stdout, sys.stderr):
                os.dup2(pipe, stream.fileno())
            os.close(pipe)

    def watch_torch(self):
        """Begin to note what the rank does with torch, which has just been imported."""
        from .collectives import Collectives, notice_collectives

        if not self.folder.is_traced:
            notice_collectives(self.note_progress)
            return
        from .phases import Phases
        from .replicas import Replicas
        from .trace import Trace

        trace = Trace(self.folder.file(self.rank, "trace"))
        collectives = Collectives(trace)
        collectives.start()
        Phases(trace, collectives, Replicas(trace)).start()
        atexit.register(trace.flush)
        self.trace, self.collectives = trace, collectives

    def note_progress(self):
        self.progress += 1

    def watch(self):
        """Answer, in a separate thread, where the rank is, and tell when it goes on."""
        told, answered, looked = 0, self.folder.asked_at(), 0.0
        while True:
            time.sleep(
                POLL_SECONDS if self.collectives and self.collectives.flying else LOOK_SECONDS
            )
            if self.collectives:
                self.collectives.look()
            if time.perf_counter() - looked < LOOK_SECONDS:
                continue
            looked = time.perf_counter()
            asked = self.folder.asked_at()
            if asked > answered:
                answered = asked
                self.folder.write(self.rank, "place", find_place())
            progress = self.trace.count if self.trace else self.progress
            if progress > told:
                told = progress
                touch(self.folder.file(self.rank, "beat"))
            if self.trace and len(self.trace.events) > MANY_EVENTS:
                self.trace.flush()

    def note_failure(self, error):
        from ..ranks.error_reports import report_failure

        report = report_failure(error)
        report.at = time.time()  # the clock of all machines
        self.folder.write(self.rank, "failed", report)

    def note_end(self, exit=None):
        """Note that the program has ended, or with `exit`, the line where it has left."""
        from ..ranks.error_reports import report_failure

        self.folder.write(self.rank, "ended", exit and report_failure(exit).source_line)


def find_place():
    """Return where the main thread is, and the rank's collectives."""
    from ..basics.flight_recorder import find_group_calls
    from ..ranks.call_stack import find_current_line
    from ..ranks.messages import IsAt

    return IsAt(find_current_line(), find_group_calls())
