"""What is misunderstood, by how a training in parts has failed."""

# A rank has raised something, and nobody has caught it: words of the error, and what they mean.
ENDS_BY = {
    "and the world has": "this recipe makes another number of ranks than there are now. Each "
    "number of ranks has its own recipe, and for some there is none: then nobody can take a step",
    "KeyError": "there is no recipe for so few ranks. That is no error: nobody takes a step, and a "
    "meeting comes next, and again, until there are ranks enough",
    "'NoneType' object has no attribute": "there is no engine. It is built after each meeting, "
    "if there is a recipe for those who are there; if not, no step can be taken, nor saved",
    "state_dict": "catch_up() takes the whole state from one rank. Here no rank has it: each has a "
    "part, and the checkpoint has all of them",
    "not been initialized": "a process is in no group until crew.meet() has formed one: train() "
    "of keep_training calls it, before everything else",
    "Invalid process group": "the engine talks in groups of ranks that have been closed: whoever "
    "meets anew builds the engine anew",
    "Group": "the engine talks in groups of ranks that have been closed: whoever meets anew "
    "builds the engine anew",
    "Lost": "somebody else is lost, and nobody has caught it. That is no end: train() of "
    "keep_training catches Lost, and meets again",
    "Connection": "somebody else has died while all were talking. That is no end: under talking() "
    "it becomes Lost, which train() catches. Everything talks: a step, a sum, a checkpoint",
    "Timed out": "somebody did not answer in time. That is no end: under talking() it becomes "
    "Lost, which train() catches. Everything talks: a step, a sum, a checkpoint",
    "gloo": "somebody else has died while all were talking. That is no end: under talking() it "
    "becomes Lost, which train() catches. Everything talks: a step, a sum, a checkpoint",
}

# Nobody comes to an end.
HANGS = {
    "nothing happens": "nothing has happened here. Does it end after `steps` steps? And do all "
    "ranks take part in everything that talks, in the same order: step(), save(), load()?",
    "a rank dies": "three are left, and a newcomer waits at the next meeting. All have to go there "
    "together: whether somebody waits, each rank sees at another moment, so it takes a sum. "
    "Three without a recipe have to say that a meeting comes next. And load() talks: those call "
    "it, too, that did not die",
    "two are lost for good": "two are left, and there is a recipe for two: they go on by "
    "themselves. Nobody else will come",
    "two are lost, and come back later": "newcomers wait at the next meeting. All have to go "
    "there together: whether somebody waits, each rank sees at another moment, so it takes a sum. "
    "With three, no step is taken, and the next meeting comes",
}

WRONG_LOSSES = {
    "nothing happens": "nothing has happened here. Is a step taken for each batch, with an engine "
    "that was built once?",
    "a rank dies": "the rank that died had a part of the weights, and of the optimizer's states, "
    "that nobody else has. So nobody can go on from where they were: all go back to the same "
    "checkpoint, those too that did not die",
    "two are lost for good": "what two ranks had is lost, and nobody else has it. All go back to "
    "the same checkpoint, under the recipe for two",
    "two are lost, and come back later": "four begin where two have been: all of the four read "
    "the same checkpoint",
}

TWICE = {
    "a rank dies": "from the newest checkpoint to the death, steps are lost: no more. A "
    "checkpoint is due after every EVERY steps, and is loaded after a meeting",
    "two are lost for good": "from the newest checkpoint to the death, steps are lost: no more. A "
    "checkpoint is due after every EVERY steps, and is loaded after a meeting",
    "two are lost, and come back later": "nobody dies when newcomers come: so no step has to be "
    "lost. Before all go to the meeting, they still have the whole state among them",
}

SAVES = (
    "a checkpoint takes time, in which nobody computes. One is due after every EVERY steps; one "
    "more only if somebody waits to be let in"
)
UNSAVED = "a checkpoint is due after every EVERY steps: whoever loses its ranks goes back to it"
FEWER = {
    "two are lost for good": "two ranks are left for these steps, and there is a recipe for two",
    "two are lost, and come back later": "newcomers came, and there were four again, for whom "
    "there is a recipe: whoever waits at a meeting has to be let in",
    "a rank dies": "a newcomer came, and there were four again, for whom there is a recipe",
    "nothing happens": "four ranks are there, and there is a recipe for four",
}
NO_END = (
    "at the end every rank has taken all steps, those of a newcomer as well: it goes on from where "
    "the others are"
)


def why_it_ended(said) -> str:
    """By the words of an error."""
    return next((why for words, why in ENDS_BY.items() if words in said), "")
