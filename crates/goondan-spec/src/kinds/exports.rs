//! The exports of a tool, which may be worked out late.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};

use super::ExportSpec;

type Later = Box<dyn FnOnce() -> Vec<ExportSpec> + Send>;

/// The exports of a tool, in their order.
///
/// Most of what is built in is used by no agent of a project. So [`Exports::later`] makes them when somebody looks, and
/// copies share what was made.
#[derive(Clone, Deserialize, Serialize)]
#[serde(from = "Vec<ExportSpec>", into = "Vec<ExportSpec>")]
pub struct Exports(Arc<LazyLock<Vec<ExportSpec>, Later>>);

impl Exports {
    /// Exports that `make` gives when they are looked at for the first time.
    pub fn later(make: impl FnOnce() -> Vec<ExportSpec> + Send + 'static) -> Self {
        Exports(Arc::new(LazyLock::new(Box::new(make))))
    }
}

impl From<Vec<ExportSpec>> for Exports {
    fn from(exports: Vec<ExportSpec>) -> Self {
        Exports::later(|| exports)
    }
}

impl From<Exports> for Vec<ExportSpec> {
    fn from(exports: Exports) -> Self {
        exports.to_vec()
    }
}

impl Default for Exports {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl Deref for Exports {
    type Target = [ExportSpec];

    fn deref(&self) -> &[ExportSpec] {
        &self.0
    }
}

impl PartialEq for Exports {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || **self == **other
    }
}

impl fmt::Debug for Exports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
