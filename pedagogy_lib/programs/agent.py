"""torchrun's agent on one machine, which also notes how its ranks died.

It is started as `agent.py FILE torchrun's arguments…`, and writes the deaths into that file.
"""

import json
import logging
import sys

LOG = "torch.distributed.elastic.agent.server.api"


def run(file, settings) -> bool:
    """Run `torchrun` in this process; return False, with the deaths in `file`, if a rank failed."""
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import main as torchrun

    logging.getLogger(LOG).addFilter(is_no_farewell)
    try:
        torchrun(settings)
    except ChildFailedError as error:
        deaths = [(rank, one.exitcode, one.timestamp) for rank, one in error.failures.items()]
        with open(file, "w") as out:
            json.dump(deaths, out)
        return False
    return True


def is_no_farewell(record) -> bool:
    """Return whether a log record is no complaint of an agent whose peers have already gone."""
    return "exit barrier" not in record.getMessage()  # where agents wait for each other at the end


def read_deaths(files) -> list[tuple[int, int, float]]:
    """Return (rank, exit status, system's time) of each death that agents have noted."""
    return [tuple(death) for file in files for death in json.loads(file.read_text())]


if __name__ == "__main__":
    sys.exit(not run(sys.argv[1], sys.argv[2:]))
