#!/usr/bin/env bash
# The steps of action.yml: `action.sh install`, `action.sh validate`, `action.sh test`. What a step needs stands in variables.
set -euo pipefail

case $1 in
  install)
    prefix=$RUNNER_TEMP/gdn
    [ "${GDN_VERSION:-}" != latest ] || GDN_VERSION=
    export GDN_VERSION
    [ -n "${GDN_BASE_URL:-}" ] || unset GDN_BASE_URL
    if [ "${RUNNER_OS:-}" = Windows ]; then
      GDN_INSTALL_DIR=$prefix pwsh -File "$(dirname "$0")/install.ps1"
    else
      sh "$(dirname "$0")/install.sh" --prefix "$prefix"
    fi
    echo "$prefix/bin" >>"$GITHUB_PATH"
    ;;
  validate)
    # Problems are annotations in the pull request.
    strict=()
    [ "${STRICT:-}" != true ] || strict=(--strict)
    gdn validate "$PROJECT" --format github "${strict[@]}"
    ;;
  test)
    # Projects without cases have nothing to test.
    if [ -z "$(find "$PROJECT" -name '*.case.yaml' -print -quit)" ]; then
      echo "There are no *.case.yaml files in $PROJECT."
    else
      gdn test "$PROJECT"
    fi
    ;;
  *)
    echo "action.sh: there is no step \`$1\`" >&2
    exit 2
    ;;
esac
