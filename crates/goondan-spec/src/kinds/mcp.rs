//! `spec.mcp` of a Tool: an MCP server, and how it is reached.

use std::time::Duration;

use schemars::JsonSchema;

use super::Scope;
use super::tool::read_timeout;
use crate::decode::{Field, Fields};
use crate::findings::Findings;
use crate::node::Content;
use crate::paths;
use crate::text::excerpt;
use crate::value::{TextOrSource, ValueSource};
use crate::value_source::{self, ScalarShape, TextOrSourceShape, ValueSourceShape};

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// How it is reached.
    pub transport: McpTransport,
    /// The only revision of the protocol that is spoken with it; what both know where nothing is said.
    pub protocol: Option<McpProtocol>,
    /// How long it may take to start and to say what it has (default 30 s).
    pub connect_timeout: Duration,
    /// What is answered where it asks a person to fill in a form.
    pub elicitation: Elicitation,
    /// How a token is had for it.
    pub oauth: McpOauth,
}

/// How an MCP server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpTransport {
    /// A program that is started, and spoken with over its standard input and output.
    Program {
        /// A name, or a path that starts from the bundle's folder where it is relative.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Variables beside the ordinary ones.
        env: Vec<(String, McpValue)>,
        /// Where it runs, relative to the bundle's folder, which is the default.
        cwd: Option<String>,
    },
    /// Streamable HTTP.
    Http {
        /// Its address.
        url: String,
        /// Headers of every request.
        headers: Vec<(String, McpValue)>,
    },
    /// A Unix socket, with a line for each message as on standard input.
    Socket {
        /// The socket, relative to the bundle's folder where it is no absolute path.
        path: String,
    },
}

/// A header or a variable of an MCP server.
pub type McpValue = TextOrSource;

/// A revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
pub enum McpProtocol {
    /// The last one with a handshake.
    #[schemars(rename = "2025-11-25")]
    V2025_11_25,
    /// The first one without.
    #[schemars(rename = "2026-07-28")]
    V2026_07_28,
}

/// What is answered where a server asks a person to fill in a form.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, JsonSchema)]
#[schemars(rename_all = "lowercase")]
pub enum Elicitation {
    /// The server is told that nobody is there to ask (the default).
    #[default]
    None,
    /// The defaults that the form states.
    Defaults,
}

/// How a token is had for an HTTP server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpOauth {
    /// An id that was registered by hand; without it one is registered where that is possible.
    pub client_id: Option<String>,
    /// The secret that belongs to it.
    pub client_secret: Option<ValueSource>,
    /// What is asked for; what the server says where it is empty.
    pub scopes: Vec<String>,
    /// Where a document lies that describes the client: its address is the client's id.
    pub client_metadata_url: Option<String>,
}

/// How long a server may take to connect where nothing else is said, in milliseconds.
const CONNECT_TIMEOUT_MS: u64 = 30_000;

const PROTOCOLS: [(&str, McpProtocol); 2] = [
    ("2025-11-25", McpProtocol::V2025_11_25),
    ("2026-07-28", McpProtocol::V2026_07_28),
];

const ELICITATIONS: [(&str, Elicitation); 2] = [
    ("none", Elicitation::None),
    ("defaults", Elicitation::Defaults),
];

/// Reads `spec.mcp`.
pub(super) fn read(
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<McpServer> {
    let mut fields = field.fields(findings)?;
    let transport = read_transport(field, &mut fields, scope, findings);
    let protocol = fields
        .optional("protocol")
        .map(|field| field.one_of(&PROTOCOLS, findings));
    let timeout = fields
        .optional("connectTimeoutMs")
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
        connect_timeout: Duration::from_millis(timeout.unwrap_or(Some(CONNECT_TIMEOUT_MS))?),
        elicitation: elicitation.unwrap_or(Some(Elicitation::None))?,
        oauth: oauth.unwrap_or_else(|| Some(McpOauth::default()))?,
    })
}

/// Exactly one of the ways there are, and of the settings only those that belong to it.
fn read_transport(
    whole: &Field<'_>,
    fields: &mut Fields<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<McpTransport> {
    let ways = [
        fields.optional("command"),
        fields.optional("url"),
        fields.optional("socket"),
    ];
    let belongs = [("args", 0), ("env", 0), ("cwd", 0), ("headers", 1)];
    let of_way = belongs.map(|(name, way)| (fields.optional(name), way));
    let mut given = ways
        .iter()
        .enumerate()
        .filter_map(|(way, field)| Some((way, field.as_ref()?)));
    let Some((way, first)) = given.next() else {
        let message = format!("`{}` does not say where the server is.", whole.path);
        findings.add(
            whole
                .invalid(message)
                .suggest("give it a `command`, a `url` or a `socket`"),
        );
        return None;
    };
    if let Some((_, second)) = given.next() {
        let message = format!(
            "A server has `{}` or `{}`, not both.",
            first.key, second.key
        );
        findings.add(second.invalid(message).suggest("keep one of the two"));
        return None;
    }
    for (field, _) in of_way.iter().filter(|(_, of)| *of != way) {
        if let Some(field) = field {
            let message = format!(
                "`{}` means nothing for a server with a `{}`.",
                field.path, first.key
            );
            findings.add(
                field
                    .invalid(message)
                    .suggest(format!("remove `{}`", field.key)),
            );
        }
    }
    let [args, env, cwd, headers] = of_way.map(|(field, _)| field);
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
            path: read_plain(first, findings)?,
        }),
    }
}

fn read_program(
    command: &Field<'_>,
    args: Option<Field<'_>>,
    env: Option<Field<'_>>,
    cwd: Option<Field<'_>>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<McpTransport> {
    let command_text = read_plain(command, findings);
    if command_text
        .as_ref()
        .is_some_and(|text| text.contains(char::is_whitespace) && !text.contains('/'))
    {
        let message = format!("`{}` is a program without its arguments.", command.path);
        findings.add(
            command
                .invalid(message)
                .suggest("put what stands behind the program into `args`"),
        );
    }
    let args = args.map(|field| read_args(&field, findings));
    let env = env.map(|field| value_source::read_texts(&field, findings));
    let in_package = scope
        .folder
        .is_installed()
        .then(|| scope.folder.base().to_owned());
    let cwd = cwd
        .map(|field| scope.folder.path(&field, findings))
        .or(in_package.map(Some));
    let command_text = match command_text {
        // A program of an installed package lies in the package.
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

/// Text of one line that is not empty.
fn read_plain(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = field.text(findings)?;
    if text.trim().is_empty() || text.chars().any(char::is_control) {
        findings.add(field.invalid(format!("`{}` must be one line of text.", field.path)));
        return None;
    }
    Some(text.to_owned())
}

/// Arguments may be numbers: nobody puts a port into quotes.
fn read_args(field: &Field<'_>, findings: &mut Findings) -> Option<Vec<String>> {
    let mut args = Vec::new();
    for item in field.list(findings)? {
        match &item.node.content {
            Content::Number(number) => args.push(number.to_string()),
            Content::Bool(truth) => args.push(truth.to_string()),
            _ => args.push(item.text(findings)?.to_owned()),
        }
    }
    Some(args)
}

/// An address of the web. Plain HTTP leads to this machine alone: headers and tokens go along.
pub(super) fn read_url(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = read_plain(field, findings)?;
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    let Some(host) = host.filter(|host| !host.is_empty() && !host.contains('@')) else {
        let message = format!(
            "`{}` is `{}`, which is no address of a server.",
            field.path,
            excerpt(&text, 120)
        );
        findings.add(
            field
                .invalid(message)
                .suggest("write an address such as `https://example.com/mcp`"),
        );
        return None;
    };
    if text.starts_with("http://") && !is_this_machine(host) {
        let message = format!(
            "`{}` sends what agents say and keys over the network unencrypted.",
            field.path
        );
        findings.add(
            field
                .invalid(message)
                .suggest("write `https://`; `http://` leads to this machine alone"),
        );
        return None;
    }
    Some(text)
}

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

fn read_oauth(field: &Field<'_>, findings: &mut Findings) -> Option<McpOauth> {
    let mut fields = field.fields(findings)?;
    let id = fields
        .optional("clientId")
        .map(|field| read_plain(&field, findings));
    let secret = fields
        .optional("clientSecret")
        .map(|field| value_source::read(&field, findings));
    let metadata = fields
        .optional("clientMetadataUrl")
        .map(|field| read_url(&field, findings));
    let scopes = match fields.optional("scopes") {
        Some(field) => field
            .texts(findings)?
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
        client_metadata_url: metadata.map_or(Some(None), |url| url.map(Some))?,
        scopes,
    })
}

impl McpServer {
    /// The server's program where it is a file of the bundle, relative to its folder.
    pub fn bundled_program(&self) -> Option<String> {
        match &self.transport {
            McpTransport::Program { command, .. } if command.contains('/') => {
                paths::normal(command).ok()
            }
            _ => None,
        }
    }

    /// Where it is, for people: a command line, an address or a socket. Values are left out, for they may be secrets.
    pub fn shown(&self) -> String {
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

/// An MCP server: a program that is started (`command`), an address (`url`) or a Unix socket (`socket`).
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "McpServer")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct McpServerShape {
    /// A program that speaks over its standard input and output: a name, or a path that starts from the bundle's folder.
    #[schemars(length(min = 1))]
    command: Option<String>,
    /// Arguments of the program.
    args: Option<Vec<ScalarShape>>,
    /// Variables of the program beside the ordinary ones.
    env: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
    /// Where the program runs; the bundle's folder by default.
    #[schemars(length(min = 1))]
    cwd: Option<String>,
    /// The address of a server that speaks streamable HTTP.
    #[schemars(length(min = 1))]
    url: Option<String>,
    /// Headers of every request to it.
    headers: Option<std::collections::BTreeMap<String, TextOrSourceShape>>,
    /// A Unix socket on which the server speaks, a line for each message.
    #[schemars(length(min = 1))]
    socket: Option<String>,
    /// The only revision of the protocol that is spoken; the newest that both know by default.
    protocol: Option<McpProtocol>,
    /// How long the server may take to start and to say what it has, in milliseconds; 30000 by default.
    #[schemars(range(min = 1, max = 86_400_000))]
    connect_timeout_ms: Option<u64>,
    /// `defaults` answers forms with the defaults that they state; `none`, the default, says that nobody is there.
    elicitation: Option<Elicitation>,
    /// How `gdn mcp login` gets a token for a server with a `url`.
    oauth: Option<McpOauthShape>,
}

/// How a token is had.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "McpOauth")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct McpOauthShape {
    /// An id that was registered by hand.
    #[schemars(length(min = 1))]
    client_id: Option<String>,
    /// The secret that belongs to it.
    client_secret: Option<ValueSourceShape>,
    /// The address of a document that describes the client, which is then its id.
    #[schemars(length(min = 1))]
    client_metadata_url: Option<String>,
    /// What is asked for; what the server says by default.
    scopes: Option<Vec<String>>,
}
