# Built from chapters/ch03_data_parallel/labs/threads_and_processes.py by `make build`.
"""The number of cores that two jobs use at the same time, in two Python threads or processes.

torchrun --nproc-per-node 2 labs/threads_and_processes.py
"""

import time
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist

TWO = 1.7  # this many cores count as two, because the second job begins a little later


def python_work():
    return sum(i * i for i in range(1_500_000))


def torch_work():
    x = torch.ones(500, 500)
    for _ in range(16):
        x @ x


def cores_used(job, seconds=8.0) -> dict:
    """Measure on each of two ranks the most cores that two jobs use at the same time.

    That is their CPU seconds divided by the seconds on the clock. In each round, both jobs first
    run in two threads of rank 0, then one on each rank. Other programs can only make it smaller, so
    rounds go on until two cores were free often enough to tell, or `seconds` are over.

    Returns  {"threads": cores, "processes": cores, "ran": how the threads ran, in words}
    """
    torch.set_num_threads(1)  # one job computes on one core
    threads, processes, until = [], [], time.perf_counter() + seconds  # only rank 0's matter
    while everybody(not can_tell(threads, processes) and time.perf_counter() < until)[0]:
        if dist.get_rank() == 0:
            threads.append(cores_of([clock(run_two_threads, job)]))
        dist.barrier()
        processes.append(cores_of(everybody(clock(job))))
    most = max(threads, default=0.0), max(processes, default=0.0)
    return {"threads": most[0], "processes": most[1], "ran": how_threads_ran(*most)}


def everybody(mine) -> list:
    """Return the values of all ranks, on every rank."""
    said = [None] * dist.get_world_size()
    dist.all_gather_object(said, mine)
    return said


def can_tell(threads, processes, rounds=3) -> bool:
    """Return whether two cores were free in some rounds, and threads used two or had many tries."""
    free = sum(cores >= TWO for cores in processes)
    return free >= rounds and (max(threads, default=0) >= TWO or len(threads) >= 3 * rounds)


def clock(work, *args) -> tuple[float, float, float]:
    """Time `work(*args)`: return when it began and ended, and the CPU seconds of this process."""
    began, cpu = time.perf_counter(), time.process_time()
    work(*args)
    return began, time.perf_counter(), time.process_time() - cpu


def cores_of(spans) -> float:
    """Return the CPU seconds of all spans, divided by the seconds from first begin to last end."""
    begins, ends, cpu = zip(*spans)
    return sum(cpu) / (max(ends) - min(begins))


def do(job):
    job()


def run_two_threads(job):
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(do, [job, job]))


def how_threads_ran(threads, processes) -> str:
    """Describe how threads ran, from the most cores that two jobs used in threads and processes."""
    if processes < TWO:
        return "cannot tell here: no two cores were free"
    if threads >= TWO:
        return "side by side"
    return "in turn" if threads < 1.2 else "cannot tell here"


# ---- The program ----------------------------------------------------------------------------


def main():
    from pedagogy_lib import launch

    for job in (python_work, torch_work):
        run = launch(cores_used, job, 2.0, world_size=2)
        if run.rank == 0:
            found = run.values[0]
            print(f"{job.__name__}: {found['threads']:.2f} cores in two threads, "
                  f"{found['processes']:.2f} in two processes; {found['ran']}")  # fmt: skip


if __name__ == "__main__":
    main()
