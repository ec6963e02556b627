#!/usr/bin/env bash
# Draw docs/howto/report.png, the upper part of the page that `grpo report` makes of a log. usage: tools/report-picture.sh LOG
# Needs Chromium (CHROMIUM=PROGRAM, by default chromium) and the environment of `make`.
set -euo pipefail
log=$(realpath -- "${1:?usage: tools/report-picture.sh LOG}")
root=$(realpath -- "$(dirname "$0")/..")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# The page shows the name of the file.
cp "$log" "$folder/sums.log"
cd "$folder"
"$root/.venv/bin/grpo" report sums.log -o report.html
"${CHROMIUM:-chromium}" --headless --no-sandbox --hide-scrollbars --window-size=1000,1390 --virtual-time-budget=10000 \
  --screenshot=report.png "file://$folder/report.html" 2>/dev/null
# 128 colours make it a third as large.
"$root/.venv/bin/python" -c 'import sys; from PIL import Image; Image.open(sys.argv[1]).convert("RGB").quantize(128).save(sys.argv[2], optimize=True)' \
  report.png "$root/docs/howto/report.png"
ls -l "$root"/docs/howto/report.png
