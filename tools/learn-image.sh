#!/usr/bin/env bash
# Make .tools/learn/image for `make learn PODS=1`: folders that become the layers of a training image, because no registry has one for a CPU.
# usage: tools/learn-image.sh     after tools/learn.sh with Python 3.13. Needs root and the Debian package debootstrap.
#
# base/         Debian 13; its own Python 3.13 is the image's interpreter
# environment/  opt/nemo_rl_venv: the files of .tools/learn/venv as hard links
# code/         opt/nemo-rl: NeMo RL's source with bytecode
set -euo pipefail
cd "$(dirname "$0")/.."
packages=python3,procps,ca-certificates
learn=$PWD/.tools/learn
image=$learn/image
stamp="$packages $(cat "$learn/venv/.stamp") $(realpath "$learn/source")"
if [ "$(cat "$image/.stamp" 2>/dev/null)" = "$stamp" ]; then
  echo "up to date: the folders of the training image"
  exit 0
fi
command -v debootstrap >/dev/null || { echo "learn: SKIPPED: needs debootstrap (apt-get install debootstrap)" >&2; exit 3; }
[ "$(id -u)" = 0 ] || { echo "learn: SKIPPED: debootstrap needs root" >&2; exit 3; }
[ -d "$learn/venv/lib/python3.13" ] ||
  { echo "learn: SKIPPED: .tools/learn/venv is not of Python 3.13, which the image has; delete it and set PYTHON=python3.13" >&2; exit 3; }

rm -rf "$image"
mkdir -p "$image/environment/opt" "$image/code/opt"
debootstrap --variant=minbase --include="$packages" trixie "$image/base" >"$learn/debootstrap.log"
rm -rf "$image"/base/var/cache/apt/* "$image"/base/var/lib/apt/lists/* "$image"/base/usr/share/{doc,man,locale}

venv=$image/environment/opt/nemo_rl_venv
cp --archive --link "$learn/venv" "$venv"
rm "$venv"/bin/python* "$venv/pyvenv.cfg"
ln -s /usr/bin/python3.13 "$venv/bin/python3.13"
for name in python python3; do ln -s python3.13 "$venv/bin/$name"; done
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$venv/pyvenv.cfg"

cp --recursive --dereference "$learn/source" "$image/code/opt/nemo-rl"
rm -rf "$image/code/opt/nemo-rl/.git"
chroot "$image/base" python3 -c 'import sys; print("Python", sys.version.split()[0])'
"$learn/venv/bin/python" -m compileall -q -s "$image/code" "$image/code/opt/nemo-rl/nemo_rl" || true
echo "$stamp" >"$image/.stamp"
echo "made: the folders of the training image"
