//! Recorded HTTP exchanges, whose headers name variables instead of keys.

use goondan_core::model_calls::{HttpExchange, MAX_RECORDED_BODY_BYTES};
use goondan_spec::Secret;
use reqwest::Url;
use reqwest::header::HeaderMap;

use crate::transport::SharedBody;

/// Variable for a key that does not come from a variable.
const DEFAULT_KEY_VARIABLE: &str = "API_KEY";

/// The key of a model and the variable that replaces it in recorded headers.
pub(crate) struct ShownKey {
    value: Option<Secret>,
    variable: String,
}

impl ShownKey {
    /// Creates the replacement of `value`, which comes from `variable`.
    pub(crate) fn new(value: Option<&Secret>, variable: Option<&str>) -> Self {
        ShownKey {
            value: value.cloned(),
            variable: variable.unwrap_or(DEFAULT_KEY_VARIABLE).to_owned(),
        }
    }

    /// Returns the record of a request, without its response.
    pub(crate) fn request_record(
        &self,
        url: &Url,
        headers: &HeaderMap,
        body: &SharedBody,
    ) -> HttpExchange {
        let mut url = url.clone();
        // A URL that allows no password contains none.
        let _ = url.set_password(None);
        HttpExchange {
            url: url.into(),
            headers: self.shown_headers(headers),
            body: body.text(MAX_RECORDED_BODY_BYTES),
            ..HttpExchange::default()
        }
    }

    /// Returns the headers with variables in place of keys.
    fn shown_headers(&self, headers: &HeaderMap) -> Vec<(String, String)> {
        let shown_headers = headers.iter().map(|(name, value)| {
            let text = String::from_utf8_lossy(value.as_bytes());
            let shown_value = match self.replace_key(&text) {
                Some(shown) => shown,
                None if value.is_sensitive() => format!("${}", variable_for(name.as_str())),
                None => text.into_owned(),
            };
            (name.as_str().to_owned(), shown_value)
        });
        shown_headers.collect()
    }

    /// Returns a header value with the variable in place of the key; `None` if the value has no
    /// key.
    fn replace_key(&self, value: &str) -> Option<String> {
        let key = self.value.as_ref()?.expose();
        let before = value.strip_suffix(key).filter(|_| !key.is_empty())?;
        matches!(before, "" | "Bearer ").then(|| format!("{before}${}", self.variable))
    }
}

/// Returns the name of a variable for the secret value of a header.
fn variable_for(header: &str) -> String {
    header.to_uppercase().replace('-', "_")
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn keys_and_secret_headers_become_variables() {
        let mut headers = HeaderMap::new();
        for (name, value, is_sensitive) in [
            ("authorization", "Bearer sk-12345678", true),
            ("x-tenant", "t-42", true),
            ("accept", "text/plain", false),
        ] {
            let mut value = HeaderValue::from_static(value);
            value.set_sensitive(is_sensitive);
            headers.insert(name, value);
        }
        let key = ShownKey::new(Some(&Secret::new("sk-12345678")), Some("OPENAI_API_KEY"));
        let url = Url::parse("http://me:hidden@localhost/v1").unwrap();
        let exchange = key.request_record(&url, &headers, &SharedBody::new(vec!["{}".into()]));
        assert_eq!(exchange.url, "http://me@localhost/v1");
        assert_eq!(exchange.body.as_deref(), Some("{}"));
        let shown = |name: &str| {
            let header = exchange.headers.iter().find(|(known, _)| known == name);
            header.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        assert_eq!(shown("authorization"), "Bearer $OPENAI_API_KEY");
        assert_eq!(shown("x-tenant"), "$X_TENANT");
        assert_eq!(shown("accept"), "text/plain");
    }
}
