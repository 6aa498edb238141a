"""Every exercise on ranks that is made of facts: each mistake in its tables is told as itself.

The solution runs once; what its ranks have found is then replaced by what a mistake would give.
"""

import copy
from dataclasses import replace

import pytest
import torch
import torch.distributed as dist
from answer_files import exercises_of_kind, label_exercise, load_solution
from selection import parametrize

from coursekit.answers import remote_answer
from coursekit.kit import Equals, RankCase, RankExercise, World
from coursekit.protocol import Wrong

EXERCISES = exercises_of_kind(RankExercise)


@parametrize("exercise", EXERCISES, quick=30, ids=label_exercise)
def test_each_mistake_is_told_as_itself(exercise, solution_labs):
    never_told = {}
    for trial in exercise.trials(load_solution(exercise)):
        exercise.judge(trial)
        for fact in exercise.facts:
            if isinstance(fact, Equals) and trial.collect_values(fact.name) is not None:
                for sentence, said in yield_mistakes(exercise, fact, trial):
                    never_told.setdefault(sentence, []).append(said)
    untold = {s: said for s, said in never_told.items() if s not in said}
    assert not untold


def test_a_rank_that_is_done_with_a_case_has_returned(monkeypatch):
    def wait_for_nobody():
        if dist.get_rank() == 1:
            dist.recv(torch.zeros(1), src=0)

    monkeypatch.setattr(remote_answer, "TIMEOUT_SECONDS", 1.0)
    work = lambda answer, group, case: {"value": answer()}  # noqa: E731
    exercise = RankExercise("wait", [RankCase(World(2))], work, [], right="", hints=())
    with pytest.raises(Wrong, match="1 of 2 ranks had returned"):
        list(exercise.examine(wait_for_nobody))


def test_a_peer_in_a_group_is_a_rank_of_the_world(monkeypatch):
    def wait_for_each_other():
        dist.recv(torch.zeros(1), src=2 - dist.get_rank())

    monkeypatch.setattr(remote_answer, "TIMEOUT_SECONDS", 1.0)
    work = lambda answer, group, case: {"value": answer()}  # noqa: E731
    exercise = RankExercise("wait", [RankCase(World(3, (0, 2)))], work, [], right="", hints=())
    with pytest.raises(Wrong, match=r"recv\(float32\[1\], src=2\).*recv\(float32\[1\], src=0\)"):
        list(exercise.examine(wait_for_each_other))


def test_a_generator_is_not_what_is_asked():
    work = lambda answer, group, case: {"value": answer()}  # noqa: E731
    exercise = RankExercise("count", [RankCase(World(2))], work, [], right="", hints=())
    with pytest.raises(Wrong, match="cannot be looked at: cannot pickle 'generator'") as caught:
        list(exercise.examine(lambda: (x for x in range(3))))
    assert "of a generator, its list" in caught.value.why


def yield_mistakes(exercise, fact, trial):
    """Yield each mistake that shows in this case, and what is said of it."""
    tables = [fact.mistakes(trial, place) for place in range(trial.n)]
    truths = [fact.truth(trial, place) for place in range(trial.n)]
    # Computed once: some train a model for each sentence.
    fact = replace(
        fact, truth=lambda _, place: truths[place], mistakes=lambda _, place: tables[place]
    )
    for sentence in dict.fromkeys(sentence for table in tables for sentence in table):
        changed = replace(trial, found=list(map(copy.copy, trial.found)))
        for of_rank, table in zip(changed.found, tables):
            if sentence in table:
                setattr(of_rank, fact.name, table[sentence])
        try:
            fact(changed)
        except Wrong as wrong:
            yield sentence, wrong.why
        else:
            yield sentence, "nothing: here it is right"
