# Run `just` for the list.
default:
    @just --list

# Format, lint and test
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace

# Everything that the continuous integration does
ci:
    .ci/run

# Run an example: just example newsroom "Write about bees"
example name input:
    cargo run -p goondan-cli -- run examples/{{name}} --input "{{input}}"

# Accept changed snapshots, then read the diff
snapshots:
    INSTA_UPDATE=always cargo test --workspace
    git diff --stat -- '*.snap'

# Measure every scenario, and write a table
bench:
    cargo build --release -p goondan-cli -p goondan-benches
    target/release/bench --all --table target/bench.md
    cat target/bench.md

# Build what is shipped for Linux on x86-64, in target/release. Relocations are packed, functions with the same code become one,
# and what a start runs lies together, so that few pages of the program come into memory: valgrind records a start. It needs
# glibc 2.36 (August 2022) or newer to start; `cargo build --release` makes a binary that does not.
dist:
    #!/usr/bin/env bash
    set -euo pipefail
    build() {
      cargo rustc --release -p goondan-cli --bin gdn -- \
        -C link-arg=-Wl,-z,pack-relative-relocs -C link-arg=-Wl,--icf=all "$@"
    }
    build -C strip=none
    record() {
      valgrind --quiet --tool=callgrind --demangle=no --callgrind-out-file="target/start-$1.out" \
        target/release/gdn run --state-root target/start-state --trust --yes "${@:2}"
    }
    record hello examples/hello --input Hello
    record newsroom examples/newsroom --input Bees
    echo '{"input": "Hello"}' | record serving examples/hello --input-format stream-json --output-format json
    sed -nE "s/^c?fn=\([0-9]+\) (_[A-Za-z0-9_.$]+).*/\1/p" target/start-*.out | sort -u > target/start-order
    order="$PWD/target/start-order"
    build -C link-arg=-Wl,--no-warn-symbol-ordering -C "link-arg=-Wl,--symbol-ordering-file=$order"

# Try the tables of attacks, and print each class with its count; then run command lines both ways for a minute
attacks seconds="60":
    cargo test -p goondan-spec -p goondan-runtime -p goondan-tools -p goondan-models attacks -- --nocapture 2>&1 | grep '^attacks: '
    cargo test -p goondan-tests --test it command_lines -- --nocapture 2>&1 | grep -E '^(attacks: |test |test result)'
    cargo run -q -p goondan-cli -- test tests/conformance/attacks.case.yaml
    cargo build -q -p goondan-tests
    target/debug/trials lines --seconds {{seconds}}
