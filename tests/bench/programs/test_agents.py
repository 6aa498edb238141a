"""Agents of torchrun that play machines: what they say at their end."""

import logging
from pathlib import Path

from pedagogy_lib.programs import agent


def test_the_last_agents_complaint_about_the_first_is_left_out():
    """torch's own message, which comes now and then; everything else stays."""
    logger = logging.getLogger(agent.LOG)
    said = [
        ("Error waiting on exit barrier. Elapsed: %s seconds", 0.003, False),
        ("failed (exitcode: %s) local_rank: 0", 1, True),
    ]
    for message, argument, stays in said:
        record = logger.makeRecord(logger.name, logging.ERROR, "", 0, message, (argument,), None)
        assert agent.is_no_farewell(record) is stays


def test_the_logger_is_the_one_that_complains():
    import torch.distributed.elastic.agent.server.api as api

    assert api.logger.name == agent.LOG
    assert "exit barrier" in Path(api.__file__).read_text()
