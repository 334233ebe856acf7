//! A project folder, read together with its environment files.

use std::path::Path;
use std::sync::Arc;

use goondan_spec::{Bundle, Diagnostic};

/// What came of reading a project folder.
pub struct Project {
    /// The bundle; `None` where any diagnostic is an error.
    pub bundle: Option<Arc<Bundle>>,
    /// Errors and warnings of all files.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads the project at `path`: a folder, or the `goondan.yaml` in it.
pub fn load(_path: &Path) -> Project {
    unimplemented!()
}
