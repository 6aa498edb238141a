"""`launch`, which runs a function on every rank of a new world and brings everything back."""

import contextlib
import os
import selectors
import shutil
import sys
import threading
import time

from ..basics.errors import NO_RANK_YET, HangError, LaunchError, RankError, Stopped, where_stopped
from ..machines.network import NetworkRun, network_for
from ..machines.other_users import keeps_to_itself
from ..machines.state import State
from . import torchrun_launch
from .dead_ranks import DeadRanks
from .fork_server_client import ENVIRON, ensure_server
from .packing import pack_function, unpack_value
from .preload_modules import needs_them
from .rank_handle import RankHandle
from .rank_listener import RankListener
from .refusals import refusals_told
from .run import Run
from .settings import (
    check_call,
    check_machines,
    check_numbers,
    check_replacements,
    choose_device,
    current_folder,
    is_torchrun_launched,
    need_function,
    seeds_of,
)

CAUSE_SECONDS = 1.0  # after a rank lost its neighbour, to hear what that neighbour did
GRACE_SECONDS = 0.3  # after a first failure, for others to fail too, to find which came first
LEAVE_SECONDS = 1.0  # for what killed ranks have printed to arrive
KILL_SECONDS = 5.0  # for the kernel to end killed ranks, however busy the machine is

_one_at_a_time = threading.Lock()


def launch(
    fn, *args, world_size=4, device="auto", timeout=60.0, seed=0, machines=None, replacements=None
) -> Run:
    """Run `fn(*args)` on `world_size` fresh processes that form one process group.

    On each rank, `torch.distributed` is initialised, torch has one thread, and the random seed is
    the same. What `fn` prints appears at once, each line with its rank. In a program that
    `torchrun` started, `fn` runs in this process, and the ranks and `world_size` are torchrun's.

    world_size    the number of ranks
    device        "auto": NCCL where there are `world_size` GPUs, otherwise Gloo on the CPU; "cpu":
                  ranks see no GPU; "cuda": ranks share the GPUs, over Gloo if there are too few
    timeout       seconds until a launch counts as hung, from when all ranks have met; unpacking the
                  function before that, and packing its values after it, get the same time again
    seed          an integer for all ranks, or a sequence with one integer for each
    machines      `Machines(2, bytes_per_second=25e6)`: ranks on separate machines, whose network
                  cards the kernel limits; over Gloo, on the CPU
    replacements  a number, so that a rank's death does not end the launch. This many dead ranks are
                  replaced by fresh processes, which also call `fn(*args)` but are in no process
                  group; the others are lost: see `run.lost`. A rank that raises ends the launch
    Returns       a `Run`: `run.values[rank]` is what `fn` returned on that rank
    Raises        `RankError` if a rank raises, dies or is killed; `HangError` after `timeout`;
                  `LaunchError` if something cannot travel or is refused. No process is left over
    """
    need_function(fn, "launch")
    if is_torchrun_launched():
        return torchrun_launch.run(fn, args, device, seed)
    job = job_for(fn, args, world_size, device, timeout, seed, machines, replacements)
    return run_job(job, fn, args)


def job_for(
    fn, args, world_size=4, device="auto", timeout=60.0, seed=0, machines=None, replacements=None
) -> "Launch":
    """Return the launch to run; raise LaunchError for settings that make no sense."""
    check_call(fn, args)
    check_numbers(world_size, timeout)
    check_replacements(replacements)
    world_size = int(world_size)  # numpy's integers count too
    check_machines(machines, device, world_size)
    backend, devices = choose_device("cpu" if machines else device, world_size)
    seeds = seeds_of(seed, world_size)
    return Launch(backend, devices, seeds, timeout, machines=machines, replacements=replacements)


def run_job(job: "Launch", fn, args) -> Run:
    """Run one launch; raise LaunchError if another one is running, Stopped at an interrupt."""
    try:
        return run_packed(job, pack_function(fn, args))
    except Stopped:
        raise
    except KeyboardInterrupt:
        raise Stopped(NO_RANK_YET) from None


def run_packed(job: "Launch", data: bytes) -> Run:
    if not _one_at_a_time.acquire(blocking=False):
        raise LaunchError("another launch is still running in this process; wait for its end")
    try:
        return job.run(data)
    finally:
        _one_at_a_time.release()


IMPORTING = "importing PyTorch, once for each notebook"


class Launch(RankListener):
    """One launch, which starts its ranks, brings back their reports and leaves nothing behind."""

    def __init__(
        self, backend, devices, seeds, timeout, noun="rank", machines=None, replacements=None
    ):
        super().__init__(len(devices), timeout)
        self.dead_ranks = DeadRanks(self, replacements)
        self.backend, self.devices, self.seeds, self.noun = backend, devices, seeds, noun
        self.machines, self.network, self.network_run = machines, None, None
        self.network_is_there = threading.Event()  # for waiting in another thread
        self.places = machines.places(len(devices)) if machines else [0] * len(devices)

    def run(self, data: bytes) -> Run:
        """Start the ranks with their pickled work, wait for all of them, and return their Run."""
        with refusals_told():
            self.open()
            self.server = ensure_server()
            self.server.await_ready(lambda: self.progress.tick(IMPORTING))
            if self.machines:
                self.network = network_for(self.machines)
                self.network_is_there.set()
            self.folder = self.server.new_folder()
        if needs_them(data, self.world_size):
            self.server.preload()
        if self.network:
            self.network_run = NetworkRun(self.network, self.machines.plan, self.folder)
        self.began = time.perf_counter()
        try:
            with refusals_told():
                self.start(data)
            self.listen_until_decided()
            self.raise_what_went_wrong()
            return self.collect()
        except BaseException as error:
            if self.network:
                self.network.is_spoilt = True  # it may be; a new one costs little
            if isinstance(error, KeyboardInterrupt):
                raise Stopped(where_stopped(self.ask_where())) from None
            raise
        finally:
            self.end()

    def is_ready_to_work(self) -> bool:
        if self.network_run:
            self.network_run.begin_if_needed()
        return True

    def start(self, data):
        """Fork every rank and hand over its work."""
        self.selector.register(self.server.control, selectors.EVENT_READ, self.hear_server)
        # How GPUs behave in a user namespace depends on their driver, so ranks on GPUs enter none.
        self.alone = not self.machines and set(self.devices) == {"cpu"} and keeps_to_itself()
        self.data = data
        self.ranks += map(self.fork, range(self.world_size))
        for handle in self.ranks:
            self.hand_over(handle, self.setup_of(handle.rank))

    def fork(self, rank, mark="") -> RankHandle:
        """Start a rank's process without its work; `mark` tells it from one that has died."""
        dump = self.folder / f"dump-{rank}{mark}"
        handle = RankHandle(rank, self.server, self.noun, dump, self.alone)
        self.selector.register(handle.pipe, selectors.EVENT_READ, handle.read_output)
        return handle

    def hand_over(self, handle, setup):
        handle.hand_over(setup | {"dump": str(handle.dump)}, self.data)
        self.selector.register(handle.connection, handle.exchange(0), handle.exchange)

    def setup_of(self, rank) -> dict:
        own = {"PEDAGOGY_RANK": str(rank), "PEDAGOGY_FOLDER": str(self.folder)}
        return {
            "environ": os.environ | ENVIRON | self.server.own_environ() | own,
            "cwd": current_folder(),
            "sys_path": sys.path,
            "rank": rank,
            "machine": self.machine_of(rank),
            "world_size": self.world_size,
            "backend": self.backend,
            "device": self.devices[rank],
            "seed": self.seeds[rank],
            "store": str(self.folder / "store"),
            "began": self.began,
            "replaces": 0,
        }

    def machine_of(self, rank) -> dict:
        """Return a rank's machine, its index on it, and how to enter the machine's network."""
        number = self.places[rank]
        return {
            "number": number,
            "local_rank": rank - self.places.index(number),
            "ranks": self.places.count(number),
            "network": self.network and self.network.networks[number],
            "user": self.network and self.network.user,
            "planned": self.machines.list_block_faults(rank, self.world_size)
            if self.machines
            else [],
            "door": self.network_run and self.network_run.door,
        }

    def state(self) -> State:
        """Return what has happened to the machines."""
        found = self.network_run.state() if self.network_run else {}
        return State(self.machines.ranks_of_each(self.world_size) if found else [], **found)

    def is_lost(self, rank) -> bool:
        return self.dead_ranks.has(rank)

    def hear_all(self, seconds):
        super().hear_all(seconds)
        self.dead_ranks.settle()

    def look_around(self):
        super().look_around()
        self.dead_ranks.replace()

    def raise_what_went_wrong(self):
        if self.has_every_report() and any(r.report for r in self.ranks):
            return
        state = self.state()
        if not any(map(self.has_failed, self.ranks)) and not self.has_every_report():
            advice = state.describe() or self.dead_ranks.advice()
            told = self.ask_where(), self.round_wait_time(), None
            raise HangError(*told, advice, self.find_calls())
        self.listen_until(self.has_a_cause, CAUSE_SECONDS)
        self.listen_until(lambda: all(r.report or r.has_failed for r in self.ranks), GRACE_SECONDS)
        for handle in self.ranks:
            handle.killed_with = state.find_killed_machine(handle.rank)
        failed = sorted((r for r in self.ranks if r.has_failed), key=RankHandle.blame)
        is_common = len({r.failure() for r in failed}) == 1 and len(failed) == self.world_size > 1
        raise self.build_error(failed, who=f"all {self.world_size} ranks" * is_common)

    def build_error(self, failed, who="") -> RankError:
        """Build the error to raise; `failed` are the failed ranks, the first to blame first."""
        return failed[0].build_error([] if who else failed[1:], who)

    def collect(self) -> Run:
        """Build the Run, now that every rank has returned."""
        self.hear_all(0)  # all output of the ranks is in their pipes by now
        return Run(
            seconds=time.perf_counter() - self.began,
            values=[
                r.report and unpack_value(r.rank, r.report.take_value(), r.report.value_type)
                for r in self.ranks
            ],
            uses=[r.report.uses if r.report else [] for r in self.ranks],
            output=self.dead_ranks.output(),
            backend=self.backend,
            devices=self.devices,
            wire=next(r.report.wire for r in self.ranks if r.report),
            machines=self.machines,
            cards=self.network_run and self.network_run.history(self.began),
            lost=self.dead_ranks.list_dead_ranks(),
        )

    def end(self):
        """Leave nothing behind: no process, no file, no open socket."""
        self.progress.close()
        self.dead_ranks.replacements = self.dead_ranks.replacements and 0  # no rank is replaced now
        if self.network_run:
            self.network_run.end()
        try:
            self.end_ranks()
        except BaseException:
            self.server.close()
            raise
        finally:
            self.selector.close()
            for handle in [*self.ranks, *self.dead_ranks.former]:
                handle.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def end_ranks(self):
        """Kill all ranks, and wait for their deaths unless all have reported."""
        if self.server.owed:
            self.server.kill_ranks()
        if not self.has_every_report():
            with contextlib.suppress(LaunchError):  # the server has ended, and its ranks with it
                self.listen_until(lambda: not self.server.owed, KILL_SECONDS)
                self.listen_until(lambda: all(r.is_gone for r in self.ranks), LEAVE_SECONDS)
            if self.server.owed:
                self.server.close()  # it is stuck: the next launch starts a new one
        elif any(r.report.imported_late for r in self.ranks if r.report):
            self.server.preload()
