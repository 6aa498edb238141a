"""A model that is split over ranks says the same, letter for letter, as one process's."""

import pytest
import torch
import torch.distributed as dist
from helpers import load_solved_lab
from selection import parametrize

from pedagogy_lib import RankError, launch, measure
from pedagogy_lib.basics.closeness import relative_gap, rounding

DECODING, TENSOR, MODELS = map(load_solved_lab, ("decoding", "tensor_parallel", "language_model"))
SIZES = {
    "plain": {"width": 32, "heads": 4},
    "two queries for a key": {"width": 32, "heads": 8, "kv_heads": 4},
    "four queries for a key, tied": {"width": 32, "heads": 16, "kv_heads": 4, "tied": True},
}
BEGINNINGS = {
    "plain": ("d", "def ", "import torch\n\nclass "),
    "two queries for a key": ("for i",),
    "four queries for a key, tied": ("if ",),
}
LETTERS, SAMPLES, WIDTH, LAYERS = 12, 3, 32, 2


def make_model(sizes):
    """Weights so large that what it says does not repeat itself at once."""
    torch.manual_seed(0)
    model = MODELS.Transformer(**sizes).double()
    with torch.no_grad():
        for p in model.blocks.parameters():
            p *= 4
    return model


@torch.no_grad()
def batch_and_scores(model):
    """Several texts; the scores of what follows their first 4 letters, 5 letters, …"""
    letters = MODELS.draw_batch(MODELS.standard_library(5_000), SAMPLES, 0)[0][:, :8]
    return letters, model(letters).unbind(1)[3:]


@pytest.fixture(scope="module")
def reference():
    """From one process: {model: (texts, batch and scores)}."""
    models = {name: make_model(sizes) for name, sizes in SIZES.items()}
    return {
        name: (
            [MODELS.continue_text(model, beginning, LETTERS) for beginning in BEGINNINGS[name]],
            batch_and_scores(model),
        )
        for name, model in models.items()
    }


def decode_split(name, letters, scores):
    """What the split model says; how far its scores are from these; the bytes of its cache."""
    split = TENSOR.parallelize(make_model(SIZES[name]))
    texts = [DECODING.decode(split, beginning, LETTERS) for beginning in BEGINNINGS[name]]
    gap, kept = gap_of_scores(split, letters, scores)
    return texts, gap, kept


@torch.no_grad()
def gap_of_scores(split, letters, scores):
    """With a cache: four letters together, then one after another."""
    cache, gaps = DECODING.empty_cache(split, SAMPLES), []
    places = [(0, 4), *((i, i + 1) for i in range(4, letters.shape[1]))]
    for (before, until), of_all in zip(places, scores, strict=True):
        mine = DECODING.logits_of_next(split, letters[:, before:until], cache, before)
        of_mine = of_all.split(split.output.weight.cut_sizes, -1)[dist.get_rank()]
        gaps.append(relative_gap(mine, of_mine))
    return max(gaps), sum(room.nbytes for room in cache)


def say_all(batches):
    return {name: decode_split(name, *batch) for name, batch in batches.items()}


@parametrize("n", [3, 1, 2, 4], quick=2)
def test_says_what_one_process_says(reference, n):
    batches = {name: batch for name, (_, batch) in reference.items()}
    run = launch(say_all, batches, world_size=n, device="cpu")
    for found in run.values:
        assert {name: texts for name, (texts, *_) in found.items()} == {
            name: texts for name, (texts, _) in reference.items()
        }
        off = {name: gap for name, (_, gap, _) in found.items() if gap > rounding()}
        assert not off, f"logits differ, as a share of the largest: {off}"
    heads = [len(part) for part in torch.arange(4).tensor_split(n)]  # of keys, on each rank
    for name, size in {"plain": 8, "two queries for a key": 4}.items():
        kept = [LAYERS * 2 * SAMPLES * own * MODELS.CONTEXT * size * 8 for own in heads]
        assert [found[name][2] for found in run.values] == kept


def test_what_is_said_has_different_letters(reference):
    for texts, _ in reference.values():
        for text in texts:
            assert len(set(text[-LETTERS:])) > 5


def limits():
    model, found = TENSOR.parallelize(MODELS.Transformer(32, context=12)), []
    found.append(len(DECODING.decode(model, "def ", 8)))
    found.append(DECODING.decode(model, "def ", 0))
    for beginning, letters in (("def ", 9), ("", 3), (12 * "-", 1)):
        try:
            found.append(DECODING.decode(model, beginning, letters))
        except ValueError as error:
            found.append(str(error)[:32])
    return found


def test_more_tokens_than_the_context_are_refused():
    refused = "give from 1 to 12 tokens in all:"
    for found in launch(limits, world_size=2, device="cpu").values:
        assert found == [12, "def ", refused, refused, refused]


def equals_argmax():
    """Also where scores are equal, on one rank or on several; with uneven shares of letters."""
    torch.manual_seed(0)
    rank, n, right = dist.get_rank(), dist.get_world_size(), []
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for highest in (2, 100):
            scores = torch.randint(-highest, highest, (50, 128)).to(dtype)
            sizes = TENSOR.part_sizes(128, n)
            mine = scores.split(sizes, -1)[rank]
            found = DECODING.likeliest(mine, sum(sizes[:rank]))
            right.append(torch.equal(found, scores.argmax(-1)))
    return right


@pytest.mark.parametrize("n", [1, 3])
def test_the_likeliest_letter_is_the_first_with_the_highest_score(n):
    assert launch(equals_argmax, world_size=n, device="cpu").values == [[True] * 6] * n


def one_letter():
    model = TENSOR.parallelize(MODELS.Transformer(WIDTH, LAYERS))
    letters = torch.zeros(1000, 1, dtype=torch.long)
    cache = DECODING.empty_cache(model, len(letters), 1)
    with torch.no_grad(), measure("letter"):
        scores = DECODING.logits_of_next(model, letters, cache)
        DECODING.likeliest(scores, 0)


@pytest.mark.parametrize("n", [2, 4])
def test_messages_for_one_letter(n):
    run, samples = launch(one_letter, world_size=n, device="cpu"), 1000
    summed = samples * WIDTH * 4
    for calls, sent in zip(run["letter"].calls, run["letter"].sent_bytes):
        assert [call.name for call in calls] == ["all_reduce"] * (2 * LAYERS + 1) + ["all_gather"]
        assert [call.tensor_bytes for call in calls[:-1]] == [summed] * (2 * LAYERS + 1)
        theory = 2 * (n - 1) / n * summed * (2 * LAYERS + 1) + (n - 1) * 2 * 8 * samples
        assert sent == pytest.approx(theory, rel=0.02)


@torch.no_grad()
def decode_far():
    whole, text = make_long_model(), torch.tensor([list(b"def ")])
    for _ in range(100):
        text = torch.cat([text, whole(text)[:, -1].argmax(-1, keepdim=True)], dim=1)
    said = DECODING.decode(TENSOR.parallelize(make_long_model()), "def ", 100)
    return said, bytes(text[0].tolist()).decode()


def make_long_model():
    torch.manual_seed(0)
    model = MODELS.Transformer(width=16, heads=2, context=2 * MODELS.CONTEXT).double()
    with torch.no_grad():
        for p in model.blocks.parameters():
            p *= 4
    return model


def test_a_model_that_sees_more_than_the_usual_context_is_decoded_to_the_end():
    for said, wanted in launch(decode_far, world_size=2, device="cpu").values:
        assert said == wanted


def test_a_cache_without_room_is_refused():
    def overfill():
        model = TENSOR.parallelize(make_long_model())
        DECODING.logits_of_next(model, torch.zeros(1, 5, dtype=torch.int64),
                                DECODING.empty_cache(model, context=4))  # fmt: skip

    with pytest.raises(RankError, match="room for 4 tokens, and these are 5"):
        launch(overfill, world_size=1)
