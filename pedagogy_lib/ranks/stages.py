"""What ranks report of themselves, and the places that follow from it."""

from ..basics.places import LOST, MEETING, STARTING, STOPPED, TRAVELLING, UNPACKING, in_words

UNKNOWN = in_words("at a place that it does not tell")
CUT_OFF = in_words("cut off from the notebook", LOST)
IS_STOPPED = in_words("stopped by a signal", STOPPED)
# What a rank has reported last, in this order; and where it then is, outside of the function.
STAGES = STARTS, BEGUN, UNPACKED, JOINED, RETURNED = (
    "starts", "begun", "unpacked", "joined", "returned"
)  # fmt: skip
PLACES = {
    STARTS: in_words("still starting", STARTING),
    BEGUN: in_words("unpacking the function and its arguments", UNPACKING),
    UNPACKED: in_words("waiting for the other ranks to start", MEETING),
    RETURNED: in_words("returned; the value travels", TRAVELLING),
}
