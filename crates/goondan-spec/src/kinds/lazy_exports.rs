//! Lazily computed exports of a tool.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::ExportSpec;

type ExportsInit = Box<dyn FnOnce() -> Vec<ExportSpec> + Send>;

/// Exports of a tool, in order.
///
/// A project uses only a few of the built-in tools. [`LazyExports::later`] therefore computes the
/// exports on first access, and clones share the result.
#[derive(Clone, Deserialize, Serialize)]
#[serde(from = "Vec<ExportSpec>", into = "Vec<ExportSpec>")]
pub struct LazyExports(Arc<LazyLock<Vec<ExportSpec>, ExportsInit>>);

impl LazyExports {
    /// Returns exports that `make` computes on first access.
    pub fn lazy(make: impl FnOnce() -> Vec<ExportSpec> + Send + 'static) -> Self {
        LazyExports(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Vec<ExportSpec>> for LazyExports {
    fn from(exports: Vec<ExportSpec>) -> Self {
        LazyExports::lazy(|| exports)
    }
}

impl From<LazyExports> for Vec<ExportSpec> {
    fn from(exports: LazyExports) -> Self {
        exports.to_vec()
    }
}

impl Default for LazyExports {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl Deref for LazyExports {
    type Target = [ExportSpec];

    fn deref(&self) -> &[ExportSpec] {
        &self.0
    }
}

impl PartialEq for LazyExports {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl fmt::Debug for LazyExports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
