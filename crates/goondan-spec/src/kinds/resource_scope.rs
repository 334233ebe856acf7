//! Context of a decoder besides its own document.

use crate::base_package::BasePackage;
use crate::decode::FieldReader;
use crate::diagnostic_sink::DiagnosticSink;
use crate::index::ResourceIndex;
use crate::meta::{Kind, ResourceId};
use crate::paths::PathLookups;
use crate::references;

/// Context of a decoder besides its own document.
#[derive(Clone, Copy)]
pub(crate) struct ResourceScope<'s> {
    /// Directory from which paths start.
    pub(crate) folder: &'s PathLookups<'s>,
    /// Built-in package.
    pub(crate) base: &'s BasePackage,
    /// Resource that is being decoded.
    pub(crate) id: &'s ResourceId,
    /// Names of all resources.
    pub(crate) index: &'s ResourceIndex,
}

impl ResourceScope<'_> {
    /// Returns the resource that the field refers to; `None`, with an error, if there is none.
    pub(crate) fn resolve(
        &self,
        field: &FieldReader<'_>,
        kind: Kind,
        findings: &mut DiagnosticSink,
    ) -> Option<ResourceId> {
        self.folder.mark_uncacheable();
        references::resolve(
            field,
            kind,
            self.index,
            self.id.package.as_deref(),
            findings,
        )
    }
}
