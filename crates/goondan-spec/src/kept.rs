//! What was made of a document, kept for the next load.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bundle::Resource;
use crate::envelope::Head;
use crate::findings::Findings;
use crate::meta::Kind;
use crate::paths::{Folder, Looks, Seen};

/// What was made of one document the last time, as far as nothing was wrong with it.
#[derive(Debug, Default)]
pub(crate) struct Keep {
    head: Mutex<Option<Arc<Head>>>,
    made: Mutex<Option<Arc<Made>>>,
}

/// A resource of a document that goes by its text and by what stands at some paths alone.
#[derive(Debug)]
struct Made {
    /// What it was made with.
    head: Arc<Head>,
    /// A [`Resource`] of the document's kind.
    resource: Arc<dyn Any + Send + Sync>,
    /// Without a diagnostic.
    findings: Findings,
    /// The paths that were looked at.
    seen: Vec<(String, Seen)>,
}

impl Keep {
    /// Who the document is about, in a project whose package is `package`.
    pub(crate) fn head(&self, package: Option<&str>) -> Option<Arc<Head>> {
        lock(&self.head)
            .clone()
            .filter(|head| head.id.package.as_deref() == package)
    }

    /// Keeps who the document is about, if nothing was wrong with that. Whether a Package stands where it may depends on
    /// other documents.
    pub(crate) fn put_head(&self, head: &Arc<Head>, findings: &Findings) {
        let is_certain = findings.diagnostics.is_empty() && head.id.kind != Kind::Package;
        *lock(&self.head) = is_certain.then(|| Arc::clone(head));
    }

    /// The resource of the document, if the same would be made of it again.
    pub(crate) fn resource<T: Send + Sync + 'static>(
        &self,
        head: &Arc<Head>,
        folder: &Folder<'_>,
    ) -> Option<(Arc<Resource<T>>, Findings)> {
        let made = lock(&self.made)
            .clone()
            .filter(|made| Arc::ptr_eq(&made.head, head))?;
        let is_same = made
            .seen
            .iter()
            .all(|(path, seen)| folder.look(path) == *seen);
        let resource = Arc::clone(&made.resource)
            .downcast()
            .ok()
            .filter(|_| is_same)?;
        Some((resource, made.findings.clone()))
    }

    /// Keeps the resource of the document, if that is worth to be kept. What is wrong may be wrong in another way the next time.
    pub(crate) fn put_resource<T: Send + Sync + 'static>(
        &self,
        head: &Arc<Head>,
        resource: &Arc<Resource<T>>,
        findings: &Findings,
        looks: Looks<'_>,
    ) {
        let seen = looks
            .into_seen()
            .filter(|_| findings.diagnostics.is_empty());
        *lock(&self.made) = seen.map(|seen| {
            let (head, resource, findings) = (
                Arc::clone(head),
                Arc::clone(resource) as _,
                findings.clone(),
            );
            Arc::new(Made {
                head,
                resource,
                findings,
                seen,
            })
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked while holding it left a whole value.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
