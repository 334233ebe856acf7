#!/bin/sh
# Installs gdn without a compiler: downloads the archive for this system, verifies its checksum, and unpacks it below a prefix.
#
#   curl -fsSL https://github.com/goondan/gdn/releases/latest/download/install.sh | sh
#
# Run it again for a newer version, or to repair an installation. `sh install.sh --help` lists the options.
set -eu
umask 022

BASE=https://github.com/goondan/gdn/releases
LARGEST=201326592

usage() {
  cat <<'END'
Usage: install.sh [--prefix DIR] [--version VERSION] [--base-url URL] [--target TRIPLE]

  --prefix DIR        Install below this folder: DIR/bin/gdn, DIR/share/... [default: GDN_INSTALL_DIR, else ~/.local]
  --version VERSION   Install this version [default: GDN_VERSION, else the newest]
  --base-url URL      Download from here [default: GDN_BASE_URL, else the releases on GitHub]
  --target TRIPLE     Install the binary for this target [default: that of this system]
END
}

main() {
  prefix=${GDN_INSTALL_DIR:-${HOME:?}/.local}
  version=${GDN_VERSION:-}
  base=${GDN_BASE_URL:-$BASE}
  targets=
  while [ $# -gt 0 ]; do
    case $1 in
      --help | -h) usage && exit 0 ;;
      --prefix | --version | --base-url | --target) [ $# -ge 2 ] || fail "$1 needs a value" ;;
      *) fail "the option \`$1\` is unknown; see --help" ;;
    esac
    case $1 in
      --prefix) prefix=$2 ;;
      --version) version=$2 ;;
      --base-url) base=$2 ;;
      --target) targets=$2 ;;
    esac
    shift 2
  done
  base=${base%/}
  version=${version#v}
  check_words
  [ -n "$targets" ] || targets=$(targets_of_this_system)
  mkdir -p "$prefix/bin" "$prefix/share/gdn" || fail "$prefix can't be written; choose another folder with --prefix"
  prefix=$(cd "$prefix" && pwd)
  # Beside the place that the binary goes to, so that the last step is one rename.
  work=$(mktemp -d "$prefix/share/gdn/.install-XXXXXX")
  trap 'rm -rf "$work"' EXIT
  trap 'exit 1' HUP INT TERM
  fetch_sums
  install_one_of "$targets"
  advise
}

fail() {
  printf 'install.sh: %s.\n' "$1" >&2
  exit 1
}

# What goes into addresses and into the receipt holds nothing that means something there.
check_words() {
  case $base in
    *[!A-Za-z0-9:/._~%@+-]*) fail "the address \`$base\` holds a character that is not allowed" ;;
    https://* | http://localhost[:/]* | http://127.0.0.1[:/]*) ;;
    *) fail "the address \`$base\` is not https://; plain http is for this machine alone" ;;
  esac
  case $version in *[!A-Za-z0-9.+-]*) fail "\`$version\` is no version" ;; esac
}

# The targets whose binaries may run here, the best one first.
targets_of_this_system() {
  machine=$(uname -m)
  case $machine in
    x86_64 | amd64) machine=x86_64 ;;
    aarch64 | arm64) machine=aarch64 ;;
    *) fail "there is no binary for the processor \`$machine\`; build gdn with cargo instead" ;;
  esac
  case $(uname -s) in
    Linux)
      if has_musl; then
        echo "$machine-unknown-linux-musl"
      else
        echo "$machine-unknown-linux-gnu $machine-unknown-linux-musl"
      fi
      ;;
    Darwin)
      # A shell that runs under Rosetta says x86_64.
      [ "$(sysctl -n hw.optional.arm64 2>/dev/null || :)" != 1 ] || machine=aarch64
      echo "$machine-apple-darwin"
      ;;
    MINGW* | MSYS* | CYGWIN*) fail "on Windows, install with PowerShell: irm $base/latest/download/install.ps1 | iex" ;;
    *) fail "there is no binary for \`$(uname -s)\`; build gdn with cargo instead" ;;
  esac
}

has_musl() {
  case $(ldd --version 2>&1 || :) in
    *musl*) return 0 ;;
    *) return 1 ;;
  esac
}

# Downloads $1 to $2.
download() {
  if command -v curl >/dev/null; then
    curl --fail --silent --show-error --location --proto '=http,https' --proto-redir '=https,http' --retry 2 \
      --max-filesize "$LARGEST" --output "$2" "$1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1"
  else
    fail "neither curl nor wget is installed"
  fi || fail "$1 can't be downloaded"
}

checksum() {
  if command -v sha256sum >/dev/null; then
    sha256sum <"$1"
  elif command -v shasum >/dev/null; then
    shasum -a 256 <"$1"
  elif command -v openssl >/dev/null; then
    openssl dgst -sha256 -r <"$1"
  else
    fail "none of sha256sum, shasum and openssl is installed, so nothing can be verified"
  fi | cut -d ' ' -f 1
}

# The list of checksums also tells which version is the newest.
fetch_sums() {
  if [ -n "$version" ]; then
    download "$base/download/v$version/SHA256SUMS" "$work/sums"
  else
    download "$base/latest/download/SHA256SUMS" "$work/sums"
  fi
}

# Installs the first of the targets $1 that is offered and runs here.
install_one_of() {
  for target in $1; do
    line=$(grep -E "^[0-9a-f]{64}  gdn-[0-9A-Za-z.+-]+-$target\.tar\.gz$" "$work/sums" | head -n 1) || :
    [ -n "$line" ] || continue
    file=${line#*  }
    found=${file#gdn-}
    found=${found%-"$target".tar.gz}
    [ -z "$version" ] || [ "$found" = "$version" ] || fail "$base has version $found where $version was asked for"
    unpack "${line%% *}" "$file"
    if said=$("$work/gdn-$found-$target/bin/gdn" --version 2>&1) && [ "$said" = "gdn $found" ]; then
      settle "$work/gdn-$found-$target"
      return
    fi
    printf 'The binary for %s does not run here: %s\n' "$target" "$said" >&2
  done
  fail "$base has no binary that runs here (looked for: $1)"
}

# Downloads the archive $2 and unpacks it, if its checksum is $1.
unpack() {
  printf 'Downloading %s\n' "$2" >&2
  download "$base/download/v$found/$2" "$work/$2"
  is=$(checksum "$work/$2")
  [ "$is" = "$1" ] || fail "the checksum of $2 is $is and should be $1; nothing was installed"
  tar -xzf "$work/$2" -C "$work" || fail "$2 can't be unpacked"
}

# Brings the files of the folder $1 to their places. The binary comes last, by a rename: whoever starts gdn meanwhile gets the
# old one or the new one.
settle() {
  cp -R "$1/share/." "$prefix/share/"
  printf '{\n  "version": "%s",\n  "target": "%s",\n  "base": "%s"\n}\n' "$found" "$target" "$base" >"$work/receipt.json"
  mv -f "$1/bin/gdn" "$prefix/bin/gdn"
  mv -f "$work/receipt.json" "$prefix/share/gdn/receipt.json"
  printf 'Installed gdn %s as %s\n' "$found" "$prefix/bin/gdn" >&2
}

# shellcheck disable=SC2016
advise() {
  case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) printf 'Add it to your PATH: export PATH="%s:$PATH"\n' "$prefix/bin" >&2 ;;
  esac
  printf 'Try it: gdn init my-swarm && gdn run my-swarm --input "Hello"\n' >&2
}

# The last line: a download that was cut off does nothing.
main "$@"
