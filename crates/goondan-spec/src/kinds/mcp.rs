//! `spec.mcp` of a Tool: an MCP server and its connection settings.

use std::time::Duration;

use schemars::JsonSchema;

use super::ResourceScope;
use super::call_timeout::read_timeout;
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic_sink::DiagnosticSink;
use crate::node::NodeContent;
use crate::paths;
use crate::text::excerpt;
use crate::value::{TextOrSource, ValueSource};
use crate::value_source::{self, ScalarShape, TextOrSourceShape, ValueSourceShape};

/// MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// Connection to the server.
    pub transport: McpTransport,
    /// Only accepted protocol revision. `None` negotiates the newest common one.
    pub protocol: Option<McpProtocol>,
    /// Time limit for the start and the list of tools. Default: 60 s.
    pub connect_timeout: Duration,
    /// Answer to forms that the server sends to the user.
    pub elicitation: ElicitationMode,
    /// OAuth settings.
    pub oauth: McpOauth,
}

/// Connection to an MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// Child process that exchanges messages over standard input and output.
    Program {
        /// Program name or path. Relative paths start from the bundle directory.
        command: String,
        /// Arguments.
        args: Vec<String>,
        /// Additional environment variables.
        env: Vec<(String, McpValue)>,
        /// Working directory, relative to the bundle. `None` for the bundle directory.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// Server URL.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, McpValue)>,
    },
    /// Unix socket with one message per line, as on standard input.
    Socket {
        /// Socket path. Relative paths start from the bundle directory.
        path: String,
    },
}

/// Header or environment variable of an MCP server.
pub type McpValue = TextOrSource;

/// A revision of the MCP protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
pub enum McpProtocol {
    /// The last revision with a handshake.
    #[schemars(rename = "2025-11-25")]
    V2025_11_25,
    /// The first revision without a handshake.
    #[schemars(rename = "2026-07-28")]
    V2026_07_28,
}

/// The answer to a form that the server sends to the user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[schemars(rename = "Elicitation")]
pub enum ElicitationMode {
    /// Reports to the server that no user is available (the default).
    #[default]
    None,
    /// Answers with the default values of the form.
    Defaults,
}

/// OAuth settings of an HTTP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpOauth {
    /// Manually registered client id. `None` registers a client if the server supports it.
    pub client_id: Option<String>,
    /// Secret of the client id.
    pub client_secret: Option<ValueSource>,
    /// The only accepted authorization server. `None` accepts the one that the server names.
    pub issuer: Option<String>,
    /// Requested scopes. If empty, those that the server advertises.
    pub scopes: Vec<String>,
    /// URL of a document that describes the client. It is also the client id.
    pub client_metadata_url: Option<String>,
}

const DEFAULT_CONNECT_TIMEOUT_MS: u64 = 60_000;

const PROTOCOLS: [(&str, McpProtocol); 2] = [
    ("2025-11-25", McpProtocol::V2025_11_25),
    ("2026-07-28", McpProtocol::V2026_07_28),
];

const ELICITATIONS: [(&str, ElicitationMode); 2] = [
    ("none", ElicitationMode::None),
    ("defaults", ElicitationMode::Defaults),
];

/// Reads `mcp` of a Tool: a program or a URL.
pub(super) fn read(
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<McpServer> {
    let mut fields = field.fields(findings)?;
    let transport = read_transport(field, &mut fields, scope, findings);
    let protocol = fields
        .optional("protocol")
        .map(|field| field.one_of(&PROTOCOLS, findings));
    let timeout = fields
        .optional("connectTimeout")
        .map(|field| read_timeout(&field, findings));
    let elicitation = fields
        .optional("elicitation")
        .map(|field| field.one_of(&ELICITATIONS, findings));
    let oauth = fields
        .optional("oauth")
        .map(|field| read_oauth(&field, findings));
    fields.finish(findings);
    Some(McpServer {
        transport: transport?,
        protocol: protocol.map_or(Some(None), |protocol| protocol.map(Some))?,
        connect_timeout: Duration::from_millis(
            timeout.unwrap_or(Some(DEFAULT_CONNECT_TIMEOUT_MS))?,
        ),
        elicitation: elicitation.unwrap_or(Some(ElicitationMode::None))?,
        oauth: oauth.unwrap_or_else(|| Some(McpOauth::default()))?,
    })
}

/// Reads exactly one kind of transport. Reports settings of another kind.
fn read_transport(
    whole: &FieldReader<'_>,
    fields: &mut MapReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<McpTransport> {
    let ways = [
        fields.optional("command"),
        fields.optional("url"),
        fields.optional("socket"),
    ];
    let belongs = [("args", 0), ("env", 0), ("cwd", 0), ("headers", 1)];
    let transport_fields = belongs.map(|(name, way)| (fields.optional(name), way));
    let mut transports = ways
        .iter()
        .enumerate()
        .filter_map(|(way, field)| Some((way, field.as_ref()?)));
    let Some((way, first)) = transports.next() else {
        let message = format!("`{}` does not define how to reach the server.", whole.path);
        findings.add(
            whole
                .invalid_value(message)
                .suggest("add a `command`, a `url` or a `socket`"),
        );
        return None;
    };
    if let Some((_, second)) = transports.next() {
        let message = format!(
            "A server has `{}` or `{}`, not both.",
            first.key, second.key
        );
        findings.add(second.invalid_value(message).suggest("keep one of the two"));
        return None;
    }
    for (field, _) in transport_fields.iter().filter(|(_, of)| *of != way) {
        if let Some(field) = field {
            let message = format!(
                "`{}` does not apply to a server with a `{}`.",
                field.path, first.key
            );
            findings.add(
                field
                    .invalid_value(message)
                    .suggest(format!("remove `{}`", field.key)),
            );
        }
    }
    let [args, env, cwd, headers] = transport_fields.map(|(field, _)| field);
    match way {
        0 => read_program(first, args, env, cwd, scope, findings),
        1 => {
            let headers = headers.map(|field| value_source::read_texts(&field, findings));
            let url = read_url(first, findings)?;
            Some(McpTransport::Http {
                url,
                headers: headers.unwrap_or_else(|| Some(Vec::new()))?,
            })
        }
        _ => Some(McpTransport::Socket {
            path: read_line(first, findings)?,
        }),
    }
}

/// Reads the command of a local MCP server.
fn read_program(
    command: &FieldReader<'_>,
    args: Option<FieldReader<'_>>,
    env: Option<FieldReader<'_>>,
    cwd: Option<FieldReader<'_>>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<McpTransport> {
    let command_text = read_line(command, findings);
    // A path to a program may contain spaces.
    let with_arguments = command_text
        .as_deref()
        .and_then(|text| text.trim().split_once(char::is_whitespace))
        .filter(|(program, _)| !program.contains('/'));
    if let Some((program, _)) = with_arguments {
        let message = format!("`{}` must be a program without arguments.", command.path);
        findings.add(command.invalid_value(message).suggest(format!(
            "write `command: {program}`, and move the arguments to `args: […]`"
        )));
    }
    let args = args.map(|field| read_args(&field, findings));
    let env = env.map(|field| value_source::read_texts(&field, findings));
    let package_directory = scope
        .folder
        .is_installed()
        .then(|| scope.folder.package_directory().to_owned());
    let cwd = cwd
        .map(|field| scope.folder.path(&field, findings))
        .or(package_directory.map(Some));
    let command_text = match command_text {
        // A program of an installed package is a file of that package.
        Some(text) if scope.folder.is_installed() && text.contains('/') => {
            scope.folder.path(command, findings)
        }
        text => text,
    };
    Some(McpTransport::Program {
        command: command_text?,
        args: args.unwrap_or_else(|| Some(Vec::new()))?,
        env: env.unwrap_or_else(|| Some(Vec::new()))?,
        cwd: cwd.map_or(Some(None), |cwd| cwd.map(Some))?,
    })
}

/// Reads one non-empty line of text.
fn read_line(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = field.text(findings)?;
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        findings.add(field.invalid_value(format!("`{}` must be one line of text.", field.path)));
        return None;
    }
    Some(text.to_owned())
}

/// Reads arguments. Numbers and booleans are accepted, because users rarely quote a port.
fn read_args(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<Vec<String>> {
    let mut args = Vec::new();
    for item in field.list(findings)? {
        match &item.node.content {
            NodeContent::Number(number) => args.push(number.to_string()),
            NodeContent::Bool(truth) => args.push(truth.to_string()),
            _ => args.push(item.text(findings)?.to_owned()),
        }
    }
    Some(args)
}

/// Reads a web URL. Plain HTTP is limited to this machine, because requests carry headers and
/// tokens.
pub(super) fn read_url(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<String> {
    let text = read_line(field, findings)?;
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let Some(host) = host.filter(|host| !host.is_empty() && !host.contains('@')) else {
        let message = format!(
            "`{}` is `{}`, which is not the URL of a server.",
            field.path,
            excerpt(&text, 120)
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write a URL such as `https://example.com/mcp`"),
        );
        return None;
    };
    if text.starts_with("http://") && !is_this_machine(host) {
        let message = format!(
            "`{}` sends messages and keys over the network unencrypted.",
            field.path
        );
        findings.add(
            field
                .invalid_value(message)
                .suggest("write `https://`; `http://` is allowed only for this machine"),
        );
        return None;
    }
    Some(text)
}

/// Returns true if the host name is a loopback name or address.
fn is_this_machine(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost"
        || name == "::1"
        || name
            .strip_prefix("127.")
            .is_some_and(|rest| rest.split('.').count() == 3)
}

/// Reads `oauth`; `None` if a field is invalid.
fn read_oauth(field: &FieldReader<'_>, findings: &mut DiagnosticSink) -> Option<McpOauth> {
    let mut fields = field.fields(findings)?;
    let id = fields
        .optional("clientId")
        .map(|field| read_line(&field, findings));
    let secret = fields
        .optional("clientSecret")
        .map(|field| value_source::read(&field, findings));
    let issuer = fields
        .optional("issuer")
        .map(|field| read_url(&field, findings));
    let metadata = fields
        .optional("clientMetadataUrl")
        .map(|field| read_url(&field, findings));
    let scopes = match fields.optional("scopes") {
        Some(field) => field
            .unique_strings(findings)?
            .iter()
            .filter_map(|item| item.node.text())
            .map(str::to_owned)
            .collect(),
        None => Vec::new(),
    };
    fields.finish(findings);
    Some(McpOauth {
        client_id: id.map_or(Some(None), |id| id.map(Some))?,
        client_secret: secret.map_or(Some(None), |secret| secret.map(Some))?,
        issuer: issuer.map_or(Some(None), |url| url.map(Some))?,
        client_metadata_url: metadata.map_or(Some(None), |url| url.map(Some))?,
        scopes,
    })
}

impl McpServer {
    /// Returns the server program if it is a file of the bundle, relative to the bundle directory.
    pub fn bundled_program(&self) -> Option<String> {
        match &self.transport {
            McpTransport::Program { command, .. } if command.contains('/') => {
                paths::normalize_path(command).ok()
            }
            _ => None,
        }
    }

    /// Returns a command line, URL or socket path for display. Header and variable values are
    /// omitted, because they may be secrets.
    pub fn display_address(&self) -> String {
        match &self.transport {
            McpTransport::Program { command, args, .. } => std::iter::once(command)
                .chain(args)
                .cloned()
                .collect::<Vec<_>>()
                .join(" "),
            McpTransport::Http { url, .. } => url.clone(),
            McpTransport::Socket { path } => path.clone(),
        }
    }
}

/// An MCP server: a program to start (`command`), a URL (`url`) or a Unix socket (`socket`).
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "McpServer")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct McpServerShape {
    /// A program that exchanges messages over standard input and output: a name, or a path from the
    /// project directory.
    #[schemars(length(min = 1))]
    command: Option<String>,
    /// Arguments of the program.
    args: Option<Vec<ScalarShape>>,
    /// Additional environment variables of the program.
    env: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
    /// The working directory of the program. Default: the project directory.
    #[schemars(length(min = 1))]
    cwd: Option<String>,
    /// The URL of a server that uses streamable HTTP.
    #[schemars(length(min = 1))]
    url: Option<String>,
    /// Headers of every request to the server.
    headers: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
    /// A Unix socket of the server, with one message per line.
    #[schemars(length(min = 1))]
    socket: Option<String>,
    /// The only accepted protocol revision. Default: the newest revision that both sides support.
    protocol: Option<McpProtocol>,
    /// The time limit for the start and the list of tools, in milliseconds. Default: `1m`.
    #[schemars(range(min = 1, max = 86_400_000))]
    connect_timeout_ms: Option<u64>,
    /// The answer to forms of the server: `defaults` sends the default values of the form. `none`,
    /// the default, reports that no user is available.
    elicitation: Option<ElicitationMode>,
    /// The OAuth settings that `gdn mcp login` uses for a server with a `url`.
    oauth: Option<McpOauthShape>,
}

/// OAuth settings.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "McpOauth")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct McpOauthShape {
    /// A manually registered client id.
    #[schemars(length(min = 1))]
    client_id: Option<String>,
    /// The secret of the client id.
    client_secret: Option<ValueSourceShape>,
    /// The URL of the only accepted authorization server. Required with `clientSecret` if the
    /// authorization server has another origin than `url`.
    #[schemars(length(min = 1))]
    issuer: Option<String>,
    /// The URL of a document that describes the client. It is also the client id.
    #[schemars(length(min = 1))]
    client_metadata_url: Option<String>,
    /// The requested scopes. Default: those that the server advertises.
    scopes: Option<Vec<String>>,
}
