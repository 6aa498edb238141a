"""A teacher's replies to 34 misconceptions that checks find, by words of the checks' sentences."""

SAY = [
    # exercise, words of the check's sentence, what to say
    ("my_samples", "all ranks take the same samples",
     "Ask what four people know more than one if all four read the same page."),
    ("shares", "each micro-batch counts the same here",
     "Take micro-batches of 9 and 1 sample: how many votes has the one sample? A mean of means is "
     "the mean only if all parts are equally large."),
    ("accumulate", "earlier step",
     "backward() adds to .grad. Ask who empties it, and when: once a step, not once a micro-batch, "
     "and not never."),
    ("tree_seconds", "this is one after another",
     "Play it with paper: who has the file in round 2, and what do they do meanwhile? Their "
     "number doubles in every round."),
    ("chunk_to_send", "always sends the same chunk",
     "Let each student hold up what came in last: that is what has to go on next. A chunk travels, "
     "it does not stay."),
    ("all_reduce_ring", "this is the reduce-scatter",
     "After the first round everybody has one finished chunk. Ask who still lacks what. A second "
     "round hands out the finished ones."),
    ("all_reduce_ring", "is a hot spot",
     "Count the bytes of the busiest rank, not of all together. If everything goes through one "
     "rank, its link sets the time, and the more ranks, the worse."),
    ("sent_bytes", "this is what Gloo's own reduce_scatter sends",
     "Keep two questions apart: what has to be sent, and what a library sends. Measure the second, "
     "work out the first."),
    ("sent_bytes", "twice as much as has to be sent",
     "Every byte is sent once and received once. Decide which of the two you count."),
    ("all_reduce_seconds", "the latency is counted only once",
     "Messages that follow each other wait for each other: draw them on a line, one latency each."),
    ("card_bytes", "a ring closes",
     "Let the students stand in a circle. The last one has a neighbour, too."),
    ("loss_factor", "each rank counts the same here",
     "The mean over ranks is the mean over samples only if all ranks have as many. Multiply by the "
     "rank's share before DDP averages."),
    ("average_gradients", "this is the sum",
     "Ask what happens to the learning rate when four ranks become eight. With a mean it "
     "can stay."),
    ("average_gradients", "a parameter with None is passed over",
     "Collectives match by order. If one rank leaves out one call, its next call meets another "
     "tensor."),
    ("train_epochs", "all ranks compute one gradient",
     "No error appears, and the loss falls. Print the first samples of each rank: without a "
     "sampler they are the same."),
    ("exchange_seconds", "this is one way only",
     "What is pushed has to be pulled. Ask what the server's link carries in each direction, and "
     "what waits for what."),
    ("efficiency", "this is the speed-up",
     "A speed-up of 4 is good on 4 ranks and poor on 16. Divide by what was put in."),
    ("training_state", "dropout draws from torch's generator",
     "Ask what else the next step reads. A restart is right if nobody can see from the losses "
     "that there was one."),
    ("best_period", "a failure loses half a period on average",
     "A failure comes at any moment between two savings, as often early as late."),
    ("kept_by_block", "A tensor counts once",
     "Two operations that keep the same tensor keep one tensor. Count storages, not arrows."),
    ("bytes_of_rank", "a stage too early",
     "Largest first: states, then gradients, then parameters. Stage 0 splits nothing."),
    ("zero1", "divided by the number of ranks once more",
     "Follow one number: from the gradient, through the reduction, into the step. Who has "
     "divided already?"),
    ("clip_shards", "norms do not add up: squares do",
     "Two sides of 3 and 4 make a diagonal of 5, not 7."),
    ("models_sent", "this counts a reduce-scatter as an all-reduce",
     "That is what is measured over Gloo, and a good observation. The formula asks for a ring."),
    ("models_sent", "each backward reduces its gradients",
     "Stage 2 may not keep whole gradients until the end of the step. So each micro-batch pays "
     "for a reduction; stage 1 waits and pays once."),
    ("row_linear", "so it is there n times",
     "Whatever every rank adds before the sum is in it n times. Add it once, after the sum."),
    ("column_linear", "f stands before the columns",
     "The same x goes to all ranks, so its gradient comes back from all of them: what is copied "
     "forward is summed backward."),
    ("bubble", "this is idle time over the ideal",
     "Eight hours of work and two of waiting: 20 % of the whole, 25 % over the ideal. Always say "
     "which one."),
    ("bubble", "stages counted where their number less one is meant",
     "Nobody waits for itself. With one stage the bubble has to be 0: try it in the formula."),
    ("one_f_one_b", "each rank goes back right after its first forward",
     "The last stage can go back at once with its first micro-batch. The first one has to fill "
     "everybody after it first."),
    ("one_f_one_b", "this is GPipe, and every rank keeps",
     "The bubble is the same. What 1F1B saves is memory: count what is in flight."),
    ("sent_bytes_of_axes", "an all-reduce sends its tensor once",
     "The factor is 2(n − 1)/n: 1 with two ranks, nearly 2 with many. Do not learn it from two."),
    ("needed_flops", "this is the forward alone",
     "Each product of the forward has two in the backward: one for the inputs, one for the "
     "weights. 2 + 4 = 6."),
    ("roofline_seconds", "these are both times, one after the other",
     "A kitchen cooks and serves at the same time: the slower one sets the pace. Times add up only "
     "if one waits for the other."),
]  # fmt: skip
