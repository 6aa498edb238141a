"""The matches in a handout that a person has judged not to be answers, with the reasons."""

import re

# (a pattern of the file, a pattern of whose piece it is, a pattern of the text, the reason)
REVIEWED = [
    (r".", r".", r"^(\w+, \w+) = \(dist\.get_rank\(group\), dist\.get_world_size\(group\)\)$",
     "how every program of the course begins"),
    (r".", r".", r"\[torch\.empty_like\(\w+\) for _ in range\(dist\.get_world_size\(group\)\)\]$",
     "what torch.distributed.all_gather asks for, in its own documentation"),
    (r".", r".", r"^(flat = )?torch\.cat\(\[\w+\.reshape\(-1\) for \w+ in \w+\]\)$",
     "how every lab makes one tensor of several"),
    (r".", r"of part_of_loss$", r"F\.cross_entropy\(\w+\.flatten\(0, 1\), targets\.flatten\(\)\)",
     "the loss that is given: asked is how much a part of it counts"),
    (r".", r"of (my_samples|house_gradients|tree_seconds|stragglers|fit_line|share_in_order|ways|"
     r"walk)$", r".",
     "a step on the way of one mistake, which is also one on the way to many other things"),
    (r".", r"of (groups_along|expert_parameters)$", r"^\w+, \w+ = ",
     "two names for what two functions give"),
    (r".", r"orthogonalize_by_owner$",
     r"^(\w+ = )?\{\w+: \w+\(\w+\) for \w+, \w+ in \w+\.items\(\)\}$",
     "a function of each value of a dict: asked is which rank calls it, and for what"),
    (r".", r"of route_within_nodes$", r"^\[\w+ \+ \w+ for \w+, \w+ in zip\(\w+, \w+\)\]$",
     "the sums of two lists, entry by entry"),
    # Labs and notebooks
    (r"labs/gradient_accumulation\.py", r"average_gradients$|backward_tokens$", r".",
     "no gradient counts as zeros, and tokens are counted: the statements say both, asked is what "
     "the ranks do with them"),
    (r"notebooks/03d_", r"03d_not_each_time\.py", r".",
     "the program with its bug, as it was published: asked is what is wrong with it"),
    (r"labs/cost_seconds\.py|labs/collectives_measured\.py|reports/machine\.py|"
     r"pedagogy_lib/measuring/|coursekit/kit/",
     r"03h_a_server|of (sent_bytes|card_bytes|exchange_seconds)$", r".",
     "the bench counts by the rings' formula where no kernel counts, and so does the model "
     "of cost of chapter 10: part 02c tells it, before it is asked"),
    (r"labs/half_precision\.py|/bytes_by_kind/", r"05_memory\.py bytes_by_kind", r".",
     "a list of an optimizer's tensors: asked is what kinds there are, and how many bytes"),
    (r"/bytes_by_kind/", r"of kept_by_block$", r".", "each storage once, in whatever is measured"),
    (r"labs/fsdp2_program\.py", r"06i_an_fsdp2_program", r".",
     "a program of chapter 10, with a bug: asked in 06i are the settings around it"),
    (r"notebooks/09g_", r"09c_which_axis", r".", "three sizes of a mesh, with short names"),
    (r"labs/planner\.py", r"10_choosing|of ways$", r"\[d for d in range",
     "all divisors of a number"),
    (r"notebooks/10d_", r"10d_small_alpa\.py ways", r".", "all powers of two up to a number"),
    (r"labs/what_fits\.py", r"of ways$", r".", "all powers of two up to a number"),
    (r"labs/keep_training\.py", r"chaos\.py", r".",
     "04e's engine asks its crew so; asked in 04g is a loop around the step"),
    (r"labs/counted_over_ranks|/backward_tokens/", r"counted_over_ranks\.py", r"flatten",
     "logits and targets as the loss takes them: asked is by what it is divided"),
    (r"labs/counted_over_ranks", r"07b_the_pair", r"\.clone\(\)",
     "a sum over the ranks that leaves what it gets as it is: asked is the pair of operators"),
    (r"labs/sharded_checkpoints", r"03b_samples_of_its_own", r"optimizer\.zero_grad",
     "the first lines of any step"),
    (r"notebooks/03g_", r"03c_inside_ddp", r"weight\.grad",
     "the mean of a gradient: asked in 3.10 is what averages something else, and too often"),
    (r"labs/gradient_accumulation\.py", r"gradient_accumulation\.py", r"count_tokens",
     "tokens of all micro-batches, for a loss that the lab shows"),
    (r"labs/pipeline_engines\.py", r"pipeline_parallel\.py receive", r"peer|self\.rank",
     "who comes before or after a rank in a pipeline"),
    (r"labs/placed_pipelines\.py", r"pipeline_parallel\.py receive", r".",
     "another engine's buffers, with other messages"),
    (r"labs/prefetch\.py", r"prefetch\.py need", r".",
     "the engine without prefetching, which the exercise improves"),
    (r"labs/(uneven_stages|train_fsdp2)\.py", r"three_dimensions\.py step|train_ddp\.py", r".",
     "one call of an engine, whose documentation names it"),
    (r"notebooks/06f_|/reduce_hybrid/", r"average_over_copies", r".", "one tensor of several"),
    (r"labs/two_houses\.py|notebooks/01_", r"of house_gradients$", r".",
     "the loss, which the text states: asked is its gradient"),
    (r"notebooks/09f_", r"of visible$", r"tril", "the mask of one process, which the text shows"),
    (r"labs/uneven_stages\.py", r"of models_sent$", r".", "a mean"),
    (r"labs/(capstone_state|checkpoints)\.py", r"checkpoints\.py is_whole", r"LIST",
     "a checkpoint's list is read, as beside the exercise: asked is what makes one whole"),
    (r"labs/vocabulary_pipeline", r"average_gradients$", r"\.grad",
     "no gradient counts as zeros: asked in 3.1 is the mean"),
    (r"labs/wide\.py|notebooks/07g_", r"sum_in_flight$", r"async_op",
     "a call for each piece: asked in 2.3 is a tensor for each sum, and a wait for each call"),
    (r"notebooks/09f_", r"of pairs_per_rank$", r"mine \+ 1",
     "pairs without documents, which the text counts: asked is their number with documents"),
    (r"notebooks/09f_", r"of shares$", r"repeat_interleave",
     "a number for each entry of a list of lengths"),
    # Checks
    (r"/accumulate_sharded/", r"06i_an_fsdp2_program", r"fully_shard\(unit, mesh=mesh\)$",
     "each unit and then the model, as in FSDP2's documentation: asked are the settings of both"),
    (r"/compiled_step/", r"train_and_validate$", r"\.item\(\) for", "the losses of some batches"),
    (r"ch02_.*/misconceptions", r"chunk_to_send", r"\(rank - root\) % n",
     "a rank's place in a tree, which 2.3 states; the chunk of a ring has a step in its place"),
    (r"/sent_bytes/", r"of sent_bytes$", r".", "it measures what torch's collectives send"),
    (r"/loss_factor/", r"of loss_factor$", r"losses\.mean\(\) / n",
     "how much a sample counts in what DDP averages, which the text says: asked is a factor"),
    (r"/flatten_padded/", r"of flatten_padded$", r"is_shared",
     "what is looked at in an answer's tensor"),
    (r"/kept_by_block/", r"of (best_period|kept_by_block)$", r".",
     "it measures a block; what a mistake adds or leaves out says nothing of what is right"),
    (r"/make_buckets/", r"of make_buckets$", r"shape|size", "tensors that the answer is tried on"),
    (r"/newest_common/", r"of newest_common$", r"Step", "how a value is told"),
    (r"/flatten_padded/", r"of flatten_padded$", r"describe", "what is looked at in a result"),
    (r"/cut_fused/", r"of cut_fused$", r".", "names of rows, which the text states"),
    (r"/dropped_mlp/", r"gradients_of", r".", "the gradients of some tensors by their names"),
    (r"/best_size/", r"of best_size$", r"samples % size == 0", "which sizes the text allows"),
    (r"/ring_attention/", r"of zigzag$", r"chunk\(n\)", "pieces in a row, which the text shows"),
    (r"/contradictions/", r"of contradictions$", r".", "a row of numbers to try"),
    (r"/find_numbers/", r"of find_numbers$", r"describe|looks|raises|got = function",
     "what is looked at in a result"),
    (r"/find_numbers/", r"of find_numbers$", r"wanted\.tolist",
     "when a ValueError is asked, which the text says"),
    (r"ch02_.*/two_levels|/serve_as_they_come/|/gather/", r"of stragglers$", r"enumerate",
     "the numbers of those of which something is true"),
]  # fmt: skip


def reason(found) -> str:
    """Return why a match is not an answer, or "" if nobody has judged it."""
    return next((why for file, whose, text, why in REVIEWED
                 if re.search(file, found.file) and re.search(whose, found.piece.whose)
                 and re.search(text, found.text)), "")  # fmt: skip


def find_unreviewed_leaks(found) -> list:
    """Return the matches that nobody has judged: each has to go, or needs a reason here."""
    return [one for one in found if not reason(one)]
