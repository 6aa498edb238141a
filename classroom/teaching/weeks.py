"""The weeks of a plan, as data: parts, what to show, and exercises at home."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Week:
    """A week: names of parts in order, what to `show` in class, names of exercises as homework."""

    title: str
    parts: str
    show: str
    homework: str


SIX = [
    Week(
        "Ranks, and a batch in parts", "00 00b 00c 01 01b 01c",
        "Start four processes, and let one leave out an all-reduce: the message names the line on "
        "which each rank waits. Ask for the gradient of unequal parts before the picture.",
        "mean_over_ranks my_samples train_accumulated shares accumulate"),
    Week(
        "Collectives, from two messages to the ring", "02 02b 02c 02d",
        "Play a tree and a ring with eight students and sheets of paper; then the film of 02c. "
        "Ask for the bytes of the busiest rank before each measurement.",
        "swap broadcast_tree chunk_to_send reduce_scatter_ring all_gather_ring all_reduce_ring"),
    Week(
        "Data parallel", "03 03b 03c 03d",
        "Let two published loops of 03b run, and have the class say which condition is missing. "
        "Show a timeline with and without overlap.",
        "average_gradients samples_of_rank train_epochs make_buckets no_sync"),
    Week(
        "Memory, recomputation, and ZeRO's first stage", "05 05d 05f 06",
        "Count the bytes of a step by kind on the board, then measure them. Ask what a rank of "
        "four keeps in stage 1 before the bars are shown.",
        "bytes_by_kind kept_by_block bytes_of_rank reduce_gradients zero1"),
    Week(
        "Gradients and parameters in parts; a layer cut over ranks", "06c 06d 07",
        "The film of 06d, frame by frame: who holds which unit? Cut a product by columns and by "
        "rows on the board.",
        "zero2 gather zero3 column_linear row_linear"),
    Week(
        "The pair, pipelines, and three axes together", "07b 08 08b 09",
        "Draw GPipe and 1F1B for three stages by hand, then on real ranks. Ask whether the bubble "
        "gets smaller.",
        "split_mlp bubble one_f_one_b coordinates groups_along"),
]  # fmt: skip

TWELVE = [
    Week("Ranks, and a batch in parts", "00 00b 00c 01 01b 01c", SIX[0].show,
         "global_rank mean_over_ranks my_samples house_gradients train_accumulated shares "
         "accumulate accumulate_tokens"),
    Week(
        "Messages, trees, the ring", "02 02b 02c",
        "Play a tree and a ring with eight students and sheets of paper; then the film of 02c.",
        "swap tree_seconds broadcast_tree reduce_tree chunk_to_send reduce_scatter_ring "
        "all_gather_ring all_reduce_ring"),
    Week(
        "What collectives cost", "02d 02e 02f 02g",
        "Ask from which size on a ring beats trees, before 02e measures it. Take a cable out in "
        "02g while an all-reduce runs.",
        "sent_bytes all_to_all all_reduce_seconds card_bytes"),
    Week("Data parallel", "03 03b 03c 03d", SIX[2].show,
         "start_equal average_gradients samples_of_rank train_epochs make_buckets average_buckets "
         "no_sync"),
    Week(
        "DDP at work, and how far it scales", "03e 03f 03g 03k",
        "Run the program of 03g on two machines. Let the class choose how many ranks are too many, "
        "and measure it.",
        "backward_tokens training efficiency"),
    Week(
        "Failures", "04 04c 04d",
        "Kill a rank while a training runs: who notices, and when? Compare a restart with and "
        "without the optimizer's state.",
        "training_state write_whole best_period watcher microbatches_of"),
    Week(
        "Where memory goes", "05 05b 05d 05f",
        "Count the bytes of a step on the board, then measure them. Show updates that bfloat16 "
        "rounds away.",
        "bytes_by_kind mixed_precision kept_by_block recomputed"),
    Week(
        "ZeRO", "06 06c 06d",
        "Ask what each stage keeps and sends before it is measured; then the film of 06d.",
        "bytes_of_rank reduce_gradients zero1 zero2 gather zero3"),
    Week(
        "All stages together; a layer cut over ranks", "06e 07 07b",
        "Which stage sends more than DDP? Let the class vote, then measure. Cut a product by "
        "columns and by rows on the board.",
        "clip_shards copy all_reduce column_linear row_linear split_mlp"),
    Week(
        "A transformer in parts", "07c 07d 07e",
        "Give each student two heads of attention. Show the activations of a rank with and without "
        "sequence parallelism.",
        "cut_fused vocabulary_embedding split_cross_entropy all_gather reduce_scatter"),
    Week(
        "Pipelines, and three axes together", "08 08b 09 09b",
        "Draw GPipe and 1F1B for three stages by hand, then on real ranks. Compose all three axes, "
        "and compare with one process.",
        "gpipe bubble one_f_one_b coordinates groups_along average_over_copies"),
    Week(
        "Which strategy?", "09c 10 10b",
        "Let groups plan the same model on the same GPUs, then ask the planner; then run twelve "
        "plans on two slow machines and compare the orders.",
        "sent_bytes_of_axes needed_flops step_seconds bill fit_line"),
]  # fmt: skip
