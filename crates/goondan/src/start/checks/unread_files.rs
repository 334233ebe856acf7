//! Files that contain resources but are not read.

use std::path::Path;

use goondan_spec::{Code, Diagnostic, OsFiles};

/// Returns a warning for each YAML file of the project at `root` that contains resources but is not
/// read.
pub fn unread_files(root: &Path) -> Vec<Diagnostic> {
    let unread = goondan_spec::unread_resource_files(&OsFiles, root);
    unread.into_iter().map(warning).collect()
}

/// Returns the warning about one file.
fn warning(file: String) -> Diagnostic {
    let name = file.rsplit('/').next().unwrap_or(&file);
    let message = format!("`{file}` contains resources, but its name means that it is not read.");
    let suggestion = format!("rename it to `agents.yaml`, or move it to `resources/{name}`");
    Diagnostic::new(Code::UNREAD_FILE, message)
        .in_file(file)
        .suggest(suggestion)
}
