"""A pipeline that follows a schedule. Its numbers are float64.

Its stages are actors, which know the right input of each micro-batch and return the right output.
The demands on messages and their order are checked by watching the calls, without timing.
"""

from coursekit.kit import Equals, RankExercise, never

from .cases import CASES, step_on_rank
from .pipeline_watch import NO_SUCH_RANK, SRC
from .truth import ONE_EACH, right_losses, right_ones, summary, why_it_failed

EXERCISE = RankExercise(
    "Pipeline",
    lab="pipeline_parallel",
    cases=CASES,
    work=step_on_rank,
    facts=[
        never("own", "after the step self.own has {} tensors",
              "what a rank sends to itself lies in self.own, under the tag of its action, and "
              "receive takes it out. What stays there is memory for nothing"),
        never("begun", lambda names: f"{len(names)} messages are begun, and never waited for",
              "a request that is dropped may take its message along: self.send keeps each until "
              "the end of the step, and waits for it there"),
        Equals("losses", lambda trial, place: right_losses(trial, place)[0], otherwise=ONE_EACH,
               called="after the step the number of self.losses"),
        Equals("loss", lambda trial, place: right_losses(trial, place)[1], otherwise=ONE_EACH,
               called="the loss of the batch"),
        Equals("came", right_ones, called="what comes for"),
        never("off_line", lambda actions: f"{actions[0]} receives through another group than "
              "self.line(action)",
              "on Gloo all lines are one group. NCCL needs one for each direction, and the sender "
              "takes that of its action: dist.recv(…, group=self.line(action))"),
    ],
    right=summary,
    explain=why_it_failed,
    errors={
        "'float' object has no attribute 'item'":
            "append what forward returns, a tensor: step() takes the number out of it",
        "has no attribute 'tag'": "the tag is tag_of(action)",
        "'tuple' object has no attribute": "an action is a named tuple: _, i, chunk = action",
        "unexpected keyword argument 'src'": "a rank of the group is group_src",
        "'NoneType' object is not": "on the last stage `then` is partial(self.part_of_loss, i)",
        "is not part of group": SRC,
        "should not be the same as the rank":
            "what a rank gives to itself needs no message: self.send puts it into self.own",
        "Invalid rank": NO_SUCH_RANK,
        "out of range": NO_SUCH_RANK,
        "roup rank": NO_SUCH_RANK,
        "but messages are":
            "a message is what a stage has computed for the next one; behind the model's last "
            "stage there is nobody: its loss goes to self.losses",
        "EnforceNotMet":
            "a message is (samples, context, width), for the samples of its micro-batch",
    },
    on_hang="each message needs one who sends it and one who receives it, in an action of the same "
    "micro-batch and direction: tag_of(action)",
    hints=(
        "forward in words: get x, from the list or from another rank; compute; pass it on, or "
        "note the loss. is_first and is_last tell which of these; both ask for the chunk.",
        "receive: an empty tensor (samples, context, width) for this micro-batch, of "
        "self.dtype, and a peer: for an F the rank before, else the one after, both % "
        "self.ranks. If that is this rank, self.own has it.",
        "dist.recv(x, group=self.line(action), group_src=peer, tag=tag_of(action)). send() "
        "shows the other side.",
        "On the last stage: self.stages[chunk].forward(i, x, partial(self.part_of_loss, i)), "
        "which goes to self.losses. Only computing is inside of `with self.around(action):`.",
    ),
)  # fmt: skip
