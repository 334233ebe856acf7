//! Holds the crates to the layers that they were drawn in.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

/// Every crate with the crates of this workspace that it may depend on. What does not stand here is not allowed.
const LAYERS: [(&str, &[&str]); 21] = [
    ("goondan-spec", &[]),
    ("goondan-abi", &[]),
    ("goondan-tls", &[]),
    ("goondan-markup", &[]),
    ("goondan-core", &["goondan-spec", "goondan-abi"]),
    ("goondan-lsp", &["goondan-spec", "goondan-core"]),
    (
        "goondan-packages",
        &["goondan-spec", "goondan-core", "goondan-tls"],
    ),
    ("goondan-store", &["goondan-spec", "goondan-core"]),
    ("goondan-store-postgres", &["goondan-core", "goondan-tls"]),
    ("goondan-engine", &["goondan-spec", "goondan-core"]),
    (
        "goondan-tools",
        &[
            "goondan-spec",
            "goondan-core",
            "goondan-tls",
            "goondan-markup",
        ],
    ),
    (
        "goondan-models",
        &["goondan-spec", "goondan-core", "goondan-tls"],
    ),
    (
        "goondan-mcp",
        &["goondan-spec", "goondan-core", "goondan-tls"],
    ),
    (
        "goondan-telemetry",
        &["goondan-spec", "goondan-core", "goondan-tls"],
    ),
    ("goondan-hosts", &["goondan-spec", "goondan-core"]),
    (
        "goondan-dylib",
        &["goondan-spec", "goondan-core", "goondan-abi"],
    ),
    (
        "goondan",
        &[
            "goondan-spec",
            "goondan-core",
            "goondan-store",
            "goondan-store-postgres",
            "goondan-engine",
            "goondan-tools",
            "goondan-models",
            "goondan-mcp",
            "goondan-telemetry",
            "goondan-hosts",
            "goondan-dylib",
        ],
    ),
    ("goondan-serve", &["goondan"]),
    (
        "goondan-connect",
        &["goondan", "goondan-tls", "goondan-markup"],
    ),
    ("goondan-conformance", &["goondan"]),
    (
        "goondan-cli",
        &[
            "goondan",
            "goondan-serve",
            "goondan-connect",
            "goondan-conformance",
            "goondan-lsp",
            "goondan-packages",
            "goondan-tls",
        ],
    ),
];

/// These packages test and measure the others, and are used by none.
const OUTSIDE: [&str; 4] = [
    "goondan-tests",
    "goondan-benches",
    "embedding",
    "notes-server",
];

/// A package, as `cargo metadata` describes it.
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev`, `build`, or none for what is shipped.
    kind: Option<String>,
}

fn packages() -> Vec<Package> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let described = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_str::<Metadata>(&described)
        .expect("cargo describes the workspace")
        .packages
}

fn cargo(args: &[&str]) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let output = Command::new(env!("CARGO"))
        .current_dir(folder)
        .args(args)
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "cargo {args:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// What each crate of the workspace uses of the others, tests aside.
fn edges(packages: &[Package]) -> BTreeMap<&str, BTreeSet<&str>> {
    let members: BTreeSet<&str> = packages
        .iter()
        .map(|package| package.name.as_str())
        .collect();
    let used = |package: &'_ Package| {
        let shipped = package
            .dependencies
            .iter()
            .filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        shipped
            .filter_map(|dependency| members.get(dependency.name.as_str()).copied())
            .collect()
    };
    packages
        .iter()
        .map(|package| (package.name.as_str(), used(package)))
        .collect()
}

#[test]
fn crates_depend_only_downwards() {
    let layers: BTreeMap<&str, &[&str]> = LAYERS.into_iter().collect();
    let packages = packages();
    let plugins = packages
        .iter()
        .filter(|package| package.manifest_path.contains("/plugins/"));
    let plugins: BTreeSet<&str> = plugins.map(|package| package.name.as_str()).collect();
    let mut wrong = Vec::new();
    for (name, used) in edges(&packages) {
        if OUTSIDE.contains(&name) {
            continue;
        }
        match layers.get(name) {
            // Libraries are strangers: they know the contract alone.
            None if plugins.contains(name) => {
                let strangers = used.iter().filter(|used| **used != "goondan-abi");
                wrong.extend(
                    strangers.map(|used| format!("the library {name} must not depend on {used}")),
                );
            }
            None => wrong.push(format!("{name} has no place among the layers")),
            Some(allowed) => {
                let strangers = used.iter().filter(|used| !allowed.contains(used));
                wrong.extend(strangers.map(|used| format!("{name} must not depend on {used}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_depends_on_the_tests_or_the_command() {
    for (name, used) in edges(&packages()) {
        assert!(
            OUTSIDE.iter().all(|outside| !used.contains(*outside)),
            "{name} depends on the tests or the benchmarks"
        );
        assert!(
            OUTSIDE.contains(&name) || !used.contains("goondan-cli"),
            "{name} depends on the command"
        );
    }
}

#[test]
fn every_crate_lies_in_a_folder_of_its_name() {
    for Package {
        name,
        manifest_path,
        ..
    } in packages()
    {
        let folder = Path::new(&manifest_path)
            .parent()
            .and_then(Path::file_name)
            .unwrap_or_default();
        assert!(
            *name == *folder || OUTSIDE.contains(&&*name),
            "{name} lies in {}",
            folder.display()
        );
    }
}

/// The command and the tests share what is built: a crate that had other features below one of them would be built twice, and
/// with it all that stands above it.
#[test]
fn the_command_is_built_with_the_features_that_the_tests_need() {
    let features = |of: &[&str]| -> BTreeSet<String> {
        let tree = [
            "tree",
            "--prefix",
            "none",
            "--no-dedupe",
            "--format",
            "{p} [{f}]",
        ];
        cargo(&[&tree[..], of].concat())
            .lines()
            .map(str::to_owned)
            .collect()
    };
    let command = features(&["-p", "goondan-cli", "--edges", "no-dev"]);
    let tests = features(&["--workspace"]);
    let built_twice: Vec<&String> = command.difference(&tests).collect();
    assert!(
        built_twice.is_empty(),
        "see the end of goondan-cli/Cargo.toml's dependencies: {built_twice:#?}"
    );
}
