# Run `just` for the list.
default:
    @just --list

# Format, lint and test
check:
    cargo fmt --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace

# Run all checks of the continuous integration
ci:
    .ci/run

# Run an example: just example newsroom "Write about bees"
example name input:
    cargo run -p goondan-cli -- run examples/{{name}} --input "{{input}}"

# Accept changed snapshots, then read the diff
snapshots:
    INSTA_UPDATE=always cargo test --workspace
    git diff --stat -- '*.snap'

# Show the documentation site while you write
docs:
    ci/docs-site serve

# Measure every scenario, and write a table
bench:
    cargo build --release -p goondan-cli -p goondan-benches
    target/release/bench --all --table target/bench.md
    cat target/bench.md

# Build the shipped program in target/dist
dist:
    cargo build --profile dist -p goondan-cli

# Edit an open project at random, and compare the published diagnostics with a fresh load
edits sequences="10000":
    LSP_EDIT_SEQUENCES={{sequences}} cargo test -p goondan-lsp --test it diagnostics_after_edits

# Build all packages for this system from the program of `just dist`, in target/packages
package:
    rm -rf target/packages
    packaging/build --binary "$(rustc -vV | sed -n 's/^host: //p')=target/dist/gdn"

# Pack the VS Code extension as editors/vscode/goondan.vsix
vsix:
    cd editors/vscode && npm install --no-audit --no-fund && npm run package

# Run the attack tables and print each class with its count; then compare command lines with shells for a minute
attacks seconds="60":
    cargo test -p goondan-spec -p goondan-core -p goondan-engine -p goondan-tools -p goondan-models attacks -- --nocapture 2>&1 | grep '^attacks: '
    cargo test -p goondan-tests --test it command_lines -- --nocapture 2>&1 | grep -E '^(attacks: |test |test result)'
    cargo test -p goondan-cli --test cli safety
    cargo run -q -p goondan-cli -- test tests/conformance/attacks.case.yaml
    cargo build -q -p goondan-tests
    target/debug/trials lines --seconds {{seconds}}

# Start a separate PostgreSQL on a Unix socket and print its address; Ctrl-C ends it
postgres:
    tests/postgres.sh

# Kill, pause and disconnect nodes, and crash, stop and fill their database, for about forty minutes
chaos:
    cargo build -p goondan-tests
    tests/chaos.sh
