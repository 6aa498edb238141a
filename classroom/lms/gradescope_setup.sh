#!/usr/bin/env bash
# Gradescope calls this once, as root, while it makes the image: the course's Python, and rights.
set -euo pipefail
cd "$(dirname "$0")"

apt-get update
apt-get install -y python3 python3-venv bubblewrap

cd course
python3 tools/setup.py

# Students' code runs as other users, who can read Python here, and nothing else.
chmod -R go-rwx .
find .venv -exec chmod go+rX {} +
chmod 711 . ..
