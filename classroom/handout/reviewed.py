"""What the search finds in a handout and a person has judged to be no answer, with the reason."""

import re

CHECK = "pedagogy_lib/exercises/ch"
# (a pattern of the file, a pattern of whose piece it is, a pattern of the text, the reason)
REVIEWED = [
    (r".", r".", r"^(\w+, \w+) = \(dist\.get_rank\(group\), dist\.get_world_size\(group\)\)$",
     "how every program of the course begins"),
    (r".", r".", r"\[torch\.empty_like\(\w+\) for _ in range\(dist\.get_world_size\(group\)\)\]$",
     "what torch.distributed.all_gather asks for, in its own documentation"),
    (r".", r".", r"^(flat = )?torch\.cat\(\[\w+\.reshape\(-1\) for \w+ in \w+\]\)$",
     "how every lab makes one tensor of several"),
    (r".", r"of 8\.8$", r"F\.cross_entropy\(\w+\.flatten\(0, 1\), targets\.flatten\(\)\)",
     "the loss that is given: asked is how much a part of it counts"),
    (r".", r"of (0\.3|1\.1|2\.2|4\.8|10\.7|10\.9|10\.14|10\.21)$", r".",
     "a step on the way of one mistake, which is also one on the way to many other things"),
    (r".", r"of (9\.2|9\.14)$", r"^\w+, \w+ = ", "two names for what two functions give"),
    # Labs and notebooks
    (r"notebooks/03d_", r"03d_not_each_time\.py", r".",
     "the program with its bug, as it was published: asked is what is wrong with it"),
    (r"labs/cost_seconds\.py|labs/collectives_measured\.py|reports/machine\.py|"
     r"pedagogy_lib/(measuring|exercises/kit)/", r"03h_a_server|of (2\.9|2\.14|3\.17)$", r".",
     "the bench counts by the rings' formula where no kernel counts, and so does the model "
     "of cost of chapter 10: part 02c tells it, before it is asked"),
    (r"labs/half_precision\.py|ch05/ex01_", r"05_memory\.py bytes_by_kind", r".",
     "a list of an optimizer's tensors: asked is what kinds there are, and how many bytes"),
    (r"ch05/ex01_", r"of 5\.7$", r".", "each storage once, in whatever is measured"),
    (r"labs/fsdp2_program\.py", r"06i_an_fsdp2_program", r".",
     "a program of chapter 10, with a bug: asked in 06i are the settings around it"),
    (r"notebooks/09g_", r"09c_which_axis", r".", "three sizes of a mesh, with short names"),
    (r"labs/planner\.py", r"10_choosing|of 10\.14$", r"\[d for d in range",
     "all divisors of a number"),
    (r"notebooks/10d_", r"10d_small_alpa\.py ways", r".", "all powers of two up to a number"),
    (r"labs/what_fits\.py", r"of 10\.14$", r".", "all powers of two up to a number"),
    (r"labs/keep_training\.py", r"chaos\.py", r".",
     "04e's engine asks its crew so; asked in 04g is a loop around the step"),
    (r"labs/counted_over_ranks|ch03/ex15_", r"counted_over_ranks\.py", r"flatten",
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
    (r"notebooks/06f_|ch09/ex09_", r"average_over_copies", r".", "one tensor of several"),
    (r"labs/two_houses\.py|notebooks/01_", r"of 1\.1$", r".",
     "the loss, which the text states: asked is its gradient"),
    (r"notebooks/09f_", r"of 9\.24$", r"tril", "the mask of one process, which the text shows"),
    (r"labs/uneven_stages\.py", r"of 6\.15$", r".", "a mean"),
    (r"labs/capstone_state\.py", r"checkpoints\.py is_whole", r"LIST",
     "a checkpoint's list is read, as beside the exercise: asked is what makes one whole"),
    # Checks
    (f"{CHECK}02/misconceptions", r"chunk_to_send", r"\(rank - root\) % n",
     "a rank's place in a tree, which 2.3 states; the chunk of a ring has a step in its place"),
    (f"{CHECK}02/ex09_", r"of 2\.9$", r".", "it measures what torch's collectives send"),
    (f"{CHECK}03/ex01_", r"of 3\.1$", r"losses\.mean\(\) / n",
     "how much a sample counts in what DDP averages, which the text says: asked is a factor"),
    (f"{CHECK}06/ex02_", r"of 6\.2$", r"is_shared", "what is looked at in an answer's tensor"),
    (f"{CHECK}05/ex07_", r"of (4\.5|5\.7)$", r".",
     "it measures a block; what a mistake adds or leaves out says nothing of what is right"),
    (f"{CHECK}03/ex07_", r"of 3\.7$", r"shape|size", "tensors that the answer is tried on"),
    (f"{CHECK}04/ex15_", r"of 4\.15$", r"Step", "how a value is told"),
    (f"{CHECK}06/ex02_", r"of 6\.2$", r"describe", "what is looked at in a result"),
    (f"{CHECK}07/ex10_", r"of 7\.10$", r".", "names of rows, which the text states"),
    (f"{CHECK}07/ex14_", r"gradients_of", r".", "the gradients of some tensors by their names"),
    (f"{CHECK}08/ex10_", r"of 8\.10$", r"samples % size == 0", "which sizes the text allows"),
    (f"{CHECK}09/ex25_", r"of 9\.26$", r"chunk\(n\)", "pieces in a row, which the text shows"),
    (f"{CHECK}10/ex11_", r"of 10\.11$", r".", "a row of numbers to try"),
    (f"{CHECK}11/ex02_", r"of 11\.2$", r"describe|looks|raises|got = function",
     "what is looked at in a result"),
    (f"{CHECK}11/ex02_", r"of 11\.2$", r"wanted\.tolist",
     "when a ValueError is asked, which the text says"),
    (f"{CHECK}02/two_levels|{CHECK}03/ex18_|{CHECK}06/ex10_", r"of 4\.8$", r"enumerate",
     "the numbers of those of which something is true"),
]  # fmt: skip


def reason(found) -> str:
    """Why what was found is no answer; "" if nobody has judged it."""
    return next((why for file, whose, text, why in REVIEWED
                 if re.search(file, found.file) and re.search(whose, found.piece.whose)
                 and re.search(text, found.text)), "")  # fmt: skip


def unreviewed(found) -> list:
    """What nobody has judged: it has to go, or needs a reason here."""
    return [one for one in found if not reason(one)]
