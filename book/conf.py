"""Sphinx's settings. The pages that it reads are composed by `python -m book`."""

from pathlib import Path

HERE = Path(__file__).parent
WIDGETS = HERE.parent / "pedagogy_lib" / "widgets"

project = "Distributed training, measured"
author = ""
copyright = "the course's authors; MIT licence"
extensions = ["myst_nb", "book.formulas", "book.theme"]
root_doc = "index"
language = "en"
smartquotes = False  # quotes and dashes stay as they were written

nb_execution_mode = "off"
nb_merge_streams = True
nb_number_source_lines = False
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
myst_disable_syntax = ["myst_role", "myst_line_comment", "myst_target", "myst_block_break"]
html_math_renderer = "mathml"

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = [str(HERE / "static"), str(WIDGETS / "course.css")]
html_css_files = ["course.css", "book.css"]
html_js_files = [("book.js", {"defer": "defer"})]
html_sidebars = {"**": ["course-logo.html", "search-button-field.html", "sbt-sidebar-nav.html"]}
html_use_index = False
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_permalinks_icon = "#"
html_theme_options = {
    "use_download_button": False,
    "use_fullscreen_button": False,
    "home_page_in_toc": False,
    "show_navbar_depth": 1,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "toc_title": "On this page",
    "navbar_persistent": [],
}
html_context = {"default_mode": "auto"}
templates_path = [str(HERE / "templates")]
nb_code_prompt_show = "Show the code"
nb_code_prompt_hide = "Hide the code"
