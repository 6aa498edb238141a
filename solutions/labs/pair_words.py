# Built from chapters/ch07_tensor_parallel/labs/pair_words.py by `make build`.
"""A frame of a `PairFilm` in words: the remark above its picture, and its alt text."""

from pair_frames import GRADIENTS, KINDS
from placements import PARTIAL, REPLICATE, SHARD

from pedagogy_lib.basics.units import format_minus, short_bytes, two_digits
from pedagogy_lib.pictures.frame_pictures import frame_of, frames_of, label_events

OTHERS = " One process has other numbers."


def remark_on(films, number) -> str:
    """Say what was sent in this frame and what it changed, or else what the ranks have now."""
    frames = frames_of(films, number)
    in_all = max(sum(bytes_of(frame) for frame in film.frames[:number]) for film in films)
    so_far = f"Sent so far: {short_bytes(in_all)} by each rank."
    if any(frame.sent for frame in frames):
        sent = short_bytes(max(bytes_of(frame) for frame in frames))
        wrong = OTHERS if is_wrong(look_up_matrix(frames[0], *frames[0].new[-1])) else ""
        return f"Each rank sends {sent}{addition_in(films, number)}.{wrong} {so_far}"
    news = [news_of(frames[0], kind, matrix) for kind, matrix in frames[0].new]
    return f"{' '.join(news)} {so_far}"


def bytes_of(frame) -> int:
    return sum(count for _, count in frame.sent)


def name_in(frame, kind, matrix) -> str:
    """Return the name of the matrix that a column shows: before the activation, H is X A."""
    return "XA" if matrix == "H" and kind in frame.inner else matrix


def news_of(frame, kind, matrix) -> str:
    """Say in a sentence which parts of a new matrix the ranks have."""
    name, held = name_in(frame, kind, matrix), look_up_matrix(frame, kind, matrix)
    name = f"the gradient of {name}" if kind == GRADIENTS else name
    says = {
        REPLICATE: f"Each rank has the same {name.removeprefix('the ')}.",
        SHARD: f"Each rank has a part of {name}.",
        PARTIAL: f"Each rank has a summand of {name}; only the sum is right.",
        None: f"Ranks differ in {name}, and it is not their sum either.",
    }
    return says[held.placement] + (OTHERS if held.placement and is_wrong(held) else "")


def is_wrong(held) -> bool:
    return held.placement is None or not held.is_right


def addition_in(films, number) -> str:
    """Return `: 1 + 2 = 3 and so on (summands: frame 5)` if summands were added, else no text."""
    kind, matrix = frame_of(films[0], number).new[-1]
    earlier = max(number - 1, 1)
    before = [look_up_matrix(frame_of(film, earlier), kind, matrix) for film in films]
    after = look_up_matrix(frame_of(films[0], number), kind, matrix)
    if not all(before) or after.placement != REPLICATE or len(films) == 1:
        return ""
    columns = zip(*(flat(held) for held in before), flat(after))
    places = [(summands, result) for *summands, result in columns]
    if not all(is_sum(*place) for place in places):
        return ""
    summands, result = max(places, key=lambda place: sum(map(bool, place[0])))
    more = [f"{'−' if value < 0 else '+'} {format_cell(abs(value))}" for value in summands[1:4]]
    added = " ".join([format_cell(summands[0]), *more, *["+ …"] * (len(summands) > 4)])
    return f": {added} = {format_cell(result)} and so on (summands: frame {earlier})"


def is_sum(summands, result) -> bool:
    return abs(sum(summands) - result) <= 1e-4 * max(map(abs, summands))


def flat(held) -> list[float]:
    return [number for row in held.values for number in row]


def format_cell(number) -> str:
    """Write a number with few digits: `−0.25`, `12.5`, or `3` without a point if it is whole."""
    if abs(number) >= 1000:
        return two_digits(number)
    digits = 0 if number == int(number) else 2 if abs(number) < 10 else 1
    return format_minus(f"{number:.{digits}f}")


def look_up_matrix(frame, kind, matrix):
    return getattr(frame, kind).get(matrix)


def placement_text(held) -> str:
    if held.placement is None:
        return "differs by rank"
    by = "" if held.placement != SHARD else f" by {cut_into(held)}"
    return f"{held.placement}{by}" if held.is_right else f"{held.placement}{by}, wrong"


def cut_into(held) -> str:
    return "columns" if len(held.values) == held.shape[0] else "rows"


def describe_frames(frames) -> str:
    """Describe each rank's matrices, and its event where that is not the same on every rank."""
    ranks = []
    for rank, (event, frame) in enumerate(zip(label_events(frames), frames)):
        parts = [
            describe_matrix(frame, kind, matrix, held)
            for kind in KINDS
            for matrix, held in getattr(frame, kind).items()
        ]
        ranks.append(f"Rank {rank}{event} has {'; '.join(parts)}.")
    return " ".join(ranks)


def describe_matrix(frame, kind, matrix, held) -> str:
    """Describe a matrix as in `gradient of X Partial (new) [0.50 1 / 2 3]`."""
    name = ("gradient of " if kind == GRADIENTS else "") + name_in(frame, kind, matrix)
    new = " (new)" if (kind, matrix) in frame.new else ""
    return f"{name} {placement_text(held)}{new} {numbers_of(held)}"


def numbers_of(held) -> str:
    """Write a matrix's numbers as in `[0.50 1 / 2 3]`, or only the size of a large matrix."""
    if sum(map(len, held.values)) > 32:
        return f"({len(held.values)} × {len(held.values[0])} numbers)"
    return f"[{' / '.join(' '.join(map(format_cell, row)) for row in held.values)}]"
