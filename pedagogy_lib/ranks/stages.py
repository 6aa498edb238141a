"""The stages of a rank, and where it is in each of them, outside of the learner's function."""

from ..basics.places import LOST, MEETING, STARTING, STOPPED, TRAVELLING, UNPACKING, in_words

UNKNOWN = in_words("at a place that it does not tell")
CUT_OFF = in_words("cut off from the notebook", LOST)
IS_STOPPED = in_words("stopped by a signal", STOPPED)
# Ranks report each stage that they come to, in this order.
STAGES = STARTS, BEGUN, UNPACKED, JOINED, RETURNED = (
    "starts", "begun", "unpacked", "joined", "returned"
)  # fmt: skip
# Where a rank is that has come to a stage, and not to the next; for JOINED, the function tells.
PLACES = {
    STARTS: in_words("still starting", STARTING),
    BEGUN: in_words("unpacking the function and its arguments", UNPACKING),
    UNPACKED: in_words("waiting for the other ranks to start", MEETING),
    RETURNED: in_words("returned; the value travels", TRAVELLING),
}
