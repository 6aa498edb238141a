"""The life of one rank: it joins the group, runs the learner's function and reports on it."""

import builtins
import contextlib
import faulthandler
import mmap
import os
import random
import re
import signal
import sys
import threading
from datetime import timedelta

import cloudpickle
import torch
import torch.distributed as dist

from ..basics.flight_recorder import find_group_calls
from ..machines import namespaces
from ..machines.fault_triggers import FaultTrigger
from ..measuring import recorder
from . import rank_hooks
from .call_stack import find_current_line
from .error_reports import CannotBegin, cannot_travel, report_failure
from .messages import (
    BEGUN,
    JOINED,
    RETURNED,
    UNPACKED,
    FailureReport,
    IsAt,
    ReturnReport,
    StageReport,
    receive_exactly,
    receive_frame,
    send_message,
)
from .packing import pack_value
from .preload_modules import PRELOAD_WHEN_IDLE
from .refusals import reason
from .shared_gpus import send_through_the_cpu

LONGER_THAN_ANY_LAUNCH = timedelta(days=1)
RESERVE_BYTES = 8_000_000  # for reporting an error when all memory is taken
BUILTINS = vars(builtins).copy()  # put back after the learner's function: the report needs them
CHANNEL_CLOSED = (
    "the connection to the notebook was closed by this program: close only files that you opened"
)


class Channel:
    """A rank's connection to the notebook: reports go out, and questions of one byte come in."""

    def __init__(self, connection):
        self.connection = connection
        self.lock = threading.Lock()

    def send(self, report):
        with self.lock:
            send_message(self.connection, report)

    def listen(self):
        """Answer, in a separate thread, where the rank is; exit once the notebook has gone."""
        try:
            while receive_exactly(self.connection, 1):
                with contextlib.suppress(Exception):  # the learner may have closed it
                    sys.stdout.flush()  # text that it has printed without ending the line
                self.send(IsAt(find_current_line(recorder.block_of()), find_group_calls()))
        except (EOFError, OSError):
            os._exit(1)  # the notebook has gone


def main(connection, setup):
    """Run one rank in this process; never return."""
    open_streams()
    channel = Channel(connection)
    listener = threading.Thread(target=channel.listen, daemon=True)
    pid = os.getpid()
    reserve = mmap.mmap(-1, RESERVE_BYTES)  # not touched, so it costs nothing
    try:
        payload = receive_frame(connection)
        prepare(setup, listener)
        report = live(channel, setup, payload)
    except BaseException as error:
        reserve.close()  # there may be no other memory for the report
        report = report_failure(error, recorder.block_of(error))
    with contextlib.suppress(Exception):  # the learner may have closed it
        sys.stdout.flush()  # a last line may have no end
    if os.getpid() != pid:  # a child that the learner forked, which must not report for the rank
        os._exit(isinstance(report, FailureReport))
    try:
        channel.send(report)
    except OSError as error:
        os.write(2, f"{CHANNEL_CLOSED} ({error})\n".encode())
        os._exit(1)
    # Wait to be killed: if a rank exits, its connections break, and other ranks fail.
    listener.join() if listener.ident else channel.listen()


def prepare(setup, listener):
    """Do what may fail for reasons outside the learner's program; raise CannotBegin if it does."""
    enter_machine(setup["machine"])
    enter_folder(setup["cwd"])
    try:
        dump = open(setup["dump"], "w")  # noqa: SIM115 - stays open for the signal handler
        faulthandler.register(signal.SIGUSR1, file=dump, all_threads=True)
        faulthandler.enable(file=dump)  # a rank that crashes leaves its stack in it
        listener.start()
    except (OSError, RuntimeError) as error:  # RuntimeError: no thread can be started
        raise CannotBegin(f"could not be started: {reason(error)}") from None
    rank_hooks.install()


def enter_machine(machine):
    """Move this process, while it has one thread, into its machine's network, if it has one."""
    if machine["network"] is None:
        return
    try:
        namespaces.enter(machine["network"], machine["user"])
    except FileNotFoundError:
        raise CannotBegin(f"cannot be on machine {machine['number']}: it was killed") from None
    except OSError as error:
        raise CannotBegin(f"could not enter machine {machine['number']}: {error}") from None
    os.environ["GLOO_SOCKET_IFNAME"] = ",".join(namespaces.cards_here())


def enter_folder(path):
    try:
        os.chdir(path)
    except OSError as error:
        raise CannotBegin(
            f"could not enter the current folder {path}: {error.strerror}; go to another one with "
            "os.chdir()"
        ) from None


def live(channel, setup, payload) -> ReturnReport:
    """Unpack the learner's function, join the group and run it; return the report on it."""
    channel.send(StageReport(BEGUN))
    function, args = unpack(payload)
    del payload
    channel.send(StageReport(UNPACKED))
    join_group(setup)
    channel.send(StageReport(JOINED))
    work = Work(torch.device(setup["device"]), setup["began"], **instruments(setup["machine"]))
    value = work.run(function, args)
    channel.send(StageReport(RETURNED))
    return work.report(value, pack_value)


def unpack(payload):
    """Return the learner's function and its arguments; raise TypeError for names unknown here."""
    try:
        return cloudpickle.loads(payload)
    except AttributeError as error:
        found = re.search("Can't get attribute '(.+)' on <module '__main__'", str(error))
        if not found:
            raise
        raise TypeError(
            f"`{found[1]}` cannot travel to another process, as a decorator like functools.cache "
            "has made an object of it; use the plain function"
        ) from None


def instruments(machine) -> dict:
    """Return arguments of `Work` for a rank on a machine: its cards, and its planned faults."""
    planned = FaultTrigger(machine["planned"], machine["door"]) if machine["planned"] else None
    cards = namespaces.cards_here() if machine["network"] else None
    return {"cards": cards, "before_block": planned}


def open_streams():
    """Open new standard streams: nothing to read, and every line goes out as it is printed."""
    sys.stdin = open(os.devnull)  # noqa: SIM115 - input() ends at once
    os.dup2(sys.stdin.fileno(), 0)
    how = {"mode": "w", "buffering": 1, "errors": "backslashreplace", "closefd": False}
    sys.stdout, sys.stderr = open(1, **how), open(2, **how)  # noqa: SIM115


def join_group(setup):
    """Set torchrun's environment variables, the device and the seeds, and enter the group.

    Returns only once every rank is connected to all others. A rank that replaces a dead one enters
    no group, because `fn` makes one.
    setup   the rank's part of a launch, as the notebook sends it
    Raises  CannotBegin if the group cannot be formed
    """
    machine = setup["machine"]
    os.environ.update(
        RANK=str(setup["rank"]),
        LOCAL_RANK=str(machine["local_rank"]),
        GROUP_RANK=str(machine["number"]),
        WORLD_SIZE=str(setup["world_size"]),
        LOCAL_WORLD_SIZE=str(machine["ranks"]),
    )
    if setup["replaces"]:
        join_later(setup)
        return
    try:
        # Not init_method="file://…": in a URL a folder's # or ? would mean something else.
        store = dist.FileStore(setup["store"], setup["world_size"])
        store.set_timeout(LONGER_THAN_ANY_LAUNCH)
        enter_group(
            setup["backend"],
            torch.device(setup["device"]),
            store=store,
            rank=setup["rank"],
            world_size=setup["world_size"],
        )
        # A rank that leaves the group or dies at once must not keep others from connecting.
        await_all(store, setup["world_size"])
    except (OSError, RuntimeError) as error:
        raise CannotBegin(f"could not join the other ranks: {reason(error)}") from None
    seed_everything(setup["seed"])


def await_all(store, world_size):
    """Wait until every rank has connected to all others."""
    if store.add("connected", 1) == world_size:
        store.set("all connected", "")
    store.wait(["all connected"])


def join_later(setup):
    """Take the place of a rank that has died, without a process group until `fn` makes one."""
    os.environ["TORCHELASTIC_RESTART_COUNT"] = str(setup["replaces"])
    use_device(torch.device(setup["device"]))
    seed_everything(setup["seed"])


def use_device(device):
    """Compute on this rank's device, with one thread for torch."""
    torch.set_num_threads(1)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_default_device(device)
    else:  # some of PyTorch's code uses any GPU that it sees
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def enter_group(backend, device, **rendezvous):
    """Initialise `torch.distributed` on this rank's device, with one thread for torch."""
    use_device(device)
    if backend == "nccl":
        backend = "cpu:gloo,cuda:nccl"  # so that tensors on the CPU can still be sent
        rendezvous["device_id"] = device
    elif device.type == "cuda":
        send_through_the_cpu()
    dist.init_process_group(backend, timeout=LONGER_THAN_ANY_LAUNCH, **rendezvous)


def seed_everything(seed):
    """Seed every generator that a learner may draw from."""
    random.seed(seed)
    torch.manual_seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


class Work:
    """One call of the learner's function, with the instruments that watch it."""

    def __init__(self, device, began, ignore_ports=(), cards=None, before_block=None):
        self.device = device
        self.recorder = recorder.start(device, began, ignore_ports, cards, before_block)
        self.not_preloaded = [name for name in PRELOAD_WHEN_IDLE if name not in sys.modules]

    def run(self, function, args):
        try:
            value = function(*args)
        finally:
            vars(builtins).update(BUILTINS)
        self.recorder.leave_all()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return value

    def report(self, value, pack) -> ReturnReport:
        """Return the report from which the notebook builds its Run; `pack` packs the value."""
        try:
            return ReturnReport(
                value=pack(value),
                value_type=type(value).__name__,
                uses=self.recorder.finish(),
                wire=self.recorder.wire,
                imported_late=any(name in sys.modules for name in self.not_preloaded),
            )
        except Exception as error:
            raise cannot_travel(value, error) from None
