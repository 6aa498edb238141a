"""The socket between a notebook and its fork server, as the notebook sees it."""

import os
import selectors


def identity_of(connection) -> tuple[int, int] | None:
    """What the kernel calls the file behind a socket's number; None if there is none."""
    try:
        stat = os.fstat(connection.fileno())
    except (OSError, ValueError):
        return None
    return stat.st_dev, stat.st_ino


def has_come(connection, seconds) -> bool:
    """Whether there is something to read, at once or within that time."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(seconds))


class LineReader:
    """Splits what arrives on a socket into lines."""

    def __init__(self, connection):
        self.connection, self.rest = connection, b""

    def read(self, on_close) -> list[str]:
        try:
            data = self.connection.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            on_close()
        *lines, self.rest = (self.rest + data).split(b"\n")
        return [line.decode() for line in lines]
