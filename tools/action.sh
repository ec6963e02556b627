#!/usr/bin/env bash
# What action.yml runs: lint the values files, check the manifests. Settings come as GRPO_ACTION_* variables, so that
# nothing of them is read as a command.
set -euo pipefail

lines() { # the lines of a text that are not empty, into the array called $1
  local -n array=$1
  local line
  array=()
  while IFS= read -r line; do
    line="${line#"${line%%[![:space:]]*}"}"
    line="${line%"${line##*[![:space:]]}"}"
    if [[ -n "$line" ]]; then array+=("$line"); fi
  done <<<"$2"
}

lines values "${GRPO_ACTION_VALUES:-}"
lines manifests "${GRPO_ACTION_MANIFESTS:-}"
if [[ ${#values[@]} -eq 0 && ${#manifests[@]} -eq 0 ]]; then
  echo "::error::give values or manifests: there is nothing to judge" >&2
  exit 2
fi

environment="$(mktemp -d)"
trap 'rm -rf "$environment"' EXIT
python3 -m venv "$environment"
"$environment/bin/pip" install --quiet --disable-pip-version-check "$GRPO_ACTION_PACKAGE"
grpo="$environment/bin/grpo"

options=(--format github --fail-on "${GRPO_ACTION_FAIL_ON:-error}")
files=()
for file in "${values[@]}"; do files+=(-f "$file"); done

status=0
if [[ ${#values[@]} -gt 0 ]]; then "$grpo" lint "${files[@]}" "${options[@]}" || status=$?; fi
if [[ ${#manifests[@]} -gt 0 && $status -le 1 ]]; then
  "$grpo" check "${manifests[@]}" "${files[@]}" "${options[@]}" || status=$(($? > status ? $? : status))
fi
exit "$status"
