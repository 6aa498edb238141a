"""Checks whose code is packed, as in a handout, because a check's text shows what is right.

Packing is no lock. It keeps answers out of sight for those who look for something else.
"""

import base64
import re
import zlib

COLUMNS = 96
HEAD = '''"""A check. Its code is packed, as it says what is right."""

from coursekit.kit.packed_checks import run

run(
    globals(),
    """
'''
TAIL = '''
""",
)
'''
PACKED = re.compile(re.escape(HEAD) + r"(.*)" + re.escape(TAIL), re.DOTALL)


def pack_check(text: str) -> str:
    """Return a module that does the same as this one without showing its code."""
    packed = base64.b85encode(zlib.compress(text.encode(), 9)).decode()
    lines = [packed[first : first + COLUMNS] for first in range(0, len(packed), COLUMNS)]
    return f"{HEAD}{chr(10).join(lines)}{TAIL}"


def unpack_check(text: str) -> str:
    """Return the source in a module that `pack_check` has made, and any other text unchanged."""
    found = PACKED.fullmatch(text)
    return unpack_source(found[1]) if found else text


def unpack_source(packed: str) -> str:
    return zlib.decompress(base64.b85decode("".join(packed.split()))).decode()


def run(namespace, packed: str):
    """Execute the packed source in a module's namespace."""
    code = compile(unpack_source(packed), namespace["__file__"], "exec", dont_inherit=True)
    exec(code, namespace)
