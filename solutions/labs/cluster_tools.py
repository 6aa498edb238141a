# Built from chapters/ch03_data_parallel/labs/cluster_tools.py by `make build`.
"""A cluster's tools for a job that hangs: py-spy, a server in each rank, and torchfrtrace.

torchrun --nproc-per-node 4 labs/cluster_tools.py     lets torchfrtrace read three mistakes
"""

import contextlib
import gc
import http.client
import importlib.util
import io
import json
import logging
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch.distributed as dist
from when_it_hangs import RIDDLE, draw_ranks, error_of, new_group, observe_mistake, train

ANALYZER = "torch.distributed.flight_recorder.fr_trace"  # the module behind `torchfrtrace`
TOLD = ("Not all ranks joining", "missing ranks", "Collective sequence number", "Culprit")

# ---- Another process's stack ---------------------------------------------------------------------

COLORS = re.compile(r"\x1b\[\d*m")  # a terminal's codes for colours


def py_spy(pid) -> str:
    """Return py-spy's report on the main thread of another process, or why there is none."""
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return "py-spy is not installed: pip install py-spy"
    done = subprocess.run(
        [program, "dump", "--pid", str(pid)], capture_output=True, text=True, check=False,
        env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    if done.returncode:
        return f"py-spy may not look into process {pid}: {done.stderr.strip().splitlines()[-1]}"
    stack = COLORS.sub("", done.stdout)
    return "\n".join(stack[stack.index('"MainThread"') :].splitlines()[:4])


# ---- A server in each rank -------------------------------------------------------------------


@contextlib.contextmanager
def serve_rank(folder):
    """Answer questions about this rank, over HTTP, through a socket in a folder."""
    from torch.distributed.elastic.control_plane import worker_main  # not in all versions

    os.environ["TORCH_WORKER_SERVER_SOCKET"] = str(socket_of(folder, dist.get_rank()))
    with worker_main():
        yield


def socket_of(folder, rank) -> Path:
    return Path(folder, f"rank{rank}.sock")


class SocketConnection(http.client.HTTPConnection):
    """A connection through a socket in a folder instead of a port."""

    def __init__(self, path):
        super().__init__("localhost", timeout=5)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def ask(folder, rank, question) -> str:
    """Return a rank's answer to a question of PyTorch's server, such as "dump_traceback", or ""."""
    connection = SocketConnection(socket_of(folder, rank))
    connection.request("POST", f"/handler/{question}")
    with connection.getresponse() as answer:
        text = answer.read().decode()
        return text if answer.status == 200 else ""


def train_and_serve(mistake, guilty, folder):
    """Train with a mistake and a long timeout, while a server in this process answers questions."""
    group = new_group(seconds=60)
    with serve_rank(folder):
        error_of(train, group, mistake, guilty)
        dist.barrier()  # of the world, which is in step


def ask_all(folder, world_size, after=0.8) -> list[list[str]]:
    """Return a row per rank, once training hangs: where it stands, and its last call.

    after  seconds from the moment at which all servers are ready
    """
    if missing := why_no_server(folder):
        return [[rank, missing, ""] for rank in range(world_size)]
    end = time.monotonic() + 20
    while not all(socket_of(folder, rank).exists() for rank in range(world_size)):
        if time.monotonic() > end:
            raise TimeoutError("the ranks' servers have not begun to answer")
        time.sleep(0.01)
    time.sleep(after)
    return [[rank, place_in(ask(folder, rank, "dump_traceback")),
             last_call_in(ask(folder, rank, "fr_trace_json"))]
            for rank in range(world_size)]  # fmt: skip


def why_no_server(folder) -> str:
    """Return why ranks cannot serve here, or ""."""
    is_known = importlib.util.find_spec("torch.distributed.elastic.control_plane")
    if not is_known or not hasattr(socket, "AF_UNIX"):
        return "this PyTorch or this system has no such server"
    return "the folder's path is too long" if len(str(socket_of(folder, 100))) > 100 else ""


def place_in(stacks) -> str:
    """Return the innermost line of the labs in the stacks of a process: `file:line, function`."""
    found = re.search(r'File "[^"]*/labs/(\w+\.py)", line (\d+) in (\w+)', stacks)
    return f"{found[1]}:{found[2]}, {found[3]}" if found else "this PyTorch does not tell"


def last_call_in(record) -> str:
    """Return the last recorded call that is not in the world's group: `8 all_reduce [2]`."""
    calls = [entry for entry in json.loads(record or "{}").get("entries", [])
             if entry["process_group"][1] != "default_pg"]  # fmt: skip
    if not calls:
        return "this PyTorch does not tell"
    call = calls[-1]
    name = call["profiling_name"].partition(":")[2]
    return f"{call['collective_seq_id']} {name} {next(iter(call['input_sizes']), [])}"


# ---- torchfrtrace ----------------------------------------------------------------------------


def analyze(recorded) -> dict[str, str]:
    """Return {run: the lines in which torchfrtrace tells what is wrong in it}.

    recorded  {run: the whole record of each rank, as from `read_record`}
    """
    if not has_analyzer():
        return dict.fromkeys(recorded, "this PyTorch comes without torchfrtrace")
    reports = {}
    with tempfile.TemporaryDirectory() as folder:
        for run, records in recorded.items():
            write_records(Path(folder, run), records)
            reports[run] = summarize(torchfrtrace(f"{folder}/{run}", "-p", "trace_"))
    return reports


def torchfrtrace(*arguments) -> str:
    """Return what the program torchfrtrace prints for these arguments; it runs in this process."""
    told = io.StringIO()
    with contextlib.redirect_stderr(told):
        program = importlib.import_module(ANALYZER)
    logging.getLogger("Flight Recorder").handlers = [logging.StreamHandler(told)]
    try:
        program.main(arguments)
    except (AssertionError, LookupError, ValueError) as error:  # its reader of another version
        told.write(f"torchfrtrace could not read these records: {error!r:.60}")
    finally:
        gc.enable()  # which it has disabled
    return told.getvalue()


def write_records(folder, records):
    """Write a file for each rank, in the form in which ranks with NCCL write theirs.

    Gloo leaves the members of groups out of its records, and torchfrtrace needs them.
    """
    folder.mkdir()
    everybody = str(list(range(len(records))))
    for rank, record in enumerate(records):
        groups = {tuple(entry["process_group"]) for entry in record["entries"]}
        known = {name: {"name": name, "desc": words, "ranks": everybody} for name, words in groups}
        Path(folder, f"trace_{rank}").write_bytes(pickle.dumps(record | {"pg_config": known}))


def summarize(report) -> str:
    """Return the lines of a report that name a call or a rank, shortened."""
    text = report.replace(", Culprit", "\nCulprit").replace("error msg: ", "")
    lines = [shorten(line) for line in text.splitlines() if line.startswith(TOLD)]
    return "\n".join(lines) or text.strip()[-300:] or "it has found nothing"


def has_analyzer() -> bool:
    try:
        return importlib.util.find_spec(ANALYZER) is not None
    except ModuleNotFoundError:
        return False


def shorten(line) -> str:
    """Shorten a line of torchfrtrace: `Culprit rank 1: expected [[68]], found [[2]]`."""
    culprit = re.match(r"(Culprit rank \d+).*Expected [^:]*: '(.*?)'.*found [^:]*: '(.*?)'", line)
    return "{}: expected {}, found {}".format(*culprit.groups()) if culprit else line[:88]


# ---- As a program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch

    guilty, recorded = draw_ranks(int(os.environ["WORLD_SIZE"]), RIDDLE), {}
    for mistake, rank in guilty.items():
        run = launch(observe_mistake, mistake, rank)
        recorded[mistake] = [one["record"] for one in run.values]
    if run.rank == 0:
        for mistake, told in analyze(recorded).items():
            print(f"{mistake}, rank {guilty[mistake]}:\n{told}")


if __name__ == "__main__":
    main()
