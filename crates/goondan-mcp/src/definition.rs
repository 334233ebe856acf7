//! A server with all that is known of it before it is reached: values looked up, and a fingerprint.

use goondan_spec::Code;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::codes;
use goondan_core::JsonObject;
use goondan_core::ids::hex;
use goondan_core::ports::tool::ToolError;
use goondan_spec::kinds::{
    Elicitation, Entry, McpOauth, McpProtocol, McpServer, McpTransport, McpValue, Tool,
};
use goondan_spec::value::Environment;
use goondan_spec::{Resource, ResourceId};

/// A server as a Tool defines it, ready to be reached.
#[derive(Clone)]
pub struct Definition {
    /// The Tool.
    pub tool: ResourceId,
    /// How it is reached.
    pub(crate) way: Way,
    /// `spec.config` of the Tool: what its program may do.
    pub(crate) config: JsonObject,
    pub(crate) protocol: Option<McpProtocol>,
    pub(crate) connect_timeout: Duration,
    pub(crate) elicitation: Elicitation,
    pub(crate) oauth: McpOauth,
    /// The secret that belongs to `oauth.clientId`.
    pub(crate) client_secret: Option<String>,
    /// The bundle's folder, as an absolute path.
    pub(crate) project: PathBuf,
    fingerprint: String,
}

/// How a server is reached.
#[derive(Clone)]
pub(crate) enum Way {
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

impl Definition {
    /// The server of `tool`, in a bundle below `root`.
    ///
    /// # Errors
    /// The tool has no server, or a variable that it names is not set.
    pub fn new(
        tool: &Resource<Tool>,
        root: &Path,
        environment: &Environment,
    ) -> Result<Definition, ToolError> {
        let Entry::Mcp(server) = &tool.spec.entry else {
            return Err(
                ToolError::new(format!("{} has no MCP server", tool.id)).code(Code::MCP_START)
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
            } => Way::Program {
                command: in_project(command, &project),
                args: args.clone(),
                env: env.iter().map(lookup).collect::<Result<_, ToolError>>()?,
                folder: cwd
                    .as_ref()
                    .map_or_else(|| project.clone(), |cwd| project.join(cwd)),
            },
            McpTransport::Http { url, headers } => Way::Http {
                url: url.clone(),
                headers: headers
                    .iter()
                    .map(lookup)
                    .collect::<Result<_, ToolError>>()?,
            },
            McpTransport::Socket { path } => Way::Socket(project.join(path)),
        };
        let secret = server.oauth.client_secret.clone().map(McpValue::Source);
        let client_secret = secret
            .map(|secret| resolve(tool, "clientSecret", &secret, environment))
            .transpose()?;
        Ok(Definition {
            tool: tool.id.clone(),
            fingerprint: fingerprint(tool, server, &way, &project),
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

    /// What tells it from other servers: it is another one where anything of it is written or set otherwise.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    /// Its address, where it has one.
    pub fn url(&self) -> Option<&str> {
        match &self.way {
            Way::Http { url, .. } => Some(url),
            Way::Program { .. } | Way::Socket(_) => None,
        }
    }

    /// The tool's name, for messages.
    pub(crate) fn name(&self) -> &str {
        &self.tool.name
    }
}

fn resolve(
    tool: &Resource<Tool>,
    name: &str,
    value: &McpValue,
    environment: &Environment,
) -> Result<String, ToolError> {
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
                    format_args!("needs a value for `{name}`, and nothing sets it"),
                )
                .suggest(format!("Whoever runs the swarm can set {first}."))
            }),
    }
}

/// A path starts from the project; a mere name is looked up in `PATH`.
fn in_project(command: &str, project: &Path) -> String {
    match command.contains('/') {
        true => project.join(command).to_string_lossy().into_owned(),
        false => command.to_owned(),
    }
}

/// Values count as hashes: what comes of this is a file's name.
fn fingerprint(tool: &Resource<Tool>, server: &McpServer, way: &Way, project: &Path) -> String {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    add(&format!(
        "{:?} {:?} {:?}",
        server.transport, server.protocol, server.elicitation
    ));
    // What its tools are called here depends on what the Tool is called.
    add(&tool.id.to_string());
    add(&serde_json::to_string(&tool.spec.config).unwrap_or_default());
    match way {
        Way::Program { env, .. } => {
            add(&project.to_string_lossy());
            env.iter()
                .for_each(|(name, value)| [name, value].into_iter().for_each(|text| add(text)));
        }
        Way::Http { headers, .. } => {
            headers
                .iter()
                .for_each(|(name, value)| [name, value].into_iter().for_each(|text| add(text)));
        }
        Way::Socket(path) => add(&path.to_string_lossy()),
    }
    hex(&hash.finalize()[..16])
}
