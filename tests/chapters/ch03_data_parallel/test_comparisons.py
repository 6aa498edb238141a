"""Two ways are compared fairly, and a sentence about them needs a clear difference."""

import torch
from helpers import load_solved_lab

LARGE, SERVER, WORTH, SCALING = map(
    load_solved_lab, ("large_batches", "parameter_server", "worth_of_bytes", "scaling")
)  # fmt: skip
SPREAD = [0.009, 0.01, 0.011]


def few_digits():
    chance = torch.Generator().manual_seed(0)
    images = torch.rand(96, 64, dtype=torch.float64, generator=chance)
    labels = torch.randint(10, (96,), generator=chance)
    return images, labels, images[:10], labels[:10]


def test_the_small_batch_is_trained_at_the_rate_from_which_the_rules_set_out():
    data = few_digits()
    tried = LARGE.try_rates(data, LARGE.SMALL, 4)
    found = LARGE.try_batches(data, [LARGE.SMALL, 2 * LARGE.SMALL], 4, 0.2)
    small = LARGE.group_by_rule(found, 0)
    for rule in LARGE.RULES:
        assert torch.tensor(small[rule][LARGE.SMALL]).allclose(torch.tensor(tried[0.2]))
    assert LARGE.rate_at("linear", 0.2, 2 * LARGE.SMALL, 0) == 0.4
    assert LARGE.tune_rates(data, [LARGE.SMALL], 4)[LARGE.SMALL] == (
        LARGE.best_of(tried), tried[LARGE.best_of(tried)])  # fmt: skip


def test_a_seed_gives_the_same_start_and_batches_to_each_way():
    ways = {"one": lambda progress: 0.1, "other": lambda progress: 0.1}
    found = LARGE.train(few_digits(), 8, 2, ways, seeds=3)
    one, other = (torch.tensor(found[way], dtype=torch.float64) for way in ways)
    torch.testing.assert_close(one, other, rtol=1e-12, atol=0)
    assert len({loss for loss, _ in found["one"]}) == 3


def test_a_rule_breaks_only_far_above_the_small_batch():
    losses = {"constant": {32: SPREAD, 64: [0.02] * 3, 128: [0.03] * 3},
              "linear": {32: SPREAD, 64: [0.01, 0.02, 0.03], 128: [0.6, 0.9, 1.4]}}  # fmt: skip
    said = LARGE.describe_rule(losses)
    assert "from a batch of 128 on" in said
    assert "those of the constant rate: none" in said
    losses["linear"] |= {64: [0.01, 0.012, 0.013], 128: [0.02, 0.03, 0.04]}
    assert "with all batches" in LARGE.describe_rule(losses)
    losses["linear"][128] = [0.6, 0.9, 1.4]
    assert "those of the constant rate: 64" in LARGE.describe_rule(losses)


def test_models_under_adam_take_the_steps_of_torch_optim_adam():
    images, labels, *_ = few_digits()
    rates = torch.tensor([0.01, 0.02], dtype=torch.float64)
    models = LARGE.AdamModels([0, 1])
    copies = [[w[k].detach().clone().requires_grad_() for w in models.weights] for k in (0, 1)]
    adams = [torch.optim.Adam(of, lr=rate.item()) for of, rate in zip(copies, rates)]
    for x, y in zip(images.split(7), labels.split(7)):  # the last batch is smaller
        models.step(models.losses(x.expand(2, -1, -1), y.expand(2, -1)), rates)
        for (first, bias, last, last_bias), adam in zip(copies, adams):
            adam.zero_grad()
            scores = (x @ first + bias).relu() @ last + last_bias
            torch.nn.functional.cross_entropy(scores, y).backward()
            adam.step()
    for k in (0, 1):
        for weight, copy in zip(models.weights, copies[k]):
            torch.testing.assert_close(weight[k], copy, rtol=0, atol=1e-12)


def test_the_square_root_rule_and_the_tuned_rates_set_out_from_the_small_batch():
    assert LARGE.rate_at("square root", 0.01, 4 * LARGE.SMALL, 0) == 0.02
    losses, tuned = LARGE.try_adam(few_digits(), [LARGE.SMALL, 2 * LARGE.SMALL], 2)
    for rule in LARGE.ADAM_RULES:
        assert torch.tensor(losses[rule][LARGE.SMALL]).allclose(torch.tensor(tuned[LARGE.SMALL][1]))


def test_only_seeds_that_do_not_overlap_make_one_rule_better():
    losses = {"root": {32: SPREAD, 64: [0.1, 0.2], 128: [0.5, 0.6]},
              "linear": {32: SPREAD, 64: [0.3, 0.4], 128: [0.55, 0.7]}}  # fmt: skip
    said = LARGE.compare_seeds(losses, "root", "linear")
    assert said.endswith("linear rule: 64; above them: none.")
    losses["linear"][128] = [0.3, 0.4]
    assert LARGE.compare_seeds(losses, "root", "linear").endswith("64; above them: 128.")


def test_at_the_best_rate_seeds_that_overlap_are_not_called_apart():
    tuned = {32: (0.2, SPREAD), 1024: (0.8, [0.1, 0.2, 0.3])}
    assert "from 1024 on" in LARGE.describe_best(tuned)
    assert "All its seeds end above" in LARGE.describe_best(tuned)
    tuned[1024] = 0.8, [0.01, 0.2, 0.3]
    assert "Not all its seeds end above" in LARGE.describe_best(tuned)


def races(*losses):
    return {(way, rate): {"loss": loss} for way, of_way in zip(("BSP", "ASP"), losses)
            for rate, loss in zip((1, 2, 3), of_way)}  # fmt: skip


def test_a_best_rate_at_the_end_of_the_list_is_reported():
    assert "end of the list" not in SERVER.who_is_ahead(races((3, 1, 2), (2, 1, 3)), (1, 2, 3))
    said = SERVER.who_is_ahead(races((3, 2, 1), (2, 1, 3)), (1, 2, 3))
    assert "BSP's best rate is at the end of the list" in said
    assert "ASP's" not in said


def test_ways_whose_seeds_overlap_are_not_told_apart():
    def curves(*ends):
        return [{0: 9.0, 10: end} for end in ends]

    low, high = {"low": curves(1, 2)}, {"high": curves(3, 4), "both": curves(2, 3)}
    assert WORTH.compare_ends(low, "low", high, "high") == "All seeds end lower with “low”."
    assert WORTH.compare_ends(high, "high", low, "low") == "All seeds end lower with “low”."
    assert WORTH.compare_ends(low, "low", high, "both") == "No clear difference."


def test_the_fastest_is_named_only_with_a_margin_over_all_others():
    judge = SCALING.judge_fastest
    assert judge({"ZeRO-1": "quicker", "FSDP2": "quicker"}) == "right here"
    undecided = {"ZeRO-1": "no difference seen here", "FSDP2": "quicker"}
    assert judge(undecided) == "not decided by time here"
    assert judge({"ZeRO-1": "slower", "FSDP2": "quicker"}) == "depends"


def rounds(factor):
    return [factor * seconds for seconds in (1.0, 1.2, 0.9, 1.0, 1.1)]


def test_a_longer_step_on_more_ranks_needs_a_margin():
    strong = {1: rounds(1.0), 4: rounds(0.5), 8: rounds(0.6)}
    times = {"strong": strong, "weak": strong}
    said = SCALING.how_it_scaled(times, times)
    assert "the shortest step is on 4 ranks, and on 8 it is longer again." in said
    strong[8] = rounds(0.52)
    assert "no difference seen here between 4, 8 ranks." in SCALING.how_it_scaled(times, times)
    strong |= {2: rounds(0.52), 4: rounds(0.5), 8: rounds(0.6)}
    said = SCALING.how_it_scaled(times, times)
    assert "between 2, 4 ranks, and on 8 it is longer again." in said
    assert max(map(len, said.splitlines())) <= 90


def test_computing_is_longer_than_an_all_reduce_only_if_it_clearly_is():
    steps = {1: rounds(0.5), 4: rounds(1.05), 16: rounds(2.0)}
    predicted = {samples: min(times) for samples, times in steps.items()}
    said = SCALING.what_limits(steps, rounds(1.0), predicted, predicted, 0.9)
    assert "from 16 samples on" in said


def test_the_share_that_is_hidden_most_of_the_time_leaves_out_lucky_rounds():
    network = 2 * 7 / 8 * SCALING.model_bytes() / 1e6
    times = [1 + share * network for share in (0.0, 0.5, 0.6, 0.7, 0.8)]
    fastest, mostly = SCALING.compute_overlap_share([1.0, 1.1], times, 8, 1e6)
    assert (round(fastest, 6), round(mostly, 6)) == (1.0, 0.5)


def test_options_that_rounds_do_not_tell_apart_are_all_named():
    describe = load_solved_lab("ddp_options").describe_quickest
    assert describe(["a", "b"], [rounds(1.0), rounds(1.5)]) == "a"
    assert (
        describe(["a", "b"], [rounds(1.05), rounds(1.0)]) == "no difference seen here between b, a"
    )


def test_all_ways_are_named_whose_seeds_overlap_with_those_of_the_lowest_median():
    ends = {"all-reduce": (0.08, 0.11, 0.2), "within": (0.15, 0.16), "worse": (0.3, 0.4)}
    losses = {way: [{0: 1.0, 100: end} for end in of_way] for way, of_way in ends.items()}
    same = dict.fromkeys(ends, 1)
    said = WORTH.what_was_found(losses, same, same, 100).splitlines()
    assert said[:2] == ["After 100 steps: loss 0.11 with all-reduce; 0.11 at best, with",
                        "    all-reduce / within"]  # fmt: skip
