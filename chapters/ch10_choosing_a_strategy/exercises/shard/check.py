"""A program for FSDP2 with a bug, because of which training changes nothing.

The truth is one process that follows the mean of the losses of all ranks.
"""

from coursekit.kit import Equals, RankCase, RankExercise, World
from coursekit.kit.results import EXIT

from .cases import alone, copies_of, copy_index, losses, try_shard
from .truth import mistakes_in_losses, need_optimizer, need_share, need_units

FINDS_A_BUG = True

EXERCISE = RankExercise(
    "shard",
    cases=[
        RankCase(World(2), ({"dp": 2},), ", dp 2"),
        RankCase(World(4), ({"dp": 2, "tp": 2},), ", dp 2 × tp 2"),
        RankCase(World(3), ({"dp": 3},), ", dp 3"),
    ],
    work=try_shard,
    facts=[
        need_optimizer,
        Equals("losses", losses, mistakes_in_losses, "the loss of a step",
               otherwise="which parameters does the optimizer hold, and which gradients does it "
               "find there?"),
        need_units,
        need_share,
        Equals("weights", lambda trial, place: alone(copies_of(trial), copy_index(trial, place))[1],
               called="the weight at the end"),
    ],
    right="losses and weights of one process; each block is a unit",
    errors={
        "Invariant encountered": "the whole model was sharded first, and took the parameters of "
        "the blocks into its own unit: the blocks come first, the whole model last",
        "overlapping meshes": "a parameter that is sharded already is sharded a second time: the "
        "blocks come first, the whole model last, and each module once",
        "value was None when it should not be": "the whole model was sharded first, and took the "
        "parameters of the blocks into its own unit: the blocks come first, the whole model last",
        "empty parameter list": "an optimizer needs parameters: model.parameters() is a generator, "
        "and gives them once",
        "is not iterable": "make_optimizer takes the parameters of the model, and no model",
        "only optimize Tensors": "make_optimizer takes parameters, without their names",
        "non-leaf Tensor": "the optimizer holds the parameters themselves, and nothing that is "
        "computed from them",
        "must have the same dtype": "the model keeps its dtype: it is given in float64 here",
        "SystemExit": EXIT,
        "fully_shard does not support": "fully_shard takes one module: a block, and not the list "
        "of all blocks",
        "mixed torch.Tensor and DTensor": "something computes with parameters that are not "
        "gathered: whose forward gathers them? The whole model has to be a unit, too",
    },
    on_hang="every rank has to shard the same modules in the same order",
    warm=True,
    hints=(
        "The program raises no error, and the losses are those of the first weights. What does "
        "the optimizer change?",
        "fully_shard puts new parameters, of which a rank has a part, in the place of the old "
        "ones. Print id(next(model.parameters())) before and after.",
        "The optimizer has to be made from the parameters that the model has at the end.",
    ),
)  # fmt: skip
