"""Stands in for a sandbox's driver: evaluates each line that it reads, and answers with a line."""

import os
import sys

hear, say = map(int, sys.argv[2:4])
space = {"os": os, "sys": sys}
for line in os.fdopen(hear):
    try:
        answer = repr(eval(line, space))
    except BaseException as error:
        answer = f"{type(error).__name__}: {error}"
    os.write(say, f"{answer}\n".encode())
