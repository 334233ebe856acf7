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

# Build what is shipped, in target/dist
dist:
    cargo build --profile dist -p goondan-cli

# Edit an open project at random that often, and compare what is published with a fresh load
edits sequences="10000":
    LSP_EDIT_SEQUENCES={{sequences}} cargo test -p goondan-lsp --test it published_is

# Make every package of this system from what `just dist` has built, in target/packages
package:
    rm -rf target/packages
    packaging/build --binary "$(rustc -vV | sed -n 's/^host: //p')=target/dist/gdn"

# The extension for VS Code, as editors/vscode/goondan.vsix
vsix:
    cd editors/vscode && npm install --no-audit --no-fund && npm run package

# Try the tables of attacks, and print each class with its count; then run command lines both ways for a minute
attacks seconds="60":
    cargo test -p goondan-spec -p goondan-core -p goondan-engine -p goondan-tools -p goondan-models attacks -- --nocapture 2>&1 | grep '^attacks: '
    cargo test -p goondan-tests --test it command_lines -- --nocapture 2>&1 | grep -E '^(attacks: |test |test result)'
    cargo run -q -p goondan-cli -- test tests/conformance/attacks.case.yaml
    cargo build -q -p goondan-tests
    target/debug/trials lines --seconds {{seconds}}

# Start a PostgreSQL of its own on a socket, print its address, and end it with Ctrl-C
postgres:
    tests/postgres.sh

# Kill, pause and cut off nodes, and crash, stop and fill up their database, for about forty minutes
chaos:
    cargo build -p goondan-tests
    tests/chaos.sh
