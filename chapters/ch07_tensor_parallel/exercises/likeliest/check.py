"""The likeliest token, when each rank has the logits of some tokens."""

from coursekit.kit import Equals, RankExercise, never
from coursekit.kit.message_costs import SendLimit
from coursekit.kit.rank_trials import IN_A_GROUP

from ..shared.pieces_truth import SAME_CALLS
from .cases import CASES, choose, tokens
from .truth import DTYPE, UNEVEN, bytes_of_two, why_so_many, wrong_tokens

EXERCISE = RankExercise(
    "likeliest",
    lab="decoding",
    cases=CASES,
    work=choose,
    facts=[
        Equals("chosen", tokens, wrong_tokens, "the token"),
        never("changed", "the tokens are right, logits have changed",
              "whoever computed the logits may still need them"),
        SendLimit(bytes_of_two, "two numbers for one sample need", why_so_many),
    ],
    right=lambda trial: ", ".join(map(str, trial[0].chosen.tolist())),
    explain=lambda case, error: IN_A_GROUP if case.is_group else "",
    errors={
        "SIGABRT": UNEVEN,  # Gloo aborts if a message is longer than its buffer
        "sizes of tensors must match": UNEVEN,
        "Sizes of tensors must match": UNEVEN,
        "must have the same": DTYPE,
        "same dtype": DTYPE,
    },
    on_hang=SAME_CALLS,
    hints=(
        "Which of this rank's tokens can be the likeliest of all? What do the others have to "
        "know of it?",
        "logits.max(-1) gives the highest logit and its place; the token is first + place. "
        "Both travel, in a dtype that has all logits and all tokens exactly.",
        "Ranks are in the order of the tokens. argmax over the ranks' logits takes the first "
        "of equal ones, and tells whose token counts, sample by sample.",
        "torch.stack([logit.double(), first + place.double()]) travels with one "
        "dist.all_gather. Then tokens.gather(0, logits.argmax(0, keepdim=True))[0].long().",
    ),
)  # fmt: skip
