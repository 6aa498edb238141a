"""Misconceptions, by the events of a case and the way in which a trainer has failed."""

from .chaos_plans import ALL, AT_ONCE, TWO_KILLS

# A rank has raised an error that nothing has caught: {words of the error: diagnosis}.
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

# No rank ends: {case: diagnosis}.
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
    "slow": "a slow rank comes later to a collective, and is not lost. Nobody has to meet for it; "
    "if one does, all have to",
    "disk full": "a full disk stops nobody: who could not save goes on to the next collective, as "
    "all others do",
    TWO_KILLS: "two ranks are left, and those that are to come wait at the next meeting: who takes "
    "no step because too few are there has to say that a meeting comes next",
    AT_ONCE: "a rank computes wrongly from the first step on. As long as it is there, no step is "
    "right: it has to end its process, alone, and another takes its place",
    ALL: "one by one, all is well. Here they come one after another: somebody may be lost in a "
    "comparison, in a meeting, or while a state is sent. Then all others meet once more",
}

WRONG_WEIGHTS = {
    "undisturbed": "nothing has happened here. In each step, all ranks add up their shares, "
    "compute(rank, n), and update() divides by the number of micro-batches",
    "kill": "after a death there are fewer ranks, and the whole batch is dealt among these: "
    "compute(rank, n) with the n of the new group; and who comes anew gets the state of the others",
    "hang": "after the meeting the step is taken again, by those who are there: whole, once, "
    "and with their ranks in the new group",
    "slow": "a slow rank computes rightly: wait for it, or replace it, but leave nothing out",
    "disk full": "what is on the disk does not matter as long as anybody has the state in memory",
    "power cut": "all go on from the same checkpoint, with all of its state",
    "wrong gradients": "the gradients of one rank are wrong, and are in the sum. Compare before "
    "the all-reduce: wrong_by_recomputing()",
    "wrong weights": "one bit of one rank's weights is wrong. Its gradients may be right all the "
    "same, where a pixel is always black: compare both, sums and weights, before the all-reduce",
    TWO_KILLS: "two ranks are left, which take no step, and keep the state for those who come",
    AT_ONCE: "the gradients of one rank are wrong in the very first step, and are in the sum. "
    "Compare before the all-reduce of each step, of the first one, too",
    ALL: "one by one, all is well. Here they come one after another: a rank may be missing "
    "when the next thing happens. With fewer than three, nobody can tell who is wrong",
}

LOSES = {
    "processes": "who is wrong ends its process, alone, and another takes its place. All others "
    "raise Lost, and meet: they have the newest state in their memory",
    "others": "others have the newest state in their memory: nobody has to go back to a "
    "checkpoint. catch_up() gives the newcomer the state of the one that is furthest",
    "power cut": "all have died, and what counts is on the disk: save_alone() after every EVERY "
    "steps, load_alone() when a process begins",
}


SAVES = {
    "often": "a checkpoint takes time, in which all others wait at the next all-reduce. One after "
    "every EVERY steps is what a power cut is allowed to cost",
    "all": "all ranks have the same state: one of them saves it, for all. Several that write the "
    "same files get in each other's way",
}

FEW_STEP = (
    "with fewer than three ranks nobody can tell who is wrong: no step is taken then. The next "
    "meeting comes, again and again, until others are there"
)


def why_it_ended(said) -> str:
    """Return the diagnosis for the words of an error, or ""."""
    return next((why for words, why in ENDS_BY.items() if words in said), "")
