"""`make ledger`: the ledger as two pages, one of all statements and one of the corrections."""

from collections.abc import Callable
from html import escape
from pathlib import Path
from string import Template

from pedagogy_lib.basics.errors import need_course
from pedagogy_lib.basics.units import format_count

from ..building.build import ROOT
from .claims import EVIDENCE
from .ledger import DOCUMENTS, KINDS, Row, corrections, counts_of, execute_what_is_missing, ledger

HERE = Path(__file__).parent / "ledger_page"
FOLDER = ROOT / "ledger"
STYLES = ("page.css", "ledger.css")  # a page with its own look takes the second alone
Link = Callable[[Row], str]


def write_ledger(folder: Path = FOLDER) -> list[Path]:
    """Execute what is missing, and write `index.html` and `corrections.html`."""
    need_course(ROOT / "solutions")
    execute_what_is_missing()
    rows = ledger()
    folder.mkdir(parents=True, exist_ok=True)
    pages = {
        "index.html": ("The ledger", ledger_body(rows, link_to_record)),
        "corrections.html": ("Corrections", corrections_body(rows, link_to_record)),
    }
    for name, (title, body) in pages.items():
        (folder / name).write_text(whole_page(title, body), encoding="utf-8")
    return [folder / name for name in pages]


def free_name() -> str:
    """Return the next free name of a statement."""
    return f"C{1 + max(int(row.name[1:]) for row in ledger()):03}"


def link_to_record(row: Row) -> str:
    return f"../solutions/{row.stem}.ipynb"


def whole_page(title, body) -> str:
    """Return a page that needs no other file."""
    page = Template((HERE / "page.html").read_text(encoding="utf-8"))
    return page.substitute(
        title=title,
        style="".join((HERE / name).read_text(encoding="utf-8") for name in STYLES),
        script=(HERE / "ledger.js").read_text(encoding="utf-8"),
        body=body,
    )


def ledger_body(rows, link: Link) -> str:
    """Return counts, filters, and a row per statement; `link` gives the address of its part."""
    template = Template((HERE / "ledger.html").read_text(encoding="utf-8"))
    measured = sum(row.evidence == "measured" for row in rows)
    return template.substitute(
        statements=format_count(len(rows), "statement"),
        measured=measured,
        counts=counts_table(rows),
        kinds=options(KINDS),
        evidence=options(EVIDENCE),
        documents=options(DOCUMENTS),
        parts=options(dict.fromkeys(row.part for row in sorted(rows, key=lambda r: r.stem))),
        rows="\n".join(row_html(row, link) for row in rows),
    )


def counts_table(rows) -> str:
    """Return a table of the number of verdicts, by kind and by evidence."""
    counts = counts_of(rows)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in [*EVIDENCE, "all"])
    lines = [counts_line(kind, [*by.values(), sum(by.values())]) for kind, by in counts.items()]
    of_all = [sum(by[evidence] for by in counts.values()) for evidence in EVIDENCE]
    lines.append(counts_line("all", [*of_all, sum(of_all)]))
    return (
        f'<table class="counts"><thead><tr><th scope="col">verdict</th>{heads}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def counts_line(name, numbers) -> str:
    cells = "".join(f"<td>{number}</td>" for number in numbers)
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>'


def options(names) -> str:
    return "".join(f"<option>{escape(name)}</option>" for name in names)


def row_html(row: Row, link: Link) -> str:
    """Return a row of the table; the filters read its `data-` attributes."""
    data = {
        "kind": row.kind,
        "evidence": row.evidence,
        "documents": "|".join(source.document for source in row.sources),
        "part": row.part,
    }
    attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items())
    said = "; ".join(escape(str(source)) for source in row.sources)
    return (
        f'<tr id="{row.name}" {attributes}><th scope="row">{row.name}</th>'
        f"<td>{escape(row.statement)}<small>{said}</small></td>"
        f"<td><b>{escape(row.verdict)}</b><small>{row.evidence}</small></td>"
        f"<td>{escape(row.found)}<small>{place_of(row, link)}</small></td>"
        f"<td>{escape(row.on_gpus)}</td></tr>"
    )


def place_of(row: Row, link: Link) -> str:
    """Return the place of a figure: the part, its section, and the cell of the part's table."""
    section = f", section {escape(row.section)}" if row.section else ""
    part = f'<a href="{escape(link(row))}">{escape(row.title)}</a>'
    return f"{part}{section} (table in cell {row.cell})"


def corrections_body(rows, link: Link) -> str:
    """Return, for each document, what its author may want to change."""
    template = Template((HERE / "corrections.html").read_text(encoding="utf-8"))
    found = {document: places for document, places in corrections(rows).items() if places}
    sections = [document_html(document, places, link) for document, places in found.items()]
    return template.substitute(
        count=format_count(sum(map(len, found.values())), "place"),
        documents=format_count(len(found), "document"),
        sections="\n".join(sections),
    )


def document_html(document, places, link: Link) -> str:
    items = "\n".join(correction_html(source, row, link) for source, row in places)
    name, number = escape(DOCUMENTS[document]), format_count(len(places), "place")
    return f"<h2>{name}</h2><p>{number}.</p><dl>{items}</dl>"


def correction_html(source, row: Row, link: Link) -> str:
    where = escape(source.heading) or "throughout"
    return (
        f"<dt>{where}: {escape(row.statement)} <small>{row.name}</small></dt>"
        f"<dd><b>{escape(row.verdict)}</b>: {escape(row.found)}"
        f"<small>{row.evidence} in {place_of(row, link)}</small></dd>"
    )
