"""Names, outputs and sources that are made to do harm do none on the pages of a class."""

import re
import zipfile
from html.parser import HTMLParser

import pytest
from test_pages import EXERCISES, answer, student, words

from classroom.pages import escaping, write
from classroom.pages.rendering import SCRIPT

SCRIPT_TAG = "</pre></script><script>alert(1)</script><img src=x onerror=alert(2)>"
ENTITIES = "&lt;b&gt; & \" ' ` {{ 7 * 7 }} {% raw %} ]]> <!--"
STRANGE = "a\u2028b\x00c\ud800d\u202egnp.exe\u2066e\x1b[31mf\ufeffg\u200bh\rj\U000e0041k"
NASTY = [
    SCRIPT_TAG,
    ENTITIES,
    STRANGE,
    "../../etc/passwd",
    "..",
    "",
    "CON",
    "nul",
    "A" * 5000,
    "مريم\u202e",
    "李雷",
    "two\nlines\tand a tab",
    'x" onclick="alert(3)" y="',
    "Same Name",
    "Same Name",
    "same name",
    "javascript:alert(4)",
]
WRITTEN = re.compile(r"students/([A-Za-z0-9-]+)\.html")


class Tags(HTMLParser):
    """All tags of a page with their attributes, and its scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.inside, self.scripts = [], "", []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag

    def handle_data(self, data):
        if self.inside == "script":
            self.scripts.append(data)

    def handle_endtag(self, tag):
        self.inside = ""


@pytest.fixture(scope="module")
def nasty(tmp_path_factory):
    """The pages of a class in which everything that a student chooses is nasty."""
    folder = tmp_path_factory.mktemp("class")
    texts = f"{SCRIPT_TAG}\n{ENTITIES}\n{STRANGE}\n`{SCRIPT_TAG}`\n./labs/collectives.py:3"
    said = dict.fromkeys(("case", "what", "why", "printed", "where"), texts)
    said |= {"source": f"x = '''{texts}'''", "right": [texts], "reasons": [texts]}
    states = ("wrong", "look", "broken")
    students = [
        student(name, *(answer(state, 0.5 * (state == "wrong"), **said) for state in states),
                problems=[texts], place=f"in/{name}")
        for name in NASTY
    ]  # fmt: skip
    results = {"title": texts, "version": texts, "when": texts, "exercises": EXERCISES,
               "students": students}  # fmt: skip
    write(results, folder)
    return folder


def test_each_student_has_a_page_under_a_harmless_name(nasty):
    paths = sorted(path.relative_to(nasty).as_posix() for path in nasty.rglob("*.html"))
    assert paths[:2] == ["index.html", "similar.html"]
    assert len(paths) == 2 + len(NASTY)
    names = [WRITTEN.fullmatch(path)[1] for path in paths[2:]]
    assert len({name.lower() for name in names}) == len(NASTY)
    assert max(map(len, names)) < 80
    assert not {"con", "nul"} & {name.lower() for name in names}


def test_nothing_of_a_student_is_markup(nasty):
    for path in nasty.rglob("*.html"):
        page = Tags(path.read_text())
        allowed = {"index.html": [SCRIPT]}
        assert page.scripts == allowed.get(path.name, []), path
        for tag, attributes in page.tags:
            assert tag not in ("img", "iframe", "object", "embed", "form", "base", "svg"), path
            assert not [name for name in attributes if name.startswith("on")], path
            address = attributes.get("href", "#top")
            assert re.fullmatch(r"#[\w.-]+|(\.\./)?[\w/.-]+\.html(#[\w.-]+)?", address), address


def test_every_character_can_be_seen(nasty):
    for path in nasty.rglob("*.html"):
        assert escaping.INVISIBLE.search(path.read_text()) is None, path
    page = words(next((nasty / "students").glob("Same*.html")).read_text())
    assert "a⟨U+2028⟩b⟨U+0000⟩c⟨U+D800⟩d⟨U+202E⟩gnp.exe⟨U+2066⟩e⟨U+001B⟩[31mf⟨U+FEFF⟩g" in page
    assert "&lt;b&gt; &amp; " not in page  # it was written as entities, and is shown as such
    assert "&amp;lt;b&amp;gt; &amp; " in page
    assert "{{ 7 * 7 }} {% raw %}" in page


def test_a_name_from_right_to_left_stays_as_it_is(nasty):
    page = (nasty / "index.html").read_text()
    assert "<bdi>مريم⟨U+202E⟩</bdi>" in page
    assert "<bdi>李雷</bdi>" in page


def test_a_policy_keeps_scripts_and_addresses_out(nasty):
    student_page = next((nasty / "students").glob("Same*.html")).read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', student_page)[1]
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert re.search(r"script-src 'sha256-[\w+/=]+'\">", (nasty / "index.html").read_text())


def test_a_long_text_is_cut_and_says_so(tmp_path):
    long = "long " * 100_000
    one = student("Ada", answer("wrong", source=f"x = 1\n# {long}", what=long, printed=long))
    write({"title": "t", "version": "", "exercises": EXERCISES, "students": [one]}, tmp_path)
    page = (tmp_path / "students" / "Ada.html").read_text()
    assert "… and 480,000 more characters" in page
    assert len(page) < 200_000


def test_a_students_page_has_nothing_of_others(tmp_path):
    def make_marked_answer(name):
        return answer("wrong", 0.5, **{key: f"{key} of {name}" for key in
                      ("case", "what", "why", "printed", "where", "source")})  # fmt: skip

    names = ["Ada", "Ben", "Cem"]
    students = [
        student(
            name,
            make_marked_answer(name),
            problems=[f"problem of {name}"],
            place=f"place of {name}",
        )
        for name in names
    ]
    write({"title": "t", "version": "", "exercises": EXERCISES, "students": students}, tmp_path)
    for name in names:
        page = (tmp_path / "students" / f"{name}.html").read_text()
        assert f"source of {name}" in page or f">{name}<" in page
        assert not [other for other in names if other != name and other in page]
        assert "%" not in words(page)  # no share of a class
    archive = zipfile.ZipFile(tmp_path / "feedback.zip")
    for name in names:
        assert (
            archive.read(f"{name}/feedback.html")
            == (tmp_path / "students" / f"{name}.html").read_bytes()
        )


@pytest.mark.parametrize(
    "names, files",
    [
        (["Zoë Müller-Lüdenscheidt", "Zoe"], ["Zoe-Muller-Ludenscheidt", "Zoe"]),
        (["a/b", "a b"], ["a-b-HASH", "a-b-HASH"]),
        (["李雷", "韩梅梅"], ["student-HASH", "student-HASH"]),
        (["Ada", "ADA", "Ada"], ["Ada-HASH", "ADA-HASH", "Ada-HASH-2"]),
        (["COM1", "Lpt9x"], ["COM1-HASH", "Lpt9x"]),
    ],
)
def test_names_of_files(names, files):
    found = escaping.file_names(names)
    assert len({name.lower() for name in found}) == len(names)
    assert [re.sub(r"-[0-9a-f]{8}(?=-|$)", "-HASH", name) for name in found] == files
