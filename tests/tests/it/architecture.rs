//! Holds the crates to the layers that they were drawn in.

use std::collections::{BTreeMap, BTreeSet};

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};

/// Every crate with the crates of this workspace that it may depend on. What does not stand here is not allowed.
const LAYERS: [(&str, &[&str]); 12] = [
    ("goondan-spec", &[]),
    ("goondan-abi", &[]),
    ("goondan-core", &["goondan-spec"]),
    ("goondan-store", &["goondan-spec", "goondan-core"]),
    ("goondan-engine", &["goondan-spec", "goondan-core"]),
    ("goondan-tools", &["goondan-spec", "goondan-core"]),
    ("goondan-models", &["goondan-spec", "goondan-core"]),
    ("goondan-mcp", &["goondan-spec", "goondan-core"]),
    ("goondan-dylib", &["goondan-spec", "goondan-core", "goondan-abi"]),
    (
        "goondan",
        &[
            "goondan-spec",
            "goondan-core",
            "goondan-store",
            "goondan-engine",
            "goondan-tools",
            "goondan-models",
            "goondan-mcp",
            "goondan-dylib",
        ],
    ),
    ("goondan-conformance", &["goondan"]),
    ("goondan-cli", &["goondan", "goondan-conformance"]),
];

/// These packages test and measure the others, and are used by none.
const OUTSIDE: [&str; 4] = ["goondan-tests", "goondan-benches", "embedding", "notes-server"];

fn metadata() -> Metadata {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo describes the workspace")
}

/// What each crate of the workspace uses of the others, tests aside.
fn edges(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    let packages = metadata.workspace_packages();
    let members: BTreeSet<String> = packages.iter().map(|package| package.name.to_string()).collect();
    let used = |package: &cargo_metadata::Package| {
        let shipped = package.dependencies.iter().filter(|dependency| dependency.kind != DependencyKind::Development);
        shipped.map(|dependency| dependency.name.clone()).filter(|name| members.contains(name)).collect()
    };
    packages.iter().map(|package| (package.name.to_string(), used(package))).collect()
}

fn is_plugin(name: &str) -> bool {
    let packages = metadata();
    let package = packages.workspace_packages().into_iter().find(|package| package.name.as_str() == name);
    package.is_some_and(|package| package.manifest_path.as_str().contains("/examples/plugins/"))
}

#[test]
fn crates_depend_only_downwards() {
    let layers: BTreeMap<&str, &[&str]> = LAYERS.into_iter().collect();
    let mut wrong = Vec::new();
    for (name, used) in edges(&metadata()) {
        if OUTSIDE.contains(&name.as_str()) {
            continue;
        }
        match layers.get(name.as_str()) {
            // Libraries are strangers: they know the contract alone.
            None if is_plugin(&name) => {
                let strangers = used.iter().filter(|used| used.as_str() != "goondan-abi");
                wrong.extend(strangers.map(|used| format!("the library {name} must not depend on {used}")));
            }
            None => wrong.push(format!("{name} has no place among the layers")),
            Some(allowed) => {
                let strangers = used.iter().filter(|used| !allowed.contains(&used.as_str()));
                wrong.extend(strangers.map(|used| format!("{name} must not depend on {used}")));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_depends_on_the_tests_or_the_command() {
    for (name, used) in edges(&metadata()) {
        assert!(
            OUTSIDE.iter().all(|outside| !used.contains(*outside)),
            "{name} depends on the tests or the benchmarks"
        );
        assert!(OUTSIDE.contains(&name.as_str()) || !used.contains("goondan-cli"), "{name} depends on the command");
    }
}

#[test]
fn every_crate_lies_in_a_folder_of_its_name() {
    for package in metadata().workspace_packages() {
        let folder = package.manifest_path.parent().and_then(|folder| folder.file_name()).unwrap_or_default();
        let is_outside = OUTSIDE.contains(&package.name.as_str());
        assert!(package.name.as_str() == folder || is_outside, "{} lies in {folder}", package.name);
    }
}
