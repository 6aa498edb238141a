"""The common parts of the pictures of all films: frames by their number, titles, descriptions.

A film has `frames`, and each frame has an `event`. Every rank goes at its own pace and has its own
film; frames with the same number, from 1 on, belong together. Where a rank has fewer frames, its
last one is shown instead.
"""

from ..basics.errors import need
from .legends import legend_below, outline_sample


def last_number(films, number, call) -> int:
    """Return the number of the last frame; raise LaunchError if no frame has this `number`."""
    last = max(len(film.frames) for film in films)
    need(1 <= number <= last, f"{call} has frames 1 to {last} of this step, not {number}")
    return last


def frame_of(film, number):
    return film.frames[min(number, len(film.frames)) - 1]


def frames_of(films, number) -> list:
    return [frame_of(film, number) for film in films]


def title_of(films, number, last) -> str:
    """Return a title, `3 of 12: what has just happened`; if ranks differ, that of rank 0."""
    events = [frame.event for frame in frames_of(films, number)]
    event = events[0] if len(set(events)) == 1 else f"on rank 0, {events[0]}"
    return f"{number} of {last}: {event}"


def label_events(frames) -> list[str]:
    """Return ` (what has happened)` for each rank, or "" if it is the same on all ranks."""
    is_common = len({frame.event for frame in frames}) == 1
    return ["" if is_common else f" ({frame.event})" for frame in frames]


def describe_ranks(frames, texts) -> str:
    """Describe what each rank shows, with `texts` after the ranks' names."""
    events = label_events(frames)
    ranks = [f"rank {r}{event}{text}" for r, (event, text) in enumerate(zip(events, texts))]
    return f"Ranks go at their own pace, matched by number. {'. '.join(ranks)}."


def headings(names, characters) -> list[str]:
    """Return names on one line if all fit, else on two, the module above, each cut on the left."""
    if max(map(len, names)) <= characters:
        return names
    parts = [name.rpartition(".")[::2] for name in names]
    return [f"{end_of(module, characters)}\n{end_of(own, characters)}" for module, own in parts]


def end_of(text, characters) -> str:
    return text if len(text) <= characters else "…" + text[1 - characters :].lstrip(".")


def legend(figure, patches, note):
    """Draw a legend of the colours and the outline, under a note on the texts in the boxes."""
    legend_below(figure, patches | {"has just changed": outline_sample()}, title=note)
