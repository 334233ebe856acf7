//! Finds dependency cycles among packages whose manifests are in the project directory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::diagnostic::{Code, Diagnostic, SourcePosition};
use crate::meta::{Kind, ResourceId};
use crate::packages::root_manifest;
use crate::parsed_file::ParsedFile;

/// Dependencies of each package, with position and list index.
type DependencyEdges<'f> = BTreeMap<&'f str, Vec<(&'f str, SourcePosition, usize)>>;

/// Reports the project's dependencies that lead back to it. A self-dependency is reported by the
/// decoder.
pub(crate) fn find(files: &[Arc<ParsedFile>], nested: &[Arc<ParsedFile>]) -> Vec<Diagnostic> {
    let Some(own) = root_manifest(files) else {
        return Vec::new();
    };
    let Some(name) = own.package() else {
        return Vec::new();
    };
    let edges: DependencyEdges<'_> = nested
        .iter()
        .map(AsRef::as_ref)
        .chain([own])
        .filter_map(|file| Some((file.package()?, dependencies(file))))
        .collect();
    let mut cycles = Vec::new();
    for (dependency, at, index) in edges
        .get(name)
        .into_iter()
        .flatten()
        .filter(|(dependency, ..)| *dependency != name)
    {
        if let Some(cycle) = dependency_path(name, dependency, &edges) {
            let circle = format!("{name} → {}", cycle.join(" → "));
            cycles.push(
                Diagnostic::new(
                    Code::CYCLE,
                    format!("The packages depend on each other in a circle: {circle}."),
                )
                .in_file(own.name.clone())
                .at(*at)
                .of(ResourceId {
                    package: None,
                    kind: Kind::Package,
                    name: name.to_owned(),
                })
                .field(format!("spec.dependencies[{index}].name"))
                .suggest("remove one of the dependencies"),
            );
        }
    }
    cycles
}

/// Returns the name, its position and the index of each dependency in a package manifest.
fn dependencies(file: &ParsedFile) -> Vec<(&str, SourcePosition, usize)> {
    file.dependencies()
        .iter()
        .enumerate()
        .filter_map(|(index, item)| {
            let name = &item.entry("name")?.value;
            Some((name.text()?, name.at, index))
        })
        .collect()
}

/// Returns the path of packages from `from` to `target`, inclusive. Breadth first, so the shortest
/// cycle is reported.
fn dependency_path<'f>(
    target: &str,
    from: &'f str,
    edges: &DependencyEdges<'f>,
) -> Option<Vec<&'f str>> {
    let mut paths = vec![vec![from]];
    let mut visited = vec![from];
    while let Some(path) = (!paths.is_empty()).then(|| paths.remove(0)) {
        let last = *path.last()?;
        if last == target {
            return Some(path);
        }
        for (next, ..) in edges.get(last).into_iter().flatten() {
            if *next == target || !visited.contains(next) {
                visited.push(next);
                paths.push(path.iter().copied().chain([*next]).collect());
            }
        }
    }
    None
}
