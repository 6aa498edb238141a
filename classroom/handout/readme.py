"""The README of a handout, for students."""

from coursekit.building.chapter_texts import row
from coursekit.chapters import parts

TEXT = """# Distributed training, measured

{title}.

You need Python 3.10 or newer, `make`, and 4 GB of memory. A laptop with two cores and no GPU is
enough. On Windows, work inside WSL 2.

```sh
make lab       # sets everything up, checks this machine, and opens your notebooks
make doctor    # says what works on this machine, and how to mend what does not
make hand-in   # packs what you have written into one file, to hand in
```

The first call takes a few minutes and about 1.5 GB; with an NVIDIA GPU, PyTorch alone is a download
of 3 GB. Everything lands in `.venv`. With conda: `conda env create -f environment.yml`,
`conda activate distributed-training`, `python -m pedagogy_lib lab`.

## How to work

`make lab` copies the notebooks to `work/`. Open these: the files in `notebooks/` stay as they came.
Some exercises are functions in a notebook's cell, others are functions in a file of `labs/`. Each
has a hole, `...  # your code here`. The text says what to write there.

`check("{number}")` tries your answer on many cases. If it is wrong, the check says in which case,
and often which mistake it may be. `hint("{number}")` gives a hint; call it again for the next one.

Later cells use what you write in `labs/`. Where a function is still missing, a cell stops and names
the exercise that comes first; the cells behind it wait for its results, too.

{needed}## A newer version of this handout

Leave your folder as it is, and call there, with the new folder or zip:

```sh
.venv/bin/python -m pedagogy_lib update path/to/the-new-one.zip
```

What you have written is taken over, function by function, and each is told. All files that
are replaced are kept in a folder with the day in its name.

## Handing in

`make hand-in NAME="your name"` writes one zip with your labs, your notebooks, and what the checks
have found. It lists what is still unwritten. Without `NAME` it takes the name of your account.

## What is in it

| | you write | and measure | minutes |
|---|---|---|---|
{rows}

| folder | what it holds |
|---|---|
| `notebooks/` | the parts above, with holes where the exercises are |
| `work/` | your copies of them, made by `make lab` |
| `labs/` | the algorithms as programs, with holes; each also runs under `torchrun` |
| `pedagogy_lib/`, `coursekit/` | the bench: launch ranks, measure, draw; predictions, checks |
| `chapters/` | the checks of the exercises, packed |
| `reports/` | `make report`: an HTML page on what this machine does with each collective |

MIT licence.
"""
WRITE_FIRST = """Labs build on each other. Before the exercises of these parts, write {numbers}:
what to write is in the docstrings in `labs/`, and `check("{first}")` tries it. Labs have holes of
other parts, too: these can wait.

"""
CAN_WAIT = "Labs have holes of other parts, too: these can wait.\n\n"
NOT_HERE = """A part or a chapter that the text names without a link is not in this handout.

"""


def readme_of(contents, numbers) -> str:
    """Return the README.  numbers  those of all exercises in the handout"""
    title = "All chapters" if contents.is_whole else format_parts(contents.names)
    others = [number for number in numbers if number not in contents.own]
    rows = [row(part, "notebooks") for part in parts().values() if part.stem in contents.parts]
    first = [number for number in contents.first if number in numbers]
    needed = CAN_WAIT if others else ""
    if first:
        needed = WRITE_FIRST.format(numbers=join_words(first), first=first[0])
    needed += "" if contents.is_whole else NOT_HERE
    own = next((n for n in numbers if n not in others), "")
    return TEXT.format(title=title, rows="\n".join(rows), needed=needed, number=own)


def format_parts(names) -> str:
    """Return parts' names as their notebooks have them: `06` is the first part of chapter 06."""
    kind = "Chapter" if names[0].isdigit() else "Part"
    return (
        f"{kind}{'s' * (len(names) > 1)} {join_words([name.removesuffix('a') for name in names])}"
    )


def join_words(words) -> str:
    """Join words as in `2.6, 2.7 and 3.2`."""
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last
