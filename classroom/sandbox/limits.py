"""The limits of what a student's code may use."""

import resource
from dataclasses import asdict, dataclass

MEGABYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """The most that one sandbox may use, with everything that runs in it.

    seconds          of wall time, for one call of an answer; kept by the grader's end of the pipe
    seconds_in_all   the same, for all calls of one answer together
    compute_seconds  of a processor, for one process
    memory_bytes     of all processes together; for one process, of what it allocates
    processes        threads count as well
    disk_bytes       of each place that can be written, /tmp, /dev/shm and the cells' folder, which
                     are in memory; and of one file
    printed_bytes    that are kept; output beyond them is discarded
    """

    seconds: float = 120.0
    seconds_in_all: float = 600.0
    compute_seconds: int = 600
    memory_bytes: int = 4096 * MEGABYTE
    processes: int = 512
    open_files: int = 1024
    disk_bytes: int = 512 * MEGABYTE
    printed_bytes: int = MEGABYTE

    def build_rlimits(self) -> dict[int, int]:
        """Return {resource of setrlimit(2): limit}.

        Address space has no limit, because four ranks map far more than they use. After
        `import torch`, a process has 220 MB that RLIMIT_DATA counts, and 640 MB of address space.
        """
        return {
            resource.RLIMIT_CPU: self.compute_seconds,
            resource.RLIMIT_DATA: self.memory_bytes,
            resource.RLIMIT_NPROC: self.processes,
            resource.RLIMIT_NOFILE: self.open_files,
            resource.RLIMIT_FSIZE: self.disk_bytes,
            resource.RLIMIT_CORE: 0,
            resource.RLIMIT_MEMLOCK: 8 * MEGABYTE,
            resource.RLIMIT_MSGQUEUE: MEGABYTE // 2,
        }

    def dump_fields(self) -> dict:
        return asdict(self)
