//! What the tools of chat platforms share: a token that no model sees, calls of the platform's API, and its files.

pub(crate) mod slack;
pub(crate) mod telegram;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_core::ports::tool::{Attachment, ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::Permission;
use goondan_spec::{Code, Secret};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::define::titled;
use crate::errors::{self, blocking};
use crate::http::{HttpClient, Request, Response};
use crate::net_guard::Guard;
use crate::paths::Root;
use crate::table::{ConfigError, Opening};
use crate::values;
use crate::write::replace;

/// How much of an answer of an API is read, in bytes.
const ANSWER: usize = 4_000_000;
/// Of what a platform says about an error so much is told, in characters.
const LONGEST: usize = 300;

/// Keys of `spec.config` with their meaning.
pub(crate) const CONFIG: &[(&str, &str)] = &[
    (
        "token",
        "the token of the bot, a value source such as `{valueFrom: {env: MY_BOT}}`; without it and `apiBaseUrl`, a variable has it (see above)",
    ),
    ("apiBaseUrl", "the address of the API, where it is not the platform's own"),
    ("allowPrivateNetwork", "`true` to allow an API at private, loopback and link-local addresses"),
    ("allowHosts", "a list of hosts that are allowed at any address, such as `bots.internal`"),
];

/// What `spec.config` may say.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    token: Option<Value>,
    api_base_url: Option<String>,
    #[serde(default)]
    allow_private_network: bool,
    #[serde(default)]
    allow_hosts: Vec<String>,
}

/// A bot on a platform.
pub(crate) struct Bot {
    /// What the platform is called in messages.
    platform: &'static str,
    /// Variables that customarily hold the token.
    variables: &'static [&'static str],
    /// Without one, calls fail and say which variable to set.
    token: Option<Secret>,
    /// Without a slash at its end.
    base: String,
    http: HttpClient,
}

/// The variables in which the built-in tool of that name looks for its token.
pub(crate) fn variables_of(tool: &str) -> &'static [&'static str] {
    match tool {
        "telegram" => telegram::VARIABLES,
        "slack" => slack::VARIABLES,
        _ => &[],
    }
}

impl Bot {
    /// The bot of a tool.
    fn open(
        opening: &Opening<'_>,
        platform: &'static str,
        base: &str,
        variables: &'static [&'static str],
    ) -> Result<Bot, ConfigError> {
        let config: Config = opening.config()?;
        let token = match &config.token {
            Some(source) => Some(values::resolve(source, "token", opening.environment)?),
            // It belongs to the platform, not to whoever listens at another address.
            None if config.api_base_url.is_some() => None,
            None => {
                let held = variables.iter().filter_map(|name| opening.environment.get(name));
                held.map(str::trim).find(|token| !token.is_empty()).map(Secret::new)
            }
        };
        let base = config.api_base_url.as_deref().unwrap_or(base).trim_end_matches('/').to_owned();
        let http = HttpClient::new(Guard::new(config.allow_private_network, config.allow_hosts));
        Ok(Bot { platform, variables, token, base, http })
    }

    fn token(&self) -> Result<&str, ToolError> {
        self.token.as_ref().map(|token| token.expose().trim()).ok_or_else(|| {
            let message = format!("this tool has no token for {}", self.platform);
            ToolError::new(message).code(Code::TOOL_UNAVAILABLE).suggest(format!(
                "whoever runs the swarm can set {}, or give the tool `config: {{token: {{valueFrom: {{env: NAME}}}}}}`",
                self.variables.first().unwrap_or(&"a variable")
            ))
        })
    }

    /// Posts `body` as JSON; gives back the status and the JSON of the answer.
    async fn post(
        &self,
        url: String,
        bearer: bool,
        body: Value,
        timeout_ms: u32,
    ) -> Result<(StatusCode, Value), ToolError> {
        let mut headers = self.headers(bearer)?;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json; charset=utf-8"));
        let request = Request {
            method: Method::POST,
            url,
            headers,
            body: Some(body.to_string()),
            timeout: Duration::from_millis(timeout_ms.into()),
            max_bytes: ANSWER,
        };
        let response = self.send(request).await?;
        Ok((response.status, serde_json::from_slice(&response.body).unwrap_or_default()))
    }

    fn headers(&self, bearer: bool) -> Result<HeaderMap, ToolError> {
        let mut headers = HeaderMap::new();
        if bearer {
            let value = HeaderValue::try_from(format!("Bearer {}", self.token()?));
            let mut value = value.map_err(|_| {
                ToolError::new(format!("the token for {} can't be sent in a header", self.platform))
                    .code(Code::TOOL_HTTP)
            })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    /// Sends a request. An address may hold the token, so no error does.
    async fn send(&self, request: Request) -> Result<Response, ToolError> {
        let token = self.token()?.to_owned();
        self.http.send(request).await.map_err(|mut error| {
            error.message = error.message.replace(&token, "***");
            error
        })
    }

    /// The platform did not do what it was asked for.
    fn refused(&self, method: &str, status: StatusCode, said: Option<&str>) -> ToolError {
        let said: String = said.unwrap_or_default().chars().take(LONGEST).collect();
        let said = if said.is_empty() { format!("it answered with {status}") } else { said };
        let error = ToolError::new(format!("{} refused {method}: {said}", self.platform)).code(Code::TOOL_HTTP);
        match status {
            StatusCode::TOO_MANY_REQUESTS => error.suggest("try again in a while"),
            _ => error,
        }
    }
}

/// How a file is fetched and what is told of it: what exports that fetch files take beside their own arguments.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Fetch {
    /// The largest file to take, in bytes.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 20_000_000))]
    max_bytes: u32,
    /// Put the content into the result as Base64. A picture can be seen without that.
    #[serde(default)]
    include_base64: bool,
    /// Put the content into the result as a `data:` URL.
    #[serde(default)]
    include_data_url: bool,
    /// A file, relative to the working directory, to save the content in.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH))]
    save_path: Option<String>,
}

fn default_max_bytes() -> u32 {
    3_000_000
}

/// The fields of a result.
type Facts = Map<String, Value>;

impl Fetch {
    /// That the caller may write, where the file is to be saved.
    fn check(&self, ctx: &ToolContext) -> Result<(), ToolError> {
        match self.save_path {
            Some(_) if !ctx.granted.contains(&Permission::Write) => {
                let error = ToolError::new("files may not be written here, so `savePath` can't be used");
                Err(error.code(Code::TOOL_DENIED).suggest("leave `savePath` out"))
            }
            _ => Ok(()),
        }
    }

    /// Fetches the file at `url`; `facts` are what is known of it.
    async fn fetch(
        self,
        ctx: &ToolContext,
        bot: &Bot,
        (url, bearer): (String, bool),
        timeout_ms: u32,
        mut facts: Facts,
    ) -> Result<ToolOutput, ToolError> {
        let request = Request {
            method: Method::GET,
            url,
            headers: bot.headers(bearer)?,
            body: None,
            timeout: Duration::from_millis(timeout_ms.into()),
            max_bytes: self.max_bytes as usize,
        };
        let response = bot.send(request).await?;
        if !response.status.is_success() {
            return Err(bot.refused("the download", response.status, None));
        }
        if response.truncated {
            let error = ToolError::new(format!("the file has more than {} bytes", self.max_bytes));
            return Err(error.code(Code::TOOL_TOO_LARGE).suggest("raise `maxBytes`, up to 20,000,000"));
        }
        let header = |name: &str| response.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let media_type = header("content-type");
        let picture = media_type.clone().filter(|media_type| media_type.starts_with("image/"));
        let data_url = media_type.as_ref().filter(|_| self.include_data_url);
        // A third larger than the file: only for who wants it.
        let is_wanted = self.include_base64 || data_url.is_some() || picture.is_some();
        let encoded = if is_wanted { STANDARD.encode(&response.body) } else { String::new() };
        let own = json!({
            "ok": true,
            "contentType": media_type,
            "sizeBytes": response.body.len(),
            "etag": header("etag"),
            "contentDisposition": header("content-disposition"),
            "savedPath": self.save(ctx, response.body).await?,
            "base64": self.include_base64.then_some(&encoded),
            "dataUrl": data_url.map(|media_type| format!("data:{media_type};base64,{encoded}")),
        });
        facts.extend(own.as_object().cloned().unwrap_or_default());
        let mut output = titled("Fetched a file", Value::Object(facts));
        output.attachments.extend(picture.map(|media_type| Attachment { media_type, data: encoded, name: None }));
        Ok(output)
    }

    async fn save(&self, ctx: &ToolContext, content: Vec<u8>) -> Result<Option<String>, ToolError> {
        let Some(path) = self.save_path.clone() else { return Ok(None) };
        let root = Root::of(ctx)?;
        blocking(move || {
            let place = root.resolve(&path)?;
            root.create_parents(&place)?;
            replace(&root, &place, &content)?;
            Ok(Some(place.path.to_string_lossy().into_owned()))
        })
        .await
    }
}

/// `fields` without those that are `null`.
fn given(fields: Value) -> Value {
    match fields {
        Value::Object(fields) => Value::Object(fields.into_iter().filter(|(_, value)| !value.is_null()).collect()),
        other => other,
    }
}

/// What was given as one and as several, each once, in order.
fn emojis(one: Option<String>, several: Vec<String>, clean: fn(&str) -> &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for emoji in one.iter().chain(&several).map(|emoji| clean(emoji.trim())).filter(|emoji| !emoji.is_empty()) {
        if !all.iter().any(|known| known == emoji) {
            all.push(emoji.to_owned());
        }
    }
    all
}

fn no_emoji() -> ToolError {
    errors::invalid("`emoji` or `emojis` must name at least one")
}

fn default_timeout() -> u32 {
    15_000
}
