#!/usr/bin/env bash
# Every factory is fitted, saved, and read again by a copy of the package that cannot be written to, without a home.
set -euo pipefail
cd "$(dirname "$0")/.."
python="$PWD/.venv/bin/python"
folder="$(mktemp -d)"
trap 'chmod -R u+w "$folder"; rm -rf "$folder"' EXIT
mkdir "$folder/copy" "$folder/temporary"
cp -r zoo tests pyproject.toml "$folder/copy"
find "$folder/copy" -name __pycache__ -type d -prune -exec rm -rf {} +
# Permissions do not stop root: a file stands where the cache of each folder would.
find "$folder/copy" -type d -exec touch {}/__pycache__ \;
chmod -R a-w "$folder/copy"
cd "$folder/copy"
env -u XDG_CACHE_HOME HOME=/dev/null TMPDIR="$folder/temporary" MPLCONFIGDIR="$folder/temporary" PYTHONDONTWRITEBYTECODE=1 \
    "$python" -m pytest -n 2 --dist loadscope -p no:cacheprovider tests/test_contract.py -k "save_and_load or predict_known_tasks"
