"""An extension of the server of JupyterLab: the course's style sheet for its pages."""

from pedagogy_lib.pictures.picture_html import STYLE_FOLDER


def _jupyter_server_extension_points():
    return [{"module": __name__}]


def _load_jupyter_server_extension(server):
    """With `custom_css`, JupyterLab loads the first `custom.css` of these folders.

    A learner's own comes first, the empty one of the server last.
    """
    server.static_custom_path.insert(1, str(STYLE_FOLDER))
