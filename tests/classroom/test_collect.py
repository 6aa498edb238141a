"""Who has handed in what, in the layouts of the usual platforms; archives of evil people."""

import io
import os
import stat
import subprocess
import zipfile

import pytest
from class_of_students import LAYOUTS, hand_in, zip_files

from classroom.grading.collect import collect
from classroom.grading.files import Pile, clean_name, read_zip
from classroom.grading.layouts import owners_in
from pedagogy_lib.basics.errors import WrongInput

FILES = {"labs/collectives.py": b"x = 1\n", "work/02_collectives.ipynb": b"{}"}
LAYOUT = {
    "zips": "a folder, an archive or a notebook for each student",
    "folders": "a folder, an archive or a notebook for each student",
    "submitted": "nbgrader's submitted folder",
    "exchange": "nbgrader's exchange",
    "canvas": "Canvas' download",
    "moodle": "Moodle's download",
    "repositories": "git repositories",
}


def entry(name, mode=stat.S_IFREG | 0o644):
    info = zipfile.ZipInfo(name)
    info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
    return info


def archive_of(*entries) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, data in entries:
            archive.writestr(info, data)
    return buffer.getvalue()


def read(data) -> Pile:
    pile = Pile()
    read_zip("x.zip", data, pile)
    return pile


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_gives_the_same_files(tmp_path, layout):
    for turn, student in enumerate(("ada", "bo")):
        hand_in(tmp_path, student, FILES, layout, turn)
    told, submissions = collect(tmp_path)
    assert told == LAYOUT[layout]
    assert [one.student for one in submissions] == ["ada", "bo"]
    for one in submissions:
        assert sorted(path.split("/")[-1] for path in one.files) == [
            "02_collectives.ipynb",
            "collectives.py",
        ]
        assert one.problems == []


def test_what_a_handout_calls_its_archive_is_no_part_of_the_name(tmp_path):
    for name in ("hand-in-Ada-Lovelace", "hand-in-bo"):
        (tmp_path / f"{name}.zip").write_bytes(zip_files(FILES))
    _, submissions = collect(tmp_path)
    assert [one.student for one in submissions] == ["Ada-Lovelace", "bo"]


def test_the_archive_of_a_whole_class_is_taken(tmp_path):
    inner = {"ada_1_2_hw.zip": zip_files(FILES), "bo_LATE_3_4_hw.zip": zip_files(FILES)}
    (tmp_path / "submissions.zip").write_bytes(zip_files(inner))
    told, (ada, bo) = collect(tmp_path / "submissions.zip")
    assert told == "Canvas' download"
    assert (ada.problems, bo.problems) == ([], ["handed in late, says Canvas"])
    assert len(ada.files) == len(bo.files) == 2


def test_a_bare_repository_is_read_by_its_head_without_its_own_settings(tmp_path):
    hand_in(tmp_path / "made", "ada", FILES, "repositories")
    made, bare = tmp_path / "made" / "ada", tmp_path / "class" / "ada.git"
    subprocess.run(["git", "clone", "-q", "--bare", made, bare], check=True)
    evil = tmp_path / "ran"
    with open(bare / "config", "a") as file:
        file.write(f'[tar "tar"]\n\tcommand = touch {evil}\n[core]\n\tfsmonitor = touch {evil}\n')
    told, (ada,) = collect(tmp_path / "class")
    assert told == "git repositories"
    assert (ada.student, sorted(ada.files), ada.problems) == ("ada", sorted(FILES), [])
    assert not evil.exists()


def test_the_newest_of_two_submissions_counts_and_the_other_is_told(tmp_path):
    for day, text in (("03", b"new"), ("01", b"old")):
        folder = tmp_path / f"ada+ch02+2026-11-{day} 15:58:23.948203 UTC+Xy_z=="
        folder.mkdir()
        (folder / "a.py").write_bytes(text)
    _, (ada,) = collect(tmp_path)
    assert ada.files == {"a.py": b"new"}
    assert "2026-11-01" in ada.problems[0]
    assert ada.problems[0].endswith("is older, and does not count")


def test_canvas_numbers_what_is_handed_in_again(tmp_path):
    for name, text in (("hw.py", b"0"), ("hw-2.py", b"2"), ("hw-1.py", b"1")):
        (tmp_path / f"loveada_7_{len(name)}_{name}").write_bytes(text)
    _, (ada,) = collect(tmp_path)
    assert list(ada.files.values()) == [b"2"]
    assert "hw.py was handed in several times: the newest counts" in ada.problems


def test_two_people_of_one_name_stay_two(tmp_path):
    for number in (1, 2):
        hand_in(tmp_path, "Jo Do", {"a.py": b"%d" % number}, "moodle", number)
    _, submissions = collect(tmp_path)
    assert [one.student for one in submissions] == ["Jo Do (1)", "Jo Do (2)"]


def test_a_learners_own_folder_is_one_submission(tmp_path):
    hand_in(tmp_path, "ada", FILES, "folders")
    assert owners_in(tmp_path / "ada")[0] == "one submission"


@pytest.mark.parametrize("name", ["../../x.py", "/etc/x.py", "C:/x.py", "a\\..\\..\\x.py"])
def test_paths_that_lead_out_are_refused(name):
    pile = read(archive_of((entry(name), b"x"), (entry("good.py"), b"y")))
    assert pile.files == {"good.py": b"y"}
    assert pile.problems[0].endswith("leads out of the archive: refused")


@pytest.mark.parametrize(
    "kind, why", [(stat.S_IFLNK, "is a link"), (stat.S_IFCHR, "is a device or pipe")]
)
def test_links_and_devices_are_refused(kind, why):
    pile = read(archive_of((entry("x.py", kind | 0o777), b"/etc/passwd"), (entry("g.py"), b"y")))
    assert (pile.files, pile.problems) == ({"g.py": b"y"}, [f"x.py {why}: refused"])


def test_a_link_in_a_folder_is_not_followed(tmp_path):
    (tmp_path / "secret.py").write_text("s")
    student = tmp_path / "class" / "ada"
    student.mkdir(parents=True)
    os.symlink(tmp_path / "secret.py", student / "a.py")
    os.symlink(tmp_path, student / "all")
    os.mkfifo(student / "pipe.py")
    _, (ada,) = collect(tmp_path / "class")
    assert ada.files == {}
    told = ["all is a link: refused", "a.py is a link: refused",
            "pipe.py is a device or pipe: refused"]  # fmt: skip
    assert ada.problems == ["there is no notebook and no lab in it", *told]


def test_a_bomb_is_not_unpacked():
    pile = read(archive_of((entry("bomb.py"), b"0" * 15_000_000), (entry("good.py"), b"y")))
    assert pile.files == {"good.py": b"y"}
    assert "unpacks to 200 times its size" in pile.problems[0]


@pytest.mark.deep
def test_too_much_in_all_is_told_and_left():
    data = os.urandom(9_000_000)
    pile = read(archive_of(*((entry(f"{k}.py"), data) for k in range(14))))
    assert len(pile.files) == 11
    assert pile.problems == ["more than 100 MiB in all: the rest was not read"]


def test_a_lie_about_the_size_is_found_out():
    data = bytearray(archive_of((entry("a.py"), b"0" * 3000)))
    at = data.rfind(b"PK\x01\x02") + 24  # the size in the directory at the end
    data[at : at + 4] = (10).to_bytes(4, "little")
    pile = read(bytes(data))
    assert not [content for content in pile.files.values() if not len(content) <= 11]


def test_archives_nest_once_and_no_deeper():
    inner = zip_files({"a.py": b"1"})
    assert read(zip_files({"x.zip": inner})).files == {"a.py": b"1"}
    deep = read(zip_files({"x.zip": zip_files({"y.zip": inner}), "b.py": b"2"}))
    assert deep.files == {"b.py": b"2"}
    assert "an archive in an archive" in deep.problems[0]


def test_a_damaged_archive_is_told_and_the_others_are_read(tmp_path):
    (tmp_path / "ada.zip").write_bytes(zip_files(FILES)[:-30])
    (tmp_path / "bo.zip").write_bytes(zip_files(FILES))
    broken = bytearray(archive_of((entry("a.py"), os.urandom(500)), (entry("b.py"), b"b")))
    broken[60] ^= 255
    (tmp_path / "cem.zip").write_bytes(bytes(broken))
    _, (ada, bo, cem) = collect(tmp_path)
    assert any("ada.zip is damaged, or no zip archive" in said for said in ada.problems)
    assert len(bo.files) == 2
    assert cem.files == {"b.py": b"b"}
    assert "a.py cannot be unpacked" in cem.problems[0]


def test_junk_is_not_read():
    files = {"__MACOSX/._a.py": b"j", ".git/hooks/x.py": b"j", "w/.ipynb_checkpoints/a.py": b"j",
             "a.py": b"a", "notes.docx": b"j", "labs/x.mine-1.txt": b"m"}  # fmt: skip
    assert set(read(zip_files(files)).files) == {"a.py", "labs/x.mine-1.txt"}


def test_odd_names_are_harmless(tmp_path):
    (tmp_path / "a\nb<script>.py").write_text("x")
    with open(os.path.join(os.fsencode(tmp_path), b"J\xf6rg.py"), "w") as file:
        file.write("x")
    _, submissions = collect(tmp_path)
    assert [one.student for one in submissions] == ["a b<script>", "Jörg"]
    assert clean_name("a\x1b[31m\u202ered") == "a [31m red"


def test_nothing_there_is_one_sentence(tmp_path):
    with pytest.raises(WrongInput, match="is no folder of submissions: write SUBMISSIONS=folder"):
        collect(tmp_path / "nowhere")
