"""Notices of the collectives that a rank begins, also those that torch's C++ code makes.

Every collective and message passes torch's dispatcher as an operator of the namespace c10d. A
kernel for the key BackendSelect sees it there on any device, with or without gradients, costs
nothing to other operators, and passes it on. Private: redispatch and the functions for keys.
"""

import torch
from torch._C import DispatchKey, _dispatch_keyset_full_after

from ..measuring.bytes_of_calls import RULES

BELOW = _dispatch_keyset_full_after(DispatchKey.BackendSelect)
_libraries = []  # kernels are forgotten with their library


def notice_collectives(notice):
    """Call `notice(name, arguments)` before each operator of c10d that communicates."""
    library = torch.library.Library("c10d", "IMPL")
    _libraries.append(library)
    for name in (*RULES["c10d"], "barrier"):
        packet = getattr(torch.ops.c10d, name, None)  # some are of later versions of torch
        if packet is not None:
            library.impl(name, make_kernel(name, packet.default, notice), "BackendSelect",
                         with_keyset=True)  # fmt: skip


def make_kernel(name, operator, notice):
    def kernel(keys, *arguments):
        notice(name, arguments)
        return operator.redispatch(keys & BELOW, *arguments)

    return kernel
