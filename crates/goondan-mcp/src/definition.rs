//! The definition of a server before it is contacted, with resolved values and a fingerprint.

use goondan_spec::Code;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::codes;
use goondan_core::JsonObject;
use goondan_core::ids::hex;
use goondan_core::package_copies::code_path;
use goondan_core::ports::tool::HandlerError;
use goondan_core::started_files::{StartedFiles, StartedProgram};
use goondan_spec::kinds::{
    ElicitationMode, McpOauth, McpProtocol, McpServer, McpTransport, McpValue, Tool, ToolEntry,
};
use goondan_spec::value::Environment;
use goondan_spec::{Resource, ResourceId};

/// Programs that download the package of a server before they run it.
const PACKAGE_RUNNERS: [&str; 7] = ["npx", "uvx", "bunx", "pnpx", "pipx", "docker", "podman"];

/// A server as defined by a Tool, with all values resolved.
#[derive(Clone)]
pub struct McpServerDefinition {
    pub tool: ResourceId,
    pub(crate) way: ServerTransport,
    /// `spec.config` of the Tool, which limits the program's access.
    pub(crate) config: JsonObject,
    pub(crate) protocol: Option<McpProtocol>,
    pub(crate) connect_timeout: Duration,
    pub(crate) elicitation: ElicitationMode,
    pub(crate) oauth: McpOauth,
    /// The secret for `oauth.clientId`.
    pub(crate) client_secret: Option<String>,
    /// Absolute path of the bundle's directory.
    pub(crate) project: PathBuf,
    fingerprint: String,
}

#[derive(Clone)]
pub(crate) enum ServerTransport {
    Program {
        command: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        folder: PathBuf,
    },
    Http {
        url: String,
        headers: Vec<(String, String)>,
    },
    Socket(PathBuf),
}

impl McpServerDefinition {
    /// Resolves the server of `tool` in a bundle below `root`.
    ///
    /// # Errors
    ///
    /// Fails if the tool has no server, or if a variable that it names is not set.
    pub fn new(
        tool: &Resource<Tool>,
        root: &Path,
        environment: &Environment,
    ) -> Result<McpServerDefinition, HandlerError> {
        let ToolEntry::Mcp(server) = &tool.spec.entry else {
            return Err(
                HandlerError::new(format!("{} has no MCP server", tool.id)).code(Code::MCP_START)
            );
        };
        let project = std::path::absolute(root).unwrap_or_else(|_| root.to_owned());
        let lookup = |(name, value): &(String, McpValue)| {
            Ok((name.clone(), resolve(tool, name, value, environment)?))
        };
        let way = match &server.transport {
            McpTransport::Program {
                command,
                args,
                env,
                cwd,
            } => ServerTransport::Program {
                command: in_project(command, &project),
                args: args.clone(),
                env: env
                    .iter()
                    .map(lookup)
                    .collect::<Result<_, HandlerError>>()?,
                folder: cwd
                    .as_ref()
                    .map_or_else(|| project.clone(), |cwd| code_path(&project.join(cwd))),
            },
            McpTransport::Http { url, headers } => ServerTransport::Http {
                url: url.clone(),
                headers: headers
                    .iter()
                    .map(lookup)
                    .collect::<Result<_, HandlerError>>()?,
            },
            McpTransport::Socket { path } => ServerTransport::Socket(project.join(path)),
        };
        let secret = server.oauth.client_secret.clone().map(McpValue::Source);
        let client_secret = secret
            .map(|secret| resolve(tool, "clientSecret", &secret, environment))
            .transpose()?;
        Ok(McpServerDefinition {
            tool: tool.id.clone(),
            fingerprint: compute_fingerprint(tool, server, &way, &project),
            way,
            config: tool.spec.config.clone(),
            protocol: server.protocol,
            connect_timeout: server.connect_timeout,
            elicitation: server.elicitation,
            oauth: server.oauth.clone(),
            client_secret,
            project,
        })
    }

    /// Returns the server's identity. It changes with any part of the definition or a resolved
    /// value.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Returns the URL of a web server.
    pub fn url(&self) -> Option<&str> {
        match &self.way {
            ServerTransport::Http { url, .. } => Some(url),
            ServerTransport::Program { .. } | ServerTransport::Socket(_) => None,
        }
    }

    /// Returns the program of the server if it downloads packages before it runs them.
    pub(crate) fn package_runner(&self) -> Option<&str> {
        let ServerTransport::Program { command, .. } = &self.way else {
            return None;
        };
        PACKAGE_RUNNERS
            .iter()
            .find(|runner| {
                Path::new(command)
                    .file_stem()
                    .is_some_and(|stem| stem == **runner)
            })
            .copied()
    }

    /// Returns the content of the program's files; empty for a server that gdn does not
    /// start. Accesses the file system.
    pub(crate) fn program_contents(&self) -> StartedFiles {
        let ServerTransport::Program {
            command,
            args,
            env,
            folder,
        } = &self.way
        else {
            return StartedFiles::default();
        };
        let program = StartedProgram {
            command,
            args,
            variables: env,
            folder,
            project: &self.project,
        };
        program.contents()
    }

    /// Returns the tool's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.tool.name
    }
}

/// Returns the value of the setting `name`; reads variables from `environment`.
fn resolve(
    tool: &Resource<Tool>,
    name: &str,
    value: &McpValue,
    environment: &Environment,
) -> Result<String, HandlerError> {
    match value {
        McpValue::Plain(text) => Ok(text.clone()),
        McpValue::Source(source) => environment
            .resolve(source, name)
            .map(|secret| secret.expose().to_owned())
            .map_err(|tried| {
                let first = tried.first().map(String::as_str).unwrap_or_default();
                codes::error(
                    Code::MCP_START,
                    &tool.id.name,
                    format_args!("needs a value for `{name}`, which is not set"),
                )
                .suggest(format!("The swarm operator can set {first}."))
            }),
    }
}

/// Resolves a path against the project. A name without a slash is looked up in `PATH`.
fn in_project(command: &str, project: &Path) -> String {
    match command.contains('/') {
        true => code_path(&project.join(command))
            .to_string_lossy()
            .into_owned(),
        false => command.to_owned(),
    }
}

/// Hashes the values, because the fingerprint becomes a file name.
fn compute_fingerprint(
    tool: &Resource<Tool>,
    server: &McpServer,
    way: &ServerTransport,
    project: &Path,
) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    add(&format!(
        "{:?} {:?} {:?}",
        server.transport, server.protocol, server.elicitation
    ));
    // The exported tool names depend on the name of the Tool.
    add(&tool.id.to_string());
    add(&serde_json::to_string(&tool.spec.config).unwrap_or_default());
    match way {
        ServerTransport::Program { env, .. } => {
            add(&project.to_string_lossy());
            env.iter()
                .for_each(|(name, value)| [name, value].into_iter().for_each(|text| add(text)));
        }
        ServerTransport::Http { headers, .. } => {
            headers
                .iter()
                .for_each(|(name, value)| [name, value].into_iter().for_each(|text| add(text)));
        }
        ServerTransport::Socket(path) => add(&path.to_string_lossy()),
    }
    hex(&hash.finalize()[..16])
}
