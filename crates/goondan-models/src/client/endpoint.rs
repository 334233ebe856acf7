//! The base URL of a Model.

use goondan_core::ports::model::ModelError;
use goondan_spec::Resource;
use goondan_spec::kinds::Model;
use goondan_spec::sent_schema::ProviderWireFormat;
use url::{Position, Url};

use crate::errors::configuration_error;
use crate::provider::ModelProvider;

/// Ends of URLs that users copy along with the base, by format.
const PATH_ENDS: [(ProviderWireFormat, &str); 6] = [
    (ProviderWireFormat::Chat, "/chat/completions"),
    (ProviderWireFormat::Responses, "/responses"),
    (ProviderWireFormat::Anthropic, "/messages"),
    (ProviderWireFormat::Ollama, "/api/chat"),
    (ProviderWireFormat::Ollama, "/api"),
    (ProviderWireFormat::Ollama, "/v1"),
];

/// The base URL of a Model, with a slash at its end.
#[derive(Debug, Clone)]
pub(crate) struct ModelEndpoint {
    base: Url,
}

impl ModelEndpoint {
    /// Returns the `endpoint` of `model`, or the provider's address.
    ///
    /// # Errors
    /// The provider requires an endpoint, or the endpoint is not a URL.
    pub(crate) fn for_model(
        model: &Resource<Model>,
        provider: &ModelProvider,
        wire: ProviderWireFormat,
    ) -> Result<Self, ModelError> {
        let namespace = provider.quirks.namespace_address(&model.spec.model);
        let own_endpoint = model.spec.endpoint.as_deref();
        let base = own_endpoint
            .or(namespace)
            .or(provider.address.as_deref())
            .ok_or_else(|| {
                let example = provider.example.as_deref().unwrap_or_default();
                configuration_error(
                    format!(
                        "{} has no endpoint, which the provider {} requires.",
                        model.id, provider.name
                    ),
                    format!(
                        "In {}, write `endpoint: {example}` with your own URL.",
                        model.id
                    ),
                )
            })?;
        Ok(ModelEndpoint {
            base: base_url(model, base, wire)?,
        })
    }

    /// Returns true if the URL needs TLS.
    pub(crate) fn is_secure(&self) -> bool {
        self.base.scheme() == "https"
    }

    /// Returns host and port, which messages show instead of the URL.
    pub(crate) fn host(&self) -> String {
        match (self.base.host_str(), self.base.port()) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (Some(host), None) => host.to_owned(),
            (None, _) => "the provider".to_owned(),
        }
    }

    /// Returns the URL of `path`, which may have a query. The query of the endpoint is kept.
    ///
    /// # Errors
    /// The path does not fit into a URL.
    pub(crate) fn join(&self, path: &str) -> Result<Url, String> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        // A colon in a model's name would look like a scheme.
        let mut url = self
            .base
            .join(&format!("./{path}"))
            .map_err(|error| error.to_string())?;
        let queries: Vec<&str> = [query, self.base.query().unwrap_or_default()]
            .into_iter()
            .filter(|query| !query.is_empty())
            .collect();
        url.set_query((!queries.is_empty()).then(|| queries.join("&")).as_deref());
        Ok(url)
    }
}

/// Returns `endpoint` without a final slash, if it consists of a scheme and a host. Most such endpoints lack `/v1`.
pub(crate) fn bare_host(endpoint: &str) -> Option<String> {
    let url = Url::parse(endpoint.trim()).ok()?;
    (url.path() == "/" && url.query().is_none()).then(|| url[..Position::AfterPort].to_owned())
}

/// Returns `endpoint` without the path of the call, with a slash at its end.
fn base_url(
    model: &Resource<Model>,
    endpoint: &str,
    wire: ProviderWireFormat,
) -> Result<Url, ModelError> {
    let endpoint_error = |reason: String| {
        configuration_error(
            format!("The endpoint of {} is not usable: {reason}.", model.id),
            "Write a complete URL, such as `endpoint: http://localhost:1234/v1`.",
        )
    };
    let mut url = Url::parse(endpoint.trim()).map_err(|error| endpoint_error(error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(endpoint_error(format!(
            "the URL begins with {}:, not with http: or https:",
            url.scheme()
        )));
    }
    let path = url.path().trim_end_matches('/').to_owned();
    let end = PATH_ENDS
        .iter()
        .find(|(of, end)| *of == wire && path.ends_with(end))
        .map_or("", |row| row.1);
    let path = path[..path.len() - end.len()].trim_end_matches('/');
    url.set_path(&format!("{path}/"));
    url.set_fragment(None);
    Ok(url)
}
