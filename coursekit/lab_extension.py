"""An extension of JupyterLab's server that adds the course's style sheet to its pages."""

from pedagogy_lib.pictures.picture_html import STYLE_FOLDER


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(server):
    """Add the course's folder to those whose first `custom.css` JupyterLab loads with `custom_css`.

    A learner's own comes first, the empty one of the server last.
    """
    server.static_custom_path.insert(1, str(STYLE_FOLDER))
