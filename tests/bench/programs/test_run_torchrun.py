"""Programs that torchrun starts: run as they are, and told of at their own ranks and lines."""

import re

import pytest
from helpers import environment

from pedagogy_lib import HangError, LaunchError, RankError, run_torchrun

TIMEOUT = 4.0

HEAD = """
import os, sys, time
import torch, torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()

def step():
    dist.all_reduce(torch.ones(3))

"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a program, of which `HEAD` is the beginning."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])

    def run_program(text, *arguments, head=HEAD, **settings):
        (tmp_path / "program.py").write_text(head + text)
        return run_torchrun("program.py", *arguments, **{"timeout": TIMEOUT} | settings)

    return run_program


HANGS = [
    ("rank == 0 and step()\ntime.sleep(1000)", {0: "all_reduce", 1: "asleep"}, "Rank 1 is asleep"),
    ("while rank == 1: pass\nstep()", {0: "all_reduce", 1: ""}, "Rank 1 is still at work, in no c"),
    ("rank == 1 and sum(range(10**13))\nstep()", {0: "all_reduce", 1: ""}, "Rank 1 is still at wo"),
    (
        "for i in range(5):\n    rank == 1 and i == 4 and dist.barrier()\n    step()",
        {0: "all_reduce", 1: "barrier"},
        "Collective 5 of the group of all ranks is all_reduce(float32[3]) on rank 0, but barrier(",
    ),
]


@pytest.mark.parametrize(("text", "operations", "advice"), HANGS)
def test_a_hang_is_told_at_the_lines_of_the_programs_ranks(run, text, operations, advice):
    with pytest.raises(HangError) as caught:
        run(text)
    error = caught.value
    assert {rank: place.operation for rank, place in error.waits.items()} == operations
    assert advice in error.advice
    assert "0 of 2 ranks had returned" in str(error)
    assert "torch/distributed/elastic" not in str(error)


def test_a_rank_that_does_not_join_is_seen_before_torch_is_imported(run):
    head = "import os, time\nif os.environ['RANK'] == '1': time.sleep(1000)\n"
    with pytest.raises(HangError) as caught:
        run("", head=head + HEAD)
    assert caught.value.waits[0].operation == "init_process_group"
    assert caught.value.waits[1].source().endswith("time.sleep(1000)")


FAILURES = [
    ("raise KeyError('nope')", "rank 1 raised KeyError: 'nope'", "raise KeyError('nope')"),
    ("sys.exit(7)", "rank 1 raised SystemExit: 7", "sys.exit(7)"),
    ("sys.exit(0)", "rank 1 has ended its program, while other ranks still waited", "sys.exit(0)"),
    ("print('so far'); os.kill(os.getpid(), 9)", "rank 1 was killed by SIGKILL", None),
    ("print('so far'); os._exit(3)", "rank 1 ended with exit code 3 before its program end", None),
]


@pytest.mark.parametrize(("text", "what", "line"), FAILURES)
def test_the_rank_that_failed_first_is_told_and_the_others_as_a_consequence(run, text, what, line):
    with pytest.raises(RankError) as caught:
        run(f"for i in range(9):\n    if (rank, i) == (1, 5): {text}\n    step()")
    error = caught.value
    assert (error.rank, str(error).startswith(what)) == (1, True)
    assert error.place.source().endswith(line) if line else "| so far" in str(error), str(error)
    assert re.search(r"others failed:\n  rank 0: .*program\.py:9, in step\(\)", str(error))


def test_arguments_reach_the_program_one_by_one(run):
    assert run("print(sys.argv)", "--lr", 0.1, nproc_per_node=1).output == [
        "['program.py', '--lr', '0.1']\n"
    ]
    with pytest.raises(LaunchError, match=r'one by one: run_torchrun\("program.py", "--lr", "1"\)'):
        run_torchrun("program.py --lr 1")


AS_IT_IS = """
import pickle, sys
assert "torch" not in sys.modules  # so that variables which torch reads can still be set
import torch, torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, index):
        return index

if __name__ == "__main__":
    import __main__
    numbers = DataLoader(Numbers(), num_workers=1, multiprocessing_context="spawn")
    assert [one.item() for one in numbers] == [0, 1]
    assert pickle.loads(pickle.dumps(Numbers())).__class__ is Numbers
    print(__file__, __main__.__file__, sys.path[0], __main__.__spec__)
"""


def test_a_program_is_its_own_main_module(run, tmp_path):
    (said,) = run(AS_IT_IS, head="", nproc_per_node=1, timeout=60).output
    path = str(tmp_path / "program.py")
    assert said.split() == [path, path, str(tmp_path), "None"]


def test_output_has_the_rank_that_printed_it(run, capsys):
    (said,) = run("print('I am', rank)\nprint('and', rank, file=sys.stderr)").output
    shown = capsys.readouterr().out.splitlines()
    for rank in range(2):
        assert f"[rank {rank}] I am {rank}" in shown and f"[rank {rank}] and {rank}" in shown
    assert sorted(said.split()) == sorted(["I", "am", "0", "and", "0", "I", "am", "1", "and", "1"])


@pytest.mark.deep
def test_progress_is_given_more_time(run):
    loop = "until = time.time() + 6\nwhile time.time() < until:\n    time.sleep(0.5)\n    "
    run(loop + "step()", timeout=2.0)
    run(loop + "print('goes on')", timeout=2.0)
    with pytest.raises(HangError):
        run(loop + "pass", timeout=2.0)
