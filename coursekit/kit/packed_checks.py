"""Checks whose code is packed, as a handout has them: who reads a check reads what is right.

That is no lock. It keeps answers out of what one finds by looking for something else.
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
    """A module that does what this one does, and does not show it."""
    packed = base64.b85encode(zlib.compress(text.encode(), 9)).decode()
    lines = [packed[first : first + COLUMNS] for first in range(0, len(packed), COLUMNS)]
    return f"{HEAD}{chr(10).join(lines)}{TAIL}"


def unpack_check(text: str) -> str:
    """What is in a module that `pack_check` has made; any other as it is."""
    found = PACKED.fullmatch(text)
    return unpack_source(found[1]) if found else text


def unpack_source(packed: str) -> str:
    return zlib.decompress(base64.b85decode("".join(packed.split()))).decode()


def run(namespace, packed: str):
    """Make a module of what is packed."""
    code = compile(unpack_source(packed), namespace["__file__"], "exec", dont_inherit=True)
    exec(code, namespace)
