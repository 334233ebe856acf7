//! Checks that `docs/environment.md` lists the variables that the program reads.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

/// Prefixes of variables, which the page explains as a pattern.
const PREFIXES: [&str; 2] = ["GOONDAN_SECRET_", "OTEL_EXPORTER_OTLP_"];
/// Variables that only tests of the program itself read.
const TEST_VARIABLES: [&str; 3] = ["GDN_FUZZ_SECONDS", "GDN_FUZZ_SEED", "GDN_TEST_PANICS"];

/// Adds the variables that string literals of the Rust files below `directory` name.
fn collect_variables(directory: &Path, name: &Regex, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let file = path.file_name().unwrap().to_str().unwrap();
        if path.is_dir() {
            collect_variables(&path, name, found);
        } else if file.ends_with(".rs") && !file.contains("tests") {
            let text = std::fs::read_to_string(&path).unwrap();
            found.extend(name.captures_iter(&text).map(|name| name[1].to_owned()));
        }
    }
}

#[test]
fn the_page_lists_every_variable() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = std::fs::read_to_string(root.join("docs/environment.md")).unwrap();
    let name = Regex::new(r#""((?:GOONDAN|GDN|OTEL)_[A-Z_]*[A-Z])""#).unwrap();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("crates")).unwrap() {
        collect_variables(&entry.unwrap().path().join("src"), &name, &mut found);
    }
    assert!(found.len() > 15, "{found:?}");
    let is_listed = |name: &str| {
        page.contains(&format!("`{name}`"))
            || TEST_VARIABLES.contains(&name)
            || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let missing: Vec<&String> = found.iter().filter(|name| !is_listed(name)).collect();
    assert!(missing.is_empty(), "docs/environment.md lacks {missing:?}");
}
