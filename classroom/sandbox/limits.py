"""`Limits`: how much a student's code may use."""

import resource
from dataclasses import asdict, dataclass

MEGABYTE = 2**20


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use, with everything that runs in it.

    seconds          of wall time, for one call of an answer; the grader's end of the pipe keeps it
    seconds_in_all   the same, for all calls of one answer together
    compute_seconds  of a processor, for one process
    memory_bytes     of all processes together; for one process, of what it allocates
    processes        threads count as well
    disk_bytes       of each of the two places that can be written, /tmp and /dev/shm; they are in
                     memory. Also of one file
    printed_bytes    that are kept; what is printed beyond them is thrown away
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
        """{resource of setrlimit(2): limit}

        No limit on address space: four ranks map far more than they use. What a process may
        allocate (RLIMIT_DATA) is 220 MB after `import torch`, beside 640 MB of address space.
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
