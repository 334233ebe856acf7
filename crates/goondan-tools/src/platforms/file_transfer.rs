//! Files fetched from and sent to chat platforms.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_core::ports::tool::{Attachment, HandlerError, ToolContext, ToolOutput};
use goondan_spec::Code;
use goondan_spec::kinds::Permission;
use reqwest::Method;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{ApiRequestBody, PlatformClient, TimeLimit};
use crate::errors::{self, run_blocking};
use crate::file_changes::replace;
use crate::http::{FileForm, HttpToolRequest};
use crate::paths::FileRoot;
use crate::tool_operation::titled_output;

/// Common arguments of exports that download files.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct DownloadOptions {
    /// Maximum file size.
    #[serde(default = "default_max_bytes")]
    #[schemars(range(min = 1, max = 20_000_000))]
    max_bytes: u32,
    /// Return the content as Base64. Images are visible without it.
    #[serde(default)]
    include_base64: bool,
    /// Return the content as a `data:` URL.
    #[serde(default)]
    include_data_url: bool,
    /// File to save to, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = goondan_spec::kinds::PATH_FORMAT))]
    save_path: Option<String>,
}

fn default_max_bytes() -> u32 {
    3_000_000
}

pub(super) type Facts = Map<String, Value>;

impl DownloadOptions {
    /// Checks that the caller may write if the file is to be saved.
    pub(super) fn check(&self, ctx: &ToolContext) -> Result<(), HandlerError> {
        match self.save_path {
            Some(_) if !ctx.granted.contains(&Permission::Write) => {
                let error = HandlerError::new(
                    "this tool has no permission to write files, so `savePath` \
                        cannot be used",
                );
                Err(error.code(Code::TOOL_DENIED).suggest("omit `savePath`"))
            }
            _ => Ok(()),
        }
    }

    /// Fetches the file at `url`; `facts` are the known fields of the result.
    pub(super) async fn fetch(
        self,
        ctx: &ToolContext,
        bot: &PlatformClient,
        (url, bearer): (String, bool),
        timeout_ms: TimeLimit,
        mut facts: Facts,
    ) -> Result<ToolOutput, HandlerError> {
        let request = HttpToolRequest {
            method: Method::GET,
            url,
            headers: bot.headers(bearer)?,
            body: None,
            timeout: timeout_ms.duration(),
            max_bytes: self.max_bytes as usize,
        };
        let response = bot.send(request).await?;
        if !response.status.is_success() {
            return Err(bot.rejection_error("the download", response.status, None));
        }
        if response.truncated {
            let error =
                HandlerError::new(format!("the file has more than {} bytes", self.max_bytes));
            return Err(error
                .code(Code::TOOL_TOO_LARGE)
                .suggest("raise `maxBytes`, up to 20,000,000"));
        }
        let header = |name: &str| {
            response
                .headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let media_type = header("content-type");
        let image_type = media_type
            .clone()
            .filter(|media_type| media_type.starts_with("image/"));
        let data_url = media_type.as_ref().filter(|_| self.include_data_url);
        // Base64 is a third larger than the file, so encode only on demand.
        let is_wanted = self.include_base64 || data_url.is_some() || image_type.is_some();
        let encoded = if is_wanted {
            STANDARD.encode(&response.body)
        } else {
            String::new()
        };
        let file_facts = json!({
            "ok": true,
            "contentType": media_type,
            "sizeBytes": response.body.len(),
            "etag": header("etag"),
            "contentDisposition": header("content-disposition"),
            "savedPath": self.save(ctx, response.body).await?,
            "base64": self.include_base64.then_some(&encoded),
            "dataUrl": data_url.map(|media_type| format!("data:{media_type};base64,{encoded}")),
        });
        facts.extend(file_facts.as_object().cloned().unwrap_or_default());
        let mut output = titled_output("Fetched a file", Value::Object(facts));
        output
            .attachments
            .extend(image_type.map(|media_type| Attachment {
                media_type,
                data: encoded,
                name: None,
            }));
        Ok(output)
    }

    /// Writes the file to `save_path`. Returns its absolute path, or `None` without `save_path`.
    async fn save(
        &self,
        ctx: &ToolContext,
        content: Vec<u8>,
    ) -> Result<Option<String>, HandlerError> {
        let Some(path) = self.save_path.clone() else {
            return Ok(None);
        };
        let root = FileRoot::from_context(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&path)?;
            root.create_parents(&resolved)?;
            replace(&root, &resolved, &content)?;
            Ok(Some(resolved.path.to_string_lossy().into_owned()))
        })
        .await
    }
}

/// Maximum size of a sent file in bytes: Discord's limit for all users. The other platforms permit
/// more.
pub(super) const MAX_SENT_FILE_BYTES: u64 = 10_000_000;

pub(super) struct UploadedFile {
    /// The name on the platform.
    pub(super) name: String,
    pub(super) content: Vec<u8>,
}

impl UploadedFile {
    /// Reads the file `path` of the working directory; `name` replaces its own name.
    pub(super) async fn read(
        ctx: &ToolContext,
        path: String,
        name: Option<String>,
    ) -> Result<UploadedFile, HandlerError> {
        let root = FileRoot::from_context(ctx)?;
        run_blocking(move || {
            let resolved = root.resolve(&path)?;
            let (file, metadata) = root.open(&resolved)?;
            let too_large_error = || {
                let error = HandlerError::new(format!(
                    "`{path}` has more than {MAX_SENT_FILE_BYTES} bytes"
                ));
                error
                    .code(Code::TOOL_TOO_LARGE)
                    .suggest("send a smaller file, or a part of the file")
            };
            if metadata.len() > MAX_SENT_FILE_BYTES {
                return Err(too_large_error());
            }
            if metadata.len() == 0 {
                return Err(errors::invalid_argument(format!(
                    "`{path}` is empty; platforms reject empty files"
                )));
            }
            let mut content = Vec::new();
            let read = file.take(MAX_SENT_FILE_BYTES + 1).read_to_end(&mut content);
            read.map_err(|error| errors::io_error(format_args!("read `{path}`"), &error))?;
            // The file may have grown during reading.
            if content.len() as u64 > MAX_SENT_FILE_BYTES {
                return Err(too_large_error());
            }
            let file_name = resolved
                .path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            Ok(UploadedFile {
                name: name.or(file_name).unwrap_or_else(|| "file".to_owned()),
                content,
            })
        })
        .await
    }

    /// Returns a form with the file in `file_field`.
    pub(super) fn into_form(
        self,
        file_field: &'static str,
        fields: Vec<(&'static str, String)>,
    ) -> ApiRequestBody {
        ApiRequestBody::Form(FileForm {
            fields,
            file_field,
            file_name: self.name,
            content: self.content,
        })
    }
}
