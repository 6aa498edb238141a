"""Names and texts of students, made harmless for pages and for the names of files."""

import hashlib
import re
import unicodedata
from collections import Counter

# Characters that a page or a file may not show as they are: controls, changes of the writing's
# direction, those without width, line ends that only some programs know, halves of characters.
INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
# Nobody reads more than this of one text, and a page has to open on a phone.
MOST_CHARACTERS = 20_000
MOST_IN_A_NAME = 120
LONGEST_FILE_NAME = 60
# Windows opens devices under these names.
DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)


def plain(text, most=MOST_CHARACTERS) -> str:
    """Return text in which every character can be seen, cut at `most` characters."""
    text = str(text).replace("\r\n", "\n")
    more = len(text) - most
    seen = INVISIBLE.sub(lambda found: f"⟨U+{ord(found[0]):04X}⟩", text[:most])
    return seen + (f"\n… and {more:,} more characters" if more > 0 else "")


def one_line(text) -> str:
    """Return a short text without line ends, for a name."""
    text = re.sub(r"[\n\t]", lambda found: f"⟨U+{ord(found[0]):04X}⟩", str(text))
    seen = plain(text[:MOST_IN_A_NAME])
    return seen + ("…" if len(text) > MOST_IN_A_NAME else "")


def file_names(names) -> list[str]:
    """Return what each name's file is called, without ending.

    File names have only ASCII letters, digits and dashes, and no two are alike when capitals are
    ignored. Names that would be alike, or leave nothing, end in a piece of their hash; of two that
    are the same, the second also ends in a number.
    """
    slugs = [slug(name) for name in names]
    times = Counter(slug.lower() for slug in slugs)
    files, seen = [], Counter()
    for name, slug_of_it in zip(names, slugs):
        alone = slug_of_it and times[slug_of_it.lower()] == 1 and not DEVICES.match(slug_of_it)
        file = slug_of_it if alone else f"{slug_of_it or 'student'}-{piece_of_hash(name)}"
        seen[file.lower()] += 1
        files.append(file if seen[file.lower()] == 1 else f"{file}-{seen[file.lower()]}")
    return files


def slug(name: str) -> str:
    letters = unicodedata.normalize("NFKD", str(name)).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9]+", "-", letters)[:LONGEST_FILE_NAME].strip("-")


def piece_of_hash(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
