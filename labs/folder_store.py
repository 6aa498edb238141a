# Built from chapters/ch04_failure_and_recovery/labs/folder_store.py by `make build`.
"""A store in a folder that a process cannot damage by dying in the middle of a call.

torchrun --nproc-per-node 4 labs/folder_store.py
"""

import contextlib
import itertools
import os
import shutil
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import torch
import torch.distributed as dist

LOOK_SECONDS = 0.002  # from one look to the next
OPEN = []  # keeps this process's stores alive, because groups that use them do not


class FolderStore(dist.Store):
    """A torch.distributed store for processes that see the same folder.

    A value consists of pieces, and each piece is a file. A piece is written under a temporary name
    and gets its own name in one step. That step fails if such a file exists already, except in
    `set`, which replaces it. A process that is killed in between leaves behind a file that nobody
    reads. In torch's FileStore, which appends to one file, half an entry holds up all that read it.

    Equals  dist.FileStore(file, -1), as long as no process dies; but a key is either set, or
            appended to, or added to, which add(key, 0) reads, and delete_key and num_keys do not
            exist
    """

    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        OPEN.append(self)

    def append(self, key, value) -> None:
        self.put(key, value)

    def compare_set(self, key, expected, desired) -> bytes:
        """Set a key that does not exist yet, if "" is expected; return its value afterwards."""
        if expected not in ("", b""):
            raise NotImplementedError('compare_set of a FolderStore expects ""')
        with contextlib.suppress(FileExistsError), self.write_temporary(desired) as name:
            os.link(name, self.piece(key, 0))
        return self.get(key)

    def set(self, key, value) -> None:
        with self.write_temporary(value) as name:
            os.replace(name, self.piece(key, 0))

    def add(self, key, number) -> int:
        last = self.put(key, f"{number} ")
        pieces = itertools.takewhile(lambda pair: pair[0] <= last, enumerate(self.pieces(key)))
        return sum(int(text) for _, text in pieces)

    def get(self, key) -> bytes:
        self.wait([key])
        return b"".join(self.pieces(key))

    def check(self, keys) -> bool:
        return all(self.piece(key, 0).exists() for key in keys)

    def wait(self, keys, timeout=None) -> None:
        until = time.monotonic() + (timeout or self.timeout).total_seconds()
        while not self.check(keys):
            if time.monotonic() > until:
                raise dist.DistStoreError(f"wait timeout: nobody has set {', '.join(keys)}")
            time.sleep(LOOK_SECONDS)

    def has_extended_api(self) -> bool:
        return False

    # ---- Files ---

    def piece(self, key, number) -> Path:
        return self.folder / f"{quote(key, safe='')}.{number}"

    def pieces(self, key):
        """Yield all pieces of a key, in order."""
        for number in itertools.count():
            try:
                yield self.piece(key, number).read_bytes()
            except FileNotFoundError:
                return

    def put(self, key, value) -> int:
        """Add a piece after all existing ones; return its number."""
        with self.write_temporary(value) as name:
            for number in itertools.count():
                with contextlib.suppress(FileExistsError):
                    os.link(name, self.piece(key, number))
                    return number

    @contextlib.contextmanager
    def write_temporary(self, value):
        """Write this value to a file that no process reads, and yield its name."""
        data = value.encode() if isinstance(value, str) else memoryview(value)
        handle, name = tempfile.mkstemp(dir=self.folder, prefix=".")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            yield name
        finally:
            with contextlib.suppress(FileNotFoundError):  # it has been renamed
                os.unlink(name)


# ---- The program ----------------------------------------------------------------------------


def program() -> tuple[list[int], float]:
    """Announce each rank in a store, and form a group through it."""
    made = [tempfile.mkdtemp(prefix="store-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(made)
    rank, n, store = dist.get_rank(), dist.get_world_size(), FolderStore(made[0])
    store.append("came", f"{rank},")
    while store.get("came").count(b",") < n:
        time.sleep(LOOK_SECONDS)
    dist.destroy_process_group()
    dist.init_process_group(
        "gloo", store=dist.PrefixStore("group 1", store), rank=rank, world_size=n
    )
    ones = torch.ones(3)
    dist.all_reduce(ones)
    came = sorted(map(int, store.get("came").decode().split(",")[:-1]))
    dist.barrier()
    shutil.rmtree(made[0], ignore_errors=True)
    return came, ones[0].item()


def main():
    from pedagogy_lib import launch

    run = launch(program, device="cpu")
    if run.rank == 0:
        came, total = run.values[0]
        print(f"came: {came}; in the group that they formed, ones add up to {total:g}")


if __name__ == "__main__":
    main()
