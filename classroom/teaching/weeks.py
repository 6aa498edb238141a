"""The weeks of a plan, as data: which parts, what to show, which exercises at home."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Week:
    """parts: names in order; show: what to do in class; homework: numbers of exercises."""

    title: str
    parts: str
    show: str
    homework: str


SIX = [
    Week(
        "Ranks, and a batch in parts", "00 00b 00c 01 01b 01c",
        "Start four processes, and let one leave out an all-reduce: the message names the line on "
        "which each rank waits. Ask for the gradient of unequal parts before the picture.",
        "0.2 0.3 1.2 1.3 1.4"),
    Week(
        "Collectives, from two messages to the ring", "02 02b 02c 02d",
        "Play a tree and a ring with eight students and sheets of paper; then the film of 02c. "
        "Ask for the bytes of the busiest rank before each measurement.",
        "2.1 2.3 2.5 2.6 2.7 2.8"),
    Week(
        "Data parallel", "03 03b 03c 03d",
        "Let two published loops of 03b run, and have the class say which condition is missing. "
        "Show a timeline with and without overlap.",
        "3.3 3.4 3.5 3.7 3.11"),
    Week(
        "Memory, recomputation, and ZeRO's first stage", "05 05d 05f 06",
        "Count the bytes of a step by kind on the board, then measure them. Ask what a rank of "
        "four keeps in stage 1 before the bars are shown.",
        "5.1 5.7 6.1 6.3 6.4"),
    Week(
        "Gradients and parameters in parts; a layer cut over ranks", "06c 06d 07",
        "The film of 06d, frame by frame: who holds which unit? Cut a product by columns and by "
        "rows on the board.",
        "6.7 6.10 6.12 7.4 7.5"),
    Week(
        "The pair, pipelines, and three axes together", "07b 08 08b 09",
        "Draw GPipe and 1F1B for three stages by hand, then on real ranks. Ask whether the bubble "
        "gets smaller.",
        "7.6 8.2 8.4 9.1 9.2"),
]  # fmt: skip

TWELVE = [
    Week("Ranks, and a batch in parts", "00 00b 00c 01 01b 01c", SIX[0].show,
         "0.1 0.2 0.3 1.1 1.2 1.3 1.4 1.5"),
    Week(
        "Messages, trees, the ring", "02 02b 02c",
        "Play a tree and a ring with eight students and sheets of paper; then the film of 02c.",
        "2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8"),
    Week(
        "What collectives cost", "02d 02e 02f 02g",
        "Ask from which size on a ring beats trees, before 02e measures it. Take a cable out in "
        "02g while an all-reduce runs.",
        "2.9 2.10 2.11 2.14"),
    Week("Data parallel", "03 03b 03c 03d", SIX[2].show, "3.2 3.3 3.4 3.5 3.7 3.8 3.11"),
    Week(
        "DDP at work, and how far it scales", "03e 03f 03g 03k",
        "Run the program of 03g on two machines. Let the class choose how many ranks are too many, "
        "and measure it.",
        "3.15 3.16 3.20"),
    Week(
        "Failures", "04 04c 04d",
        "Kill a rank while a training runs: who notices, and when? Compare a restart with and "
        "without the optimizer's state.",
        "4.1 4.2 4.5 4.7 4.11"),
    Week(
        "Where memory goes", "05 05b 05d 05f",
        "Count the bytes of a step on the board, then measure them. Show updates that bfloat16 "
        "rounds away.",
        "5.1 5.3 5.7 5.10"),
    Week(
        "ZeRO", "06 06c 06d",
        "Ask what each stage keeps and sends before it is measured; then the film of 06d.",
        "6.1 6.3 6.4 6.7 6.10 6.12"),
    Week(
        "All stages together; a layer cut over ranks", "06e 07 07b",
        "Which stage sends more than DDP? Let the class vote, then measure. Cut a product by "
        "columns and by rows on the board.",
        "6.14 7.2 7.3 7.4 7.5 7.6"),
    Week(
        "A transformer in parts", "07c 07d 07e",
        "Give each student two heads of attention. Show the activations of a rank with and without "
        "sequence parallelism.",
        "7.10 7.12 7.13 7.16 7.17"),
    Week(
        "Pipelines, and three axes together", "08 08b 09 09b",
        "Draw GPipe and 1F1B for three stages by hand, then on real ranks. Compose all three axes, "
        "and compare with one process.",
        "8.1 8.2 8.4 9.1 9.2 9.5"),
    Week(
        "Which strategy?", "09c 10 10b",
        "Let groups plan the same model on the same GPUs, then ask the planner; then run twelve "
        "plans on two slow machines and compare the orders.",
        "9.10 10.1 10.4 10.5 10.7"),
]  # fmt: skip
