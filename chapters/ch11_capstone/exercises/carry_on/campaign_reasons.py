"""The diagnoses of a training run of a model in parts, by the way in which it failed."""

# {words of an error that a rank has raised and nothing has caught: the diagnosis}
ENDS_BY = {
    "and the world has": "this recipe is for another number of ranks than there are now. Each "
    "number of ranks has its own recipe. Where there is none, nobody can take a step",
    "KeyError: 'exp_avg'": "a checkpoint was to be saved before the first step: the optimizer has "
    "no averages yet. One is due after every EVERY steps",
    "KeyError: 3": "there is no recipe for so few ranks. That is no error: nobody takes a step, "
    "and a meeting comes next, and again, until there are ranks enough",
    "mappingproxy": "`recipes` is only to be looked into: the next meeting looks there, too",
    "'NoneType' object has no attribute": "there is no engine. It is built after each meeting, "
    "if there is a recipe for those who are there. If not, no step can be taken or saved",
    "state_dict": "catch_up() takes the whole state from one rank. Here no rank has it: each has a "
    "part, and the checkpoint has all of them",
    "not been initialized": "a process is in no group until crew.meet() has formed one: train() "
    "of keep_training calls it, before everything else",
    "Invalid process group": "the engine talks in groups of ranks that have been closed: after "
    "each meeting, build the engine anew",
    "Group": "the engine talks in groups of ranks that have been closed: after each meeting, "
    "build the engine anew",
    "Lost": "another rank is lost, and nobody has caught the error. The training need not end: "
    "train() of keep_training catches Lost, and meets again",
    "Connection": "another rank has died while all were talking. The training need not end: under "
    "talking() the error becomes Lost, which train() catches. Everything talks: a step, a sum, a "
    "checkpoint",
    "Timed out": "another rank did not answer in time. The training need not end: under talking() "
    "the error becomes Lost, which train() catches. Everything talks: a step, a sum, a checkpoint",
    "gloo": "another rank has died while all were talking. The training need not end: under "
    "talking() the error becomes Lost, which train() catches. Everything talks: a step, a sum, a "
    "checkpoint",
}

# {case: the diagnosis of a hang}
HANGS = {
    "nothing happens": "nothing has happened here. Does it end after `steps` steps? And do all "
    "ranks take part in everything that talks, in the same order: step(), save(), load()?",
    "a rank dies": "three are left, and a newcomer waits at the next meeting. All have to go there "
    "together. But each rank sees at another moment that somebody waits: is_true_for_any() gives "
    "all the same answer. Three ranks have no recipe: they have to say that a meeting comes next. "
    "And load() talks: the ranks that did not die call it, too",
    "two are lost for good": "two are left, and there is a recipe for two: they go on by "
    "themselves. Nobody else will come",
    "two are lost, and come back later": "newcomers wait at the next meeting. All have to go "
    "there together. But each rank sees at another moment that somebody waits: is_true_for_any() "
    "gives all the same answer. With three, no step is taken, and the next meeting comes",
}

WRONG_LOSSES = {
    "nothing happens": "nothing has happened here. Is a step taken for each batch, with an engine "
    "that was built once?",
    "a rank dies": "the rank that died had a part of the optimizer's states that no other rank "
    "has. So the others cannot go on from where they are: all go back to the same checkpoint, also "
    "the ranks that did not die",
    "two are lost for good": "the two lost ranks had numbers that no other rank has. All go back "
    "to the same checkpoint, under the recipe for two",
    "two are lost, and come back later": "four begin where two have been: all of the four read "
    "the same checkpoint",
}

TWICE = {
    "a rank dies": "a death costs the steps since the newest checkpoint, and no more. A "
    "checkpoint is due after every EVERY steps, and is loaded after a meeting",
    "two are lost for good": "a death costs the steps since the newest checkpoint, and no more. A "
    "checkpoint is due after every EVERY steps, and is loaded after a meeting",
    "two are lost, and come back later": "nobody dies when newcomers come: so no step has to be "
    "lost. Before all go to the meeting, they still have the whole state among them. And each rank "
    "sees at another moment that somebody waits: is_true_for_any() gives all the same answer",
}

SAVES = (
    "a checkpoint takes time, in which nobody computes. One is due after every EVERY steps; one "
    "more only if somebody waits to be let in"
)
UNSAVED = (
    "a checkpoint is due after every EVERY steps: when ranks are lost, all go back to it, and the "
    "next day begins with the last one"
)
FEWER = {
    "two are lost for good": "two ranks are left for these steps, and there is a recipe for two",
    "two are lost, and come back later": "newcomers came, and there were four again, for whom "
    "there is a recipe: a process that waits at a meeting has to be let in",
    "a rank dies": "a newcomer came, and there were four again, for whom there is a recipe",
    "nothing happens": "four ranks are there, and there is a recipe for four",
}
NO_END = (
    "at the end every rank has all steps. A newcomer has those that the others took before it "
    "came, too: it goes on from where they are"
)


def why_it_ended(said) -> str:
    """Return the diagnosis of an error by its words, or ""."""
    return next((why for words, why in ENDS_BY.items() if words in said), "")
