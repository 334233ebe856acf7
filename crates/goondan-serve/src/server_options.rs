//! Interfaces, access rules and limits of a server.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;

use crate::auth::AccessPolicy;
use crate::case_runner::CaseRunner;
use crate::project_editor::ProjectEditor;
use crate::recorder::CaseRecorder;

/// Limits on the resources that a client can use.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Largest request body, in bytes.
    pub body: usize,
    /// Maximum number of connections. Further connections wait until a connection ends.
    pub connections: usize,
    /// Time limit for the head of a request. The time starts with the connection, and after each
    /// response.
    pub head: Duration,
    /// Time limit for a client to accept further bytes of a response. The time counts only while
    /// bytes wait to be sent.
    pub write: Duration,
}

const DEFAULT_MAX_BODY_BYTES: usize = 32 * 1024 * 1024;
const DEFAULT_MAX_CONNECTIONS: usize = 4_096;
const DEFAULT_HEAD_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_WRITE_TIMEOUT: Duration = Duration::from_secs(30);

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            body: DEFAULT_MAX_BODY_BYTES,
            connections: DEFAULT_MAX_CONNECTIONS,
            head: DEFAULT_HEAD_TIMEOUT,
            write: DEFAULT_WRITE_TIMEOUT,
        }
    }
}

/// Interfaces of a server and their access rules.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Access rules.
    pub access: AccessPolicy,
    /// Limits on the resources that a client can use.
    pub limits: ServerLimits,
    /// Directory with a website that uses the server. All clients can read its files, even without
    /// a token.
    pub site: Option<PathBuf>,
    /// Serves the studio, the web page to watch and control the swarm.
    pub studio: bool,
    /// Records conversations as test cases for the studio.
    pub recorder: Option<Arc<dyn CaseRecorder>>,
    /// Runs the test cases of the project for the studio.
    pub runner: Option<Arc<dyn CaseRunner>>,
    /// Edits files of the project for the studio. Without it, no route writes into the project.
    pub editor: Option<Arc<dyn ProjectEditor>>,
    /// Further routes, which bypass the token check. Their provider must check access.
    pub further: Option<Router>,
}

impl From<AccessPolicy> for ServerOptions {
    fn from(access: AccessPolicy) -> Self {
        ServerOptions {
            access,
            limits: ServerLimits::default(),
            site: None,
            studio: false,
            recorder: None,
            runner: None,
            editor: None,
            further: None,
        }
    }
}
