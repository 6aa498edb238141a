# The course in a container, with JupyterLab at http://127.0.0.1:8888:
#
#     docker build --tag course .
#     docker run --rm -it -p 127.0.0.1:8888:8888 --shm-size 1g \
#         -v course-work:/home/learner/course/work -v course-labs:/home/learner/course/labs course
#
# What a learner writes is in work/ and labs/: these two volumes keep it. `docker run … course make
# smoke` checks the image in two minutes. tools/try_dockerfile.py runs these steps without Docker.
#
# A newer image finds the labs of the older one in that volume. To have the new ones, save what is
# written in labs/, then `docker volume rm course-labs`; the next run fills it from the image.
# Grading in this container needs more rights: classroom/README.md.
ARG BASE=python:3.11-slim-bookworm
FROM ${BASE}

RUN apt-get update \
    && apt-get install --yes --no-install-recommends bubblewrap git make \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 --shell /bin/bash learner \
    && install --directory --owner=learner --group=learner /home/learner/course
USER learner
WORKDIR /home/learner/course
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# What seldom changes comes first: another notebook does not install PyTorch anew.
COPY --chown=learner:learner pyproject.toml constraints.txt LICENSE Makefile ./
COPY --chown=learner:learner tools/setup.py tools/
COPY --chown=learner:learner pedagogy_lib/__init__.py pedagogy_lib/
COPY --chown=learner:learner coursekit/__init__.py coursekit/
RUN make setup

COPY --chown=learner:learner . .
RUN .venv/bin/python -m pedagogy_lib copies

EXPOSE 8888
CMD ["make", "lab", "LAB_ARGS=--ip=0.0.0.0 --no-browser"]
