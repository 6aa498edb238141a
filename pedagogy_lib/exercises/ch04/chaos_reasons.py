"""What is misunderstood, by what has happened and how a trainer has failed."""

SEED = 44  # with a full disk before the power cut

# A rank has raised something, and nobody has caught it: words of the error, and what they mean.
ENDS_BY = {
    "Lost": "Lost is raised where somebody else is lost. That is no end: catch it, and meet again, "
    "as train() does",
    "computes wrongly": "Lost is raised, and nobody catches it: train() of keep_training does",
    "No space left": "a full disk is no reason to end: save_alone() returns what went wrong, and "
    "the training goes on; earlier checkpoints are still there",
    "Connection": "a collective has failed because somebody else died. Call it under talking(), "
    "which makes Lost of it",
    "Timed out": "a collective has waited for too long. Call it under talking(), which makes Lost "
    "of it",
    "not been initialized": "a process that takes the place of a dead one is in no group: "
    "crew.meet() forms one, also for the first step",
}

# Nobody comes to an end.
HANGS = {
    "undisturbed": "nothing has happened here. Does it end after `steps` steps? And do all ranks "
    "take part in every collective, in the same order?",
    "kill": "a newcomer waits at the next meeting until somebody comes. Others learn of it by "
    "somebody_waits(), which has to be summed over all ranks, so that all go there together. And "
    "there, who comes anew gets the state of the others",
    "hang": "a rank stands still. Nobody can wait for it: after the group's timeout, meet without "
    "it",
    "wrong gradients": "a rank computes wrongly in every step. As long as it is there, no step is "
    "right: it has to end its process, and another takes its place",
    "wrong weights": "a rank has wrong weights, and will have them in every step: it has to end "
    "its process, and another takes its place",
    "power cut": "all processes are new: nobody has a group, or a state. All meet, and go on from "
    "the disk",
}

WRONG_WEIGHTS = {
    "undisturbed": "nothing has happened here. In each step, all ranks add up their shares, "
    "compute(rank, n), and update() divides by the number of micro-batches",
    "kill": "after a death there are fewer ranks, and the whole batch is dealt among these: "
    "compute(rank, n) with the n of the new group; and who comes anew gets the state of the others",
    "hang": "after the meeting the step is taken again, by those who are there: whole, and once",
    "slow": "a slow rank computes rightly: wait for it, or replace it, but leave nothing out",
    "disk full": "what is on the disk does not matter as long as anybody has the state in memory",
    "power cut": "all go on from the same checkpoint, with all of its state",
    "wrong gradients": "the gradients of one rank are wrong, and are in the sum. Compare before "
    "the all-reduce: wrong_by_recomputing()",
    "wrong weights": "one bit of one rank's weights is wrong. Its gradients may be right all the "
    "same, where a pixel is always black: compare both, sums and weights, before the all-reduce",
    "all of it": "one by one, all is well. Here they come one after another: a rank may be missing "
    "when the next thing happens. With fewer than three, nobody can tell who is wrong",
}

LOSES = {
    "others": "three ranks have the newest state in their memory: nobody has to go back to a "
    "checkpoint. catch_up() gives the newcomer the state of the one that is furthest",
    "power cut": "all have died, and what counts is on the disk: save_alone() after every EVERY "
    "steps, load_alone() when a process begins",
}


def reason_for(table, case, said) -> str:
    """By what has happened, where that is enough; else by the words of the error."""
    if case in table:
        return table[case]
    return next((why for words, why in table.items() if words in said), "")
