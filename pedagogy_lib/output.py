"""What ranks print: shown live with its rank, and kept complete; and a launch's progress."""

import sys
import time

LIVE_LINES = 100  # per rank; a rank that prints for ever must not drown the notebook
LIVE_BYTES = 2_000  # per line
KEPT_BYTES = 2_000_000  # per rank
PROGRESS_AFTER_SECONDS = 2.0


class Output:
    """The text of one rank."""

    def __init__(self, rank, noun="rank"):
        self.rank = rank
        self.prefix = f"[{noun} {rank}]"
        self.kept = bytearray()
        self.rest = b""
        self.lines_shown = 0

    def add(self, data: bytes):
        self.kept += data[: KEPT_BYTES - len(self.kept)]
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            self.show(line)
        if len(self.rest) > 10_000:
            self.close()

    def show(self, line: bytes):
        if self.lines_shown < LIVE_LINES:
            more = " …" if len(line) > LIVE_BYTES else ""
            print(f"{self.prefix} {line[:LIVE_BYTES].decode(errors='replace')}{more}")
        elif self.lines_shown == LIVE_LINES:
            print(f"{self.prefix} … prints more; the rest is in run.output[{self.rank}]")
        self.lines_shown += 1

    def close(self):
        """Show what the rank printed last without ending the line."""
        if self.rest:
            self.show(self.rest)
            self.rest = b""

    def last_lines(self, count) -> list[str]:
        return self.kept[-10_000:].decode(errors="replace").strip().splitlines()[-count:]

    @property
    def text(self) -> str:
        cut = "\n… (cut)" if len(self.kept) >= KEPT_BYTES else ""
        return self.kept.decode(errors="replace") + cut


class Progress:
    """One line that says a long launch is alive; it disappears when the launch ends."""

    def __init__(self):
        self.began = time.perf_counter()
        self.handle = None
        self.shown_at = 0.0

    def tick(self, done, world_size):
        now = time.perf_counter()
        if now - self.began < PROGRESS_AFTER_SECONDS or now - self.shown_at < 1.0:
            return
        self.shown_at = now
        seconds = now - self.began
        self.show(f"{seconds:.0f} s: {done} of {world_size} ranks have returned …")

    def show(self, text):
        if "IPython" in sys.modules and someone_watches():
            from IPython.display import Pretty, display

            content = Pretty(text)
            if self.handle is None:
                self.handle = display(content, display_id=True)
            else:
                self.handle.update(content)
        elif sys.stderr.isatty():
            self.handle = self.handle or True
            print(f"\r{text}\033[K", end="", file=sys.stderr, flush=True)

    def close(self):
        if self.handle is not None:
            self.show("")


def someone_watches() -> bool:
    """Whether a person could answer: false in nbval, nbclient, papermill and pipes."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    kernel = getattr(shell, "kernel", None)
    if kernel is not None:
        return bool(getattr(kernel, "_allow_stdin", False))
    return sys.stdin is not None and sys.stdin.isatty()
