"""Answers that attack: each is contained, gets the verdict that it deserves, and harms no other.

All run in one student's sandbox, one after another, so that each finds what those before it left.
"""

import contextlib

import needs
import pytest
from hostile_answers import HONEST_ANSWER, Grounds, all_attacks, verdict_on
from walls_here import USABLE, processes_of

from classroom.sandbox import Limits, open_sandbox
from coursekit.kit import diagnoses

ATTACKS = all_attacks()
WAYS = [way for way in USABLE if way != "other user"] or ["none"]  # the network of that is open
pytestmark = needs.mark("walls")
LIMITS = Limits(
    seconds=20.0,
    memory_bytes=1024 * 2**20,
    disk_bytes=128 * 2**20,
    processes=300,
)


def cases():
    for way in WAYS:
        for attack in ATTACKS:
            is_quick = attack.is_early and way == WAYS[0]
            marks = [pytest.mark.deep] * (not is_quick)
            yield pytest.param(way, attack, id=f"{way} {attack.name}", marks=marks)


@pytest.fixture(scope="module")
def grounds(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagnoses, "MAY_FAIL", True)  # as outside of the tests
        patch.setenv("SECRET_OF_THE_GRADER", "SECRET_OF_THE_GRADER")
        grounds = Grounds(tmp_path_factory.mktemp("teacher"))
        yield grounds
        grounds.close()


@pytest.fixture(scope="module")
def place_of():
    """A function that gives a way's sandbox, which stays open."""
    places, users = {}, set()
    with contextlib.ExitStack() as stack:

        def place_of(way):
            if way not in places:
                places[way] = stack.enter_context(open_sandbox({}, way, LIMITS))
            users.add(places[way].connection.walled.user)  # another one after each that has died
            return places[way]

        yield place_of
    assert processes_of(users) == []


@pytest.mark.parametrize(("way", "attack"), list(cases()))
def test_it_is_contained_and_the_next_answer_unharmed(way, attack, grounds, place_of):
    place = place_of(way)
    verdict = verdict_on(place, grounds.build_preamble() + attack.text)
    assert grounds.state() == grounds.before
    assert grounds.guests() == []
    if attack.deserves != "any":
        assert bool(verdict.passed) == (attack.deserves == "right"), verdict
    assert "root:x:0" not in f"{verdict.wrong}{verdict}"  # a line of /etc/passwd
    assert len(place.read_output()) < 2 * LIMITS.printed_bytes
    assert verdict_on(place, HONEST_ANSWER).passed
    place_of(way)
