//! Cache of decoded documents for the next load.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::diagnostic_sink::DiagnosticSink;
use crate::envelope::EnvelopeHead;
use crate::meta::Kind;
use crate::paths::{BundleDirectory, PathLookups, PathState};
use crate::resource::Resource;

/// Cached results of one document, only if it had no diagnostics.
#[derive(Debug, Default)]
pub(crate) struct DecodeCache {
    head: Mutex<Option<Arc<EnvelopeHead>>>,
    made: Mutex<Option<Arc<CachedResource>>>,
}

/// Cached resource that depends only on its document's text and on file kinds at certain paths.
#[derive(Debug)]
struct CachedResource {
    /// Head from which the resource was decoded.
    head: Arc<EnvelopeHead>,
    /// A [`Resource`] of the document's kind.
    resource: Arc<dyn Any + Send + Sync>,
    /// Findings without diagnostics.
    findings: DiagnosticSink,
    /// Paths that were checked, with their file kinds.
    seen: Vec<(String, PathState)>,
}

impl DecodeCache {
    /// Returns the cached head if the project's package is still `package`.
    pub(crate) fn cached_head(&self, package: Option<&str>) -> Option<Arc<EnvelopeHead>> {
        lock(&self.head)
            .clone()
            .filter(|head| head.id.package.as_deref() == package)
    }

    /// Caches the head if it has no diagnostics. A Package is never cached, because its validity
    /// depends on other documents.
    pub(crate) fn put_head(&self, head: &Arc<EnvelopeHead>, findings: &DiagnosticSink) {
        let is_certain = findings.diagnostics.is_empty() && head.id.kind != Kind::Package;
        *lock(&self.head) = is_certain.then(|| Arc::clone(head));
    }

    /// Returns the cached resource if its head and all checked paths are unchanged.
    pub(crate) fn cached_resource<T: Send + Sync + 'static>(
        &self,
        head: &Arc<EnvelopeHead>,
        folder: &BundleDirectory<'_>,
    ) -> Option<(Arc<Resource<T>>, DiagnosticSink)> {
        let cached = lock(&self.made)
            .clone()
            .filter(|resource| Arc::ptr_eq(&resource.head, head))?;
        let is_same = cached
            .seen
            .iter()
            .all(|(path, seen)| folder.path_state(path) == *seen);
        let resource = Arc::clone(&cached.resource)
            .downcast()
            .ok()
            .filter(|_| is_same)?;
        Some((resource, cached.findings.clone()))
    }

    /// Caches the resource if it has no diagnostics: an error may look different in the next load.
    pub(crate) fn put_resource<T: Send + Sync + 'static>(
        &self,
        head: &Arc<EnvelopeHead>,
        resource: &Arc<Resource<T>>,
        findings: &DiagnosticSink,
        lookups: PathLookups<'_>,
    ) {
        let seen_lookups = lookups
            .into_seen()
            .filter(|_| findings.diagnostics.is_empty());
        *lock(&self.made) = seen_lookups.map(|seen| {
            let (head, resource, findings) = (
                Arc::clone(head),
                Arc::clone(resource) as _,
                findings.clone(),
            );
            Arc::new(CachedResource {
                head,
                resource,
                findings,
                seen,
            })
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while the lock is held cannot leave the value inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
