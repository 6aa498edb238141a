# wrong · nan with a payload, infinities
import struct


def house_gradients(*house):
    (strange,) = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEADBEEF0001))
    return [strange, float("inf"), -float("inf")]
