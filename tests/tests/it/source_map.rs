//! Checks that every path in `docs/source.md` exists.

use std::path::Path;

/// Directories in which the paths of a table row may begin.
///
/// A crate name at the start of a path selects that crate for the rest of the row.
struct RowRoots<'a> {
    root: &'a Path,
    crate_name: String,
}

impl RowRoots<'_> {
    fn exists(&mut self, path: &str) -> bool {
        let (first, rest) = path.split_once('/').unwrap_or((path, ""));
        if first.starts_with("goondan") && self.root.join("crates").join(first).is_dir() {
            self.crate_name = first.to_owned();
            return self.root.join("crates").join(path).exists() || rest.is_empty();
        }
        let of_crate = self.root.join("crates").join(&self.crate_name);
        self.root.join(path).exists()
            || of_crate.join("src").join(path).exists()
            || of_crate.join("src/commands").join(path).exists()
    }
}

/// Expands one `{a,b}` group.
fn expand(path: &str) -> Vec<String> {
    match path.split_once('{').zip(path.split_once('}')) {
        Some(((before, rest), (_, after))) => rest
            .split('}')
            .next()
            .unwrap_or_default()
            .split(',')
            .map(|name| format!("{before}{name}{after}"))
            .collect(),
        None => vec![path.to_owned()],
    }
}

#[test]
fn every_path_of_the_source_map_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let table = std::fs::read_to_string(root.join("docs/source.md")).unwrap();
    let mut missing = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let Some(paths) = row.split('|').nth(2) else {
            continue;
        };
        let mut roots = RowRoots {
            root: &root,
            crate_name: String::new(),
        };
        for token in paths.split('`').skip(1).step_by(2) {
            let is_pattern = token.contains('*');
            for path in expand(token) {
                if !is_pattern && !roots.exists(path.trim_end_matches('/')) {
                    missing.push(format!("{}: {path}", roots.crate_name));
                }
            }
        }
    }
    assert!(
        missing.is_empty(),
        "docs/source.md names missing paths:\n{}",
        missing.join("\n")
    );
}
