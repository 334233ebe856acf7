//! The servers that a generation uses. Holding them keeps them running, also without an export.

use std::sync::Arc;

use crate::call_scope::CallScope;
use crate::server::McpServerHandle;

/// Servers of the serving generation (version of the configuration), and of the one that is planned
/// next.
#[derive(Default)]
pub(crate) struct PreparedServers {
    serving: Vec<PreparedServer>,
    planned: Option<Vec<PreparedServer>>,
}

/// A server, and the access for fetching its catalog and its prompts.
struct PreparedServer {
    server: Arc<McpServerHandle>,
    home: CallScope,
}

/// Servers that are no longer held. The caller drops them after it has released its locks.
#[must_use]
pub(crate) struct ReleasedServers {
    _servers: Vec<PreparedServer>,
}

impl PreparedServers {
    /// Starts the list of servers for a new configuration. Releases the list of a planned
    /// configuration that never started to serve.
    pub(crate) fn begin(&mut self) -> ReleasedServers {
        ReleasedServers {
            _servers: self.planned.replace(Vec::new()).unwrap_or_default(),
        }
    }

    /// Holds a server of the newest generation with its access. A server of the serving generation
    /// gets the access only when the new generation is accepted.
    pub(crate) fn add_server(&mut self, server: Arc<McpServerHandle>, home: CallScope) {
        if !contains(&self.serving, &server) {
            server.set_home(home.clone());
        }
        let newest = self.planned.as_mut().unwrap_or(&mut self.serving);
        if !contains(newest, &server) {
            newest.push(PreparedServer { server, home });
        }
    }

    /// Holds a server that was opened without a preparation. Its access stays as it is.
    pub(crate) fn hold_unprepared(&mut self, server: &Arc<McpServerHandle>) {
        let newest = self.planned.as_mut().unwrap_or(&mut self.serving);
        if !contains(newest, server) {
            newest.push(PreparedServer {
                server: Arc::clone(server),
                home: server.catalog_scope(),
            });
        }
    }

    /// Makes the planned generation the serving one, and releases the servers of the one before.
    pub(crate) fn accept_generation(&mut self) -> ReleasedServers {
        let Some(planned) = self.planned.take() else {
            return ReleasedServers {
                _servers: Vec::new(),
            };
        };
        for prepared in &planned {
            prepared.server.set_home(prepared.home.clone());
        }
        ReleasedServers {
            _servers: std::mem::replace(&mut self.serving, planned),
        }
    }

    /// Releases the servers of a generation that could not be planned.
    pub(crate) fn reject_generation(&mut self) -> ReleasedServers {
        ReleasedServers {
            _servers: self.planned.take().unwrap_or_default(),
        }
    }

    /// Releases all servers.
    pub(crate) fn release_all(&mut self) -> ReleasedServers {
        let mut servers = std::mem::take(&mut self.serving);
        servers.extend(self.planned.take().unwrap_or_default());
        ReleasedServers { _servers: servers }
    }

    /// Returns the servers of the serving generation.
    pub(crate) fn serving_servers(&self) -> Vec<Arc<McpServerHandle>> {
        let servers = self.serving.iter();
        servers
            .map(|prepared| Arc::clone(&prepared.server))
            .collect()
    }
}

/// Returns true if the server is in the list.
fn contains(servers: &[PreparedServer], server: &Arc<McpServerHandle>) -> bool {
    servers
        .iter()
        .any(|prepared| Arc::ptr_eq(&prepared.server, server))
}
