//! Rules for the authorization server that an MCP server names.
//!
//! The MCP server chooses the authorization server, and the metadata contains further URLs. All of
//! them follow the rules of `spec.mcp.url`. A configured client secret goes only to the origin of
//! `url` or to the authorization server `oauth.issuer`.

use std::net::IpAddr;
use std::time::Duration;

use goondan_core::ports::tool::HandlerError;
use goondan_spec::Code;
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::Value;
use url::{Host, Url};

use crate::codes::{self, error};
use crate::definition::McpServerDefinition;
use crate::http;

/// Time limit for the metadata of an issuer.
const METADATA_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of the metadata in bytes.
const MAX_METADATA_BYTES: usize = 1 << 20;
/// Well-known paths of authorization server metadata, which precede the issuer's path.
const WELL_KNOWN_PATHS: [&str; 2] = [
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
];

/// Checks the metadata before the first request that contains a code, a token or a secret.
///
/// # Errors
///
/// Fails if a URL is not allowed, or if the server may not receive the client secret.
pub(crate) async fn check(
    definition: &McpServerDefinition,
    metadata: &AuthorizationMetadata,
) -> Result<(), HandlerError> {
    check_urls(definition, metadata)?;
    check_secret_destination(definition, metadata)?;
    match published_elsewhere(metadata) {
        Some((issuer, endpoint)) if !publishes(&issuer, endpoint).await => {
            let problem = format_args!(
                "names the token endpoint `{}`, which its authorization server `{}` does not \
                publish",
                codes::escaped_error_text(endpoint),
                codes::escaped_error_text(issuer.as_str())
            );
            Err(error(Code::MCP_AUTH, definition.name(), problem))
        }
        _ => Ok(()),
    }
}

/// Checks the issuer and every endpoint against the rules of `url`.
fn check_urls(
    definition: &McpServerDefinition,
    metadata: &AuthorizationMetadata,
) -> Result<(), HandlerError> {
    let server = definition.url().and_then(|url| Url::parse(url).ok());
    let server_kind = server.as_ref().map_or(HostKind::Public, HostKind::of);
    let fields = serde_json::to_value(metadata).unwrap_or_default();
    let fields = fields.as_object().into_iter().flatten();
    for (name, value) in fields {
        let (true, Value::String(url)) = (name == "issuer" || name.ends_with("_endpoint"), value)
        else {
            continue;
        };
        let refusal = match Url::parse(url).ok().filter(Url::has_host) {
            None => "is not the URL of a server",
            Some(url) => {
                let kind = HostKind::of(&url);
                let is_encrypted = url.scheme() == "https";
                if !is_encrypted && (url.scheme() != "http" || kind != HostKind::Loopback) {
                    "would send tokens over the network unencrypted"
                } else if kind != HostKind::Public && kind != server_kind {
                    "is in a private network of this machine"
                } else {
                    continue;
                }
            }
        };
        let url = codes::escaped_error_text(url);
        let name = codes::escaped_error_text(name);
        let problem = format_args!("names the {name} `{url}`, which {refusal}");
        return Err(error(Code::MCP_AUTH, definition.name(), problem));
    }
    Ok(())
}

/// Checks that the client secret is sent only to a trusted server. With `oauth.issuer`, the issuer
/// must match it. Otherwise, a configured client secret requires a token endpoint at the origin of
/// `url`.
fn check_secret_destination(
    definition: &McpServerDefinition,
    metadata: &AuthorizationMetadata,
) -> Result<(), HandlerError> {
    let issuer = metadata.issuer.as_deref();
    let is_accepted = match &definition.oauth.issuer {
        Some(expected) => {
            issuer.is_some_and(|issuer| without_slash(issuer) == without_slash(expected))
        }
        None => {
            let [server, endpoint] = [definition.url(), Some(metadata.token_endpoint.as_str())]
                .map(|url| url.and_then(|url| Url::parse(url).ok()));
            definition.client_secret.is_none()
                || server.is_some_and(|server| {
                    endpoint.is_some_and(|endpoint| server.origin() == endpoint.origin())
                })
        }
    };
    if is_accepted {
        return Ok(());
    }
    let found = codes::escaped_error_text(issuer.unwrap_or(&metadata.token_endpoint));
    let name = definition.name();
    Err(match &definition.oauth.issuer {
        Some(expected) => {
            let problem =
                format_args!("names the authorization server `{found}` instead of `{expected}`");
            error(Code::MCP_AUTH, name, problem).suggest(format!(
                "If the login service has moved, the swarm operator can set `issuer: {found}` in \
                `spec.mcp.oauth` of Tool/{name}."
            ))
        }
        None => {
            let problem = format_args!(
                "names the authorization server `{found}`, which may not receive `clientSecret`"
            );
            error(Code::MCP_AUTH, name, problem).suggest(format!(
                "If the secret belongs to this login service, add `issuer: {found}` to \
                `spec.mcp.oauth` of Tool/{name}."
            ))
        }
    })
}

/// Returns the issuer and the token endpoint if they have different origins. The issuer is then
/// only a claim of the metadata.
fn published_elsewhere(metadata: &AuthorizationMetadata) -> Option<(Url, &str)> {
    let issuer = Url::parse(metadata.issuer.as_deref()?).ok()?;
    let endpoint = Url::parse(&metadata.token_endpoint).ok()?;
    (issuer.origin() != endpoint.origin()).then_some((issuer, metadata.token_endpoint.as_str()))
}

/// Returns whether the issuer's own metadata contains the token endpoint.
async fn publishes(issuer: &Url, endpoint: &str) -> bool {
    let path = without_slash(issuer.path());
    let mut candidates = WELL_KNOWN_PATHS
        .map(|known| format!("{known}{path}"))
        .to_vec();
    candidates.push(format!("{path}{}", WELL_KNOWN_PATHS[1]));
    for candidate in candidates {
        let mut url = issuer.clone();
        url.set_path(&candidate);
        let reading = tokio::time::timeout(METADATA_TIMEOUT, read_json(url)).await;
        let Some(published) = reading.ok().flatten() else {
            continue;
        };
        if published["token_endpoint"] == endpoint {
            return true;
        }
    }
    false
}

/// Reads a JSON document; `None` if that fails.
async fn read_json(url: Url) -> Option<Value> {
    let mut response = http::client().await.ok()?.get(url).send().await.ok()?;
    if !response.status().is_success() {
        return None;
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        if body.len() + chunk.len() > MAX_METADATA_BYTES {
            return None;
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).ok()
}

/// Removes the last slash, which issuers often omit.
fn without_slash(text: &str) -> &str {
    text.strip_suffix('/').unwrap_or(text)
}

/// Network of a host, as far as its name states it. The library checks the addresses of the
/// requests that it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostKind {
    Public,
    Private,
    Loopback,
}

impl HostKind {
    /// Returns the network of the URL's host.
    fn of(url: &Url) -> HostKind {
        match url.host() {
            Some(Host::Domain(name)) => {
                let name = name.trim_end_matches('.');
                let is_this_machine = name == "localhost" || name.ends_with(".localhost");
                if is_this_machine {
                    HostKind::Loopback
                } else {
                    HostKind::Public
                }
            }
            Some(Host::Ipv4(address)) => HostKind::of_address(IpAddr::V4(address)),
            Some(Host::Ipv6(address)) => HostKind::of_address(IpAddr::V6(address)),
            None => HostKind::Public,
        }
    }

    /// Returns the network of an address.
    fn of_address(address: IpAddr) -> HostKind {
        let address = address.to_canonical();
        let is_private = match address {
            IpAddr::V4(address) => {
                address.is_private()
                    || address.is_link_local()
                    || address.is_unspecified()
                    || address.is_broadcast()
            }
            IpAddr::V6(address) => {
                address.is_unique_local()
                    || address.is_unicast_link_local()
                    || address.is_unspecified()
            }
        };
        if address.is_loopback() {
            HostKind::Loopback
        } else if is_private {
            HostKind::Private
        } else {
            HostKind::Public
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use goondan_spec::kinds::{
        ElicitationMode, McpOauth, McpServer, McpTransport, Tool, ToolEntry,
    };
    use goondan_spec::value::{Environment, ValueSource};
    use goondan_spec::{Kind, Resource, ResourceId, Secret};
    use serde_json::json;

    use super::*;

    fn server_definition(url: &str, oauth: McpOauth) -> McpServerDefinition {
        let transport = McpTransport::Http {
            url: url.to_owned(),
            headers: Vec::new(),
        };
        let server = McpServer {
            transport,
            protocol: None,
            connect_timeout: METADATA_TIMEOUT,
            elicitation: ElicitationMode::None,
            oauth,
        };
        let tool = Resource {
            id: ResourceId {
                package: None,
                kind: Kind::Tool,
                name: "crm".to_owned(),
            },
            labels: Default::default(),
            annotations: Default::default(),
            origin: None,
            spec: Tool::new(ToolEntry::Mcp(Box::new(server))),
        };
        McpServerDefinition::new(&tool, Path::new("/project"), &Environment::default()).unwrap()
    }

    fn metadata(fields: Value) -> AuthorizationMetadata {
        let mut all = json!({
            "issuer": "https://login.example", "authorization_endpoint": "https://login.example/a",
            "token_endpoint": "https://login.example/t", "registration_endpoint": "https://login.example/r",
            "revocation_endpoint": "https://login.example/v",
        });
        let fields = fields.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(fields);
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn metadata_urls_follow_the_same_rules_as_the_server_url() {
        let server = server_definition("https://crm.example/mcp", McpOauth::default());
        assert!(check_urls(&server, &metadata(json!({}))).is_ok());
        let names = [
            "issuer",
            "authorization_endpoint",
            "token_endpoint",
            "registration_endpoint",
            "revocation_endpoint",
        ];
        let urls = [
            "http://192.0.2.2/t",
            "http://login.example/t",
            "http://169.254.169.254/t",
            "https://169.254.169.254/t",
            "https://10.0.0.1/t",
            "https://[fd00::1]/t",
            "https://[::ffff:10.0.0.1]/t",
            "http://127.0.0.1/t",
            "https://localhost/t",
            "file:///t",
            "t",
        ];
        for (name, url) in names.iter().flat_map(|name| urls.map(|url| (name, url))) {
            let refused = check_urls(&server, &metadata(json!({*name: url}))).unwrap_err();
            assert!(refused.message.contains(url), "{name} {url}");
        }
        let here = json!({"token_endpoint": "http://127.0.0.1:9/t"});
        let local = server_definition("http://localhost:1/mcp", McpOauth::default());
        assert!(check_urls(&local, &metadata(here)).is_ok());
        let near = json!({"token_endpoint": "https://10.0.0.9/t"});
        let private = server_definition("https://10.0.0.1/mcp", McpOauth::default());
        assert!(check_urls(&private, &metadata(near)).is_ok());
    }

    #[test]
    fn a_client_secret_is_sent_only_to_its_issuer() {
        let oauth = |issuer: Option<&str>| McpOauth {
            client_id: Some("me".to_owned()),
            client_secret: Some(ValueSource::Value(Secret::new("secret-of-the-client"))),
            issuer: issuer.map(str::to_owned),
            ..McpOauth::default()
        };
        let checked = |issuer, fields| {
            let server = server_definition("https://crm.example/mcp", oauth(issuer));
            check_secret_destination(&server, &metadata(fields))
        };
        let suggestion = checked(None, json!({})).unwrap_err().suggestion.unwrap();
        assert!(
            suggestion.contains("add `issuer: https://login.example` to"),
            "{suggestion}"
        );
        let own =
            json!({"issuer": "https://crm.example", "token_endpoint": "https://crm.example/t"});
        assert!(checked(None, own).is_ok());
        // The metadata claims the origin of the MCP server as issuer, but has foreign endpoints.
        let claimed = json!({"issuer": "https://crm.example"});
        assert!(checked(None, claimed).is_err());
        for issuer in ["https://login.example", "https://login.example/"] {
            assert!(checked(Some(issuer), json!({})).is_ok());
        }
        let other = json!({"issuer": "https://evil.example"});
        let refused = checked(Some("https://login.example"), other).unwrap_err();
        assert!(
            refused
                .message
                .contains("`https://evil.example` instead of"),
            "{}",
            refused.message
        );
    }

    #[test]
    fn a_token_endpoint_on_another_origin_is_checked_with_the_issuer() {
        assert_eq!(published_elsewhere(&metadata(json!({}))), None);
        let claimed = metadata(json!({"token_endpoint": "https://evil.example/t"}));
        let (issuer, endpoint) = published_elsewhere(&claimed).unwrap();
        assert_eq!(
            (issuer.as_str(), endpoint),
            ("https://login.example/", "https://evil.example/t")
        );
    }
}
