//! Pool of hosts. Modules with an equal definition share a host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::host::{ScriptHost, ScriptHostDefinition};
use crate::programs::HostPrograms;

/// Files with the hashes of their contents.
pub(crate) type Contents = BTreeMap<PathBuf, String>;

/// The hosts of a swarm. Their handlers keep them alive.
#[derive(Default)]
pub(crate) struct HostPool(Mutex<Vec<PooledHost>>);

struct PooledHost {
    host: Weak<ScriptHost>,
    /// The source files of the tools that share the host.
    contents: Contents,
}

impl HostPool {
    fn lock(&self) -> MutexGuard<'_, Vec<PooledHost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the newest host with this definition that cannot have loaded an older version of a
    /// file in `contents`. Creates a host if there is none, because runtimes load each file only
    /// once.
    pub(crate) fn host(
        &self,
        name: &str,
        definition: &ScriptHostDefinition,
        contents: &Contents,
        folder: &std::path::Path,
        programs: &Arc<dyn HostPrograms>,
    ) -> Arc<ScriptHost> {
        let mut entries = self.lock();
        entries.retain(|entry| entry.host.strong_count() > 0);
        for entry in entries.iter_mut().rev() {
            let Some(host) = entry
                .host
                .upgrade()
                .filter(|host| host.definition() == definition)
            else {
                continue;
            };
            let is_same = |(file, hash): (&PathBuf, &String)| {
                entry.contents.get(file).is_none_or(|known| known == hash)
            };
            if contents.iter().all(is_same) {
                entry.contents.extend(contents.clone());
                return host;
            }
        }
        let host = ScriptHost::new(
            name.to_owned(),
            definition.clone(),
            folder.to_owned(),
            Arc::clone(programs),
        );
        let host = Arc::new(host);
        entries.push(PooledHost {
            host: Arc::downgrade(&host),
            contents: contents.clone(),
        });
        host
    }

    /// Returns all hosts of the pool.
    pub(crate) fn all(&self) -> Vec<Arc<ScriptHost>> {
        self.lock()
            .iter()
            .filter_map(|entry| entry.host.upgrade())
            .collect()
    }
}
