"""torchrun from a notebook, as if on several machines."""

import contextlib
import functools
import os
import selectors
import subprocess
import sys
import time

import torch.distributed as dist

from ..basics.errors import LaunchError, Stopped, need
from ..basics.units import brief
from ..machines.amounts import is_count, is_positive
from ..machines.fault_triggers import ask_switch
from ..machines.namespaces import CARD, address_of, enter_machine
from ..machines.network import try_machines
from ..machines.spec import Machines
from ..machines.state import State
from ..programs import agent
from ..programs.program_ranks import NOT_STARTED, ProgramRanks
from ..programs.rank_trace import ProgramTrace
from . import fresh_stores
from .launcher import Launch, run_job
from .messages import RETURNED
from .output import LIVE_LINES, Output
from .run import Run
from .settings import VARIABLES

PORT = 29_500  # torchrun's default; on separate machines no other program has it
RESTARTS = 3  # of all ranks, after one has failed, where machines may come and go
# For torchrun's rendezvous, in seconds: an agent that does not answer is soon given up, and once
# enough machines have joined, the wait for others is short.
QUICK = "last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=3"
# If agents share a store for all rounds, only the first round's agents know it (torch 2.13), so one
# that comes back would wait forever, and restarted ranks would find addresses of dead ones.
STORES = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
NO_GPUS = {"CUDA_VISIBLE_DEVICES": ""}  # two machines of this computer would use the same ones
MOST_BYTES = 1 << 16  # of output, read at once
STALL_SECONDS = 0.2  # between two looks whether the program goes on
LOOK_SECONDS = 0.05  # between two checks whether a machine is back
FAILED = "{} failed; its own message is printed above"
ENTRY = os.path.join(os.path.dirname(os.path.dirname(__file__)), "programs", "entry.py")
WATCH, DEATHS = "watch", "deaths"  # a folder for the ranks' files; a file for their deaths


def run_torchrun(
    script,
    *arguments,
    nnodes=1,
    nproc_per_node=2,
    timeout=60.0,
    machines=None,
    max_restarts=None,
    report=None,
    live_lines=LIVE_LINES,
) -> Run:
    """Run `torchrun script arguments…` on `nnodes` machines, with one agent on each.

    Several nodes are machines with separate networks where this system allows them; elsewhere they
    only pretend to be, and meet over the loopback.

    script          path of a Python program, from the current folder; any program that torchrun
                    can start, as it is
    arguments       of the program, as they follow it on the command line: "--lr", 0.1
    nnodes          a number; or the fewest and the most, as in (1, 2), so that ranks continue, from
                    the start of the script, on the machines that are left, and take in one that
                    comes back. In the script, `machines_around().kill(1)` kills a machine at a step
                    of your choice
    nproc_per_node  the number of ranks on each machine
    timeout         seconds without progress until the run counts as hung. Each collective that a
                    rank begins, and each line that it prints, is progress
    machines        `Machines(2, bytes_per_second=25e6)`, with that speed and their plan, such as
                    `Machines(2).kill(1, after_seconds=5).revive(1, after_seconds=8)`
    max_restarts    how often the agents restart all ranks, in new processes, after one has failed;
                    by default 0, and 3 where machines may come and go
    report          a path, such as "report.html", to which a report on the run is written, also if
                    it fails: where each rank's time went, what it sent, and what is wrong with it.
                    A summary is printed, and `run.findings` lists what was found
    live_lines      how many lines of each rank are shown as they are printed; None for all
    Returns         a `Run` whose indices are machines: `run.output[node]` is what the processes of
                    one printed. A script returns nothing, so `run.values` is all None
    Raises          `RankError` of the script's rank that failed first; `HangError` after `timeout`,
                    with the line of each of its ranks; `LaunchError` if there is no such script or
                    something is refused
    """
    if not os.path.exists(script):
        raise LaunchError(no_program(script))
    is_pair = isinstance(nnodes, tuple | list) and len(nnodes) == 2
    fewest, most = nnodes if is_pair else (nnodes, nnodes)
    counts = all(map(is_positive, (fewest, most, nproc_per_node)))
    need(counts and fewest <= most, "nnodes and nproc_per_node are at least 1")
    if max_restarts is None:
        max_restarts = RESTARTS if fewest < most else 0
    need(is_count(max_restarts), f"max_restarts is 0 or more, not {brief(max_restarts)}")
    need(machines is None or isinstance(machines, Machines),
         f"machines is Machines({most}), and not {brief(machines)}")  # fmt: skip
    need(machines is None or machines.count == most,
         f"{machines and machines.count} machines cannot be {most} nodes: write "
         f"Machines({most})")  # fmt: skip
    if machines is None and most > 1 and not try_machines():
        machines = Machines(most)
    elif machines is None and fewest < most:
        raise LaunchError(f"machines that come and go cannot be had here: {try_machines()}")
    told_apart = most * nproc_per_node if fewest == most and not max_restarts else 0
    job = AgentsLaunch(
        most, timeout, machines, [Output(rank, live_lines=live_lines) for rank in range(told_apart)]
    )
    own = [f"--nproc-per-node={nproc_per_node}", f"--max-restarts={max_restarts}"]
    program = [str(script), *map(str, arguments)]
    with job.reporting(report, program):
        run = run_job(job, play_machine, (program, fewest, own, machines is not None))
    run.findings = job.findings
    return run


def no_program(script) -> str:
    """Return the sentence for a program that does not exist, perhaps because of its arguments."""
    first, *more = str(script).split()
    if more and os.path.exists(first):
        separately = ", ".join(f'"{word}"' for word in (first, *more))
        return f"the arguments of a program follow it one by one: run_torchrun({separately})"
    return f"there is no program {str(script)!r} to run from {os.getcwd()}"


class AgentsLaunch(Launch):
    """A launch whose ranks play machines: each runs an agent, on its machine if it has one.

    The rank itself stays outside, because it outlives its machine, like the program that starts
    agents on a cluster. What is told of a hang or an error is about the program's own ranks.
    """

    def __init__(self, count, timeout, machines, outputs):
        """Prepare the launch; `outputs` are those of ranks whose number is known beforehand."""
        super().__init__("gloo", ["cpu"] * count, [0] * count, timeout, "machine", machines)
        self.outputs, self.pipes, self.calls = outputs, [], {}
        self.is_traced, self.trace, self.findings = False, None, []

    @property
    def program(self) -> ProgramRanks:
        return ProgramRanks(self.folder / WATCH)

    def start(self, data):
        """Open a pipe for each rank's output, and start the machines."""
        if self.is_traced:
            self.program.folder.begin_traces()
        for output in self.outputs:
            pipe = self.program.folder.make_pipe(output.rank)
            self.pipes.append(pipe)
            self.selector.register(
                pipe, selectors.EVENT_READ, functools.partial(read, pipe, output)
            )
        super().start(data)

    @contextlib.contextmanager
    def reporting(self, path, program):
        """Write a report on what happens in the block, unless `path` is None."""
        if path is None:
            yield
            return
        from ..programs.report import tell_run

        self.is_traced, outcome = True, ""
        try:
            yield
        except (LaunchError, Stopped) as error:
            outcome = error.message
            raise
        finally:
            if self.trace is not None:
                self.findings = tell_run(self.trace, program, outcome, path)

    def end(self):
        if self.is_traced:
            self.trace = ProgramTrace.read(self.program.folder)
        super().end()
        for pipe, output in zip(self.pipes, self.outputs):
            output.close()
            os.close(pipe)

    def collect(self) -> Run:
        run = super().collect()
        for output in self.outputs:
            run.output[self.program.machine_of(output.rank)] += output.text
        return run

    def listen_for(self, stage, least, most, condition=None) -> bool:
        """Wait for the program's end while it makes progress, and for all else as usual."""
        if stage != RETURNED:
            return super().listen_for(stage, least, most, condition)
        self.awaited, began, printed, moved = stage, time.time(), 0, time.time()
        while not self.listen_until(self.none_is_behind, STALL_SECONDS):
            outputs = [*self.outputs, *(r.output for r in self.ranks)]
            before, printed = printed, sum(output.size for output in outputs)
            moved = time.time() if printed > before else max(moved, self.program.folder.last_beat())
            if time.time() - moved >= self.timeout:
                self.waited = time.time() - began
                return False
        return True

    def ask_where(self) -> dict:
        places, self.calls = self.program.find_places()
        return places or {0: NOT_STARTED}

    def find_calls(self) -> dict:
        return self.calls

    def build_error(self, failed, who=""):
        """Return the error of the program's rank that failed first, if one is known."""
        deaths = agent.read_deaths(self.folder.glob(f"{DEATHS}-*"))
        last_words = {output.rank: output.last_lines(3) for output in self.outputs}
        return self.program.build_error(deaths, last_words) or super().build_error(failed, who)

    def machine_of(self, rank) -> dict:
        return super().machine_of(rank) | {"network": None, "user": None, "planned": []}

    def state(self) -> State:
        return State([])


def read(pipe, output, _) -> int:
    """Read what a rank has printed; return the events to wait for next."""
    output.add(os.read(pipe, MOST_BYTES))
    return selectors.EVENT_READ


def share_port(node) -> tuple[int, dist.Store | None]:
    """Return a port, the same on all machines, and on machine 0 the store that listens on it.

    It listens only on the loopback. The store that torchrun makes would listen on every network of
    this computer, but torchrun uses a store that its process already has for that port.
    """
    ports, store = [0], None
    if node == 0:
        ports[0], store = fresh_stores.loopback_store()
    dist.broadcast_object_list(ports)
    return ports[0], store


def play_machine(program, fewest, options, is_real):
    """Play machine number RANK: do what the command `torchrun` would do on it."""
    node, count = int(os.environ["RANK"]), dist.get_world_size()
    folder = os.environ["PEDAGOGY_FOLDER"]
    own = [
        *options,
        f"--log-dir={folder}/logs-{node}",
        ENTRY,
        os.path.join(folder, WATCH),
        *program,
    ]
    if is_real:
        keep_agent(node, program[0], [*list_rendezvous_options(node, fewest, count), *own], folder)
        return
    if count == 1:
        forget_this_rank()
        fresh_stores.register()
        backend = f"--rdzv-backend={fresh_stores.NAME}"
        be_agent(program[0], ["--nnodes=1", backend, "--rdzv-endpoint=127.0.0.1", *own], folder)
        return
    port, _store = share_port(node)
    forget_this_rank()
    os.environ.update(NO_GPUS)
    static = [f"--nnodes={count}", f"--node-rank={node}", "--master-addr=127.0.0.1"]
    be_agent(program[0], [*static, f"--master-port={port}", *own], folder)


def forget_this_rank():
    """Remove the variables that mark this process as a rank, which torchrun must not see."""
    for name in ("PEDAGOGY_RANK", *VARIABLES):
        os.environ.pop(name, None)


def be_agent(program, settings, folder):
    """Run `torchrun` in this process with these arguments; raise RuntimeError if a rank fails."""
    if not agent.run(f"{folder}/{DEATHS}-{os.getpid()}", settings):
        raise RuntimeError(FAILED.format(program))


def list_rendezvous_options(node, fewest, count) -> list[str]:
    """Return the options with which agents on separate machines meet, each time at machine 0."""
    return [f"--nnodes={fewest}:{count}", "--rdzv-backend=c10d", "--rdzv-id=1",
            f"--rdzv-endpoint={address_of(0)}:{PORT}", f"--local-addr={address_of(node)}",
            f"--rdzv-conf=is_host={int(node == 0)},{QUICK}"]  # fmt: skip


def keep_agent(node, program, settings, folder):
    """Run an agent on a machine; if the machine is killed and comes back, run another one."""
    forget_this_rank()
    door, over = os.path.join(folder, "switch"), os.path.join(folder, "over")
    while True:
        while (network := ask_switch(door, "paths")["networks"][node]) is None:
            if os.path.exists(over):
                return
            time.sleep(LOOK_SECONDS)
        paths = ask_switch(door, "paths")
        own = [f"{folder}/{DEATHS}-{node}", *settings]
        status = run_agent(own, (node, len(paths["networks"]), network, paths["user"]))
        if status == 0:
            open(over, "w").close()  # agents end together, so no machine needs to come back
            return
        if ask_switch(door, "paths")["networks"][node] == network:
            raise RuntimeError(FAILED.format(program))
        print("this machine has been killed", flush=True)


def run_agent(settings, way) -> int:
    """Run torchrun on a machine, entered by `enter_machine(*way)`; return its exit status."""
    command = [sys.executable, agent.__file__, *settings]
    own = {"GLOO_SOCKET_IFNAME": CARD, "MACHINE": str(way[0])}  # ranks may change, this number not
    environ = os.environ | own | STORES | NO_GPUS
    enters = functools.partial(enter_machine, *way)
    with subprocess.Popen(command, env=environ, preexec_fn=enters) as process:
        return process.wait()
