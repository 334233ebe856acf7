//! A small call to a Model, which shows whether its key, address and name are right.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chrono::Utc;
use futures::StreamExt as _;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData, MessagePart, MessageRole, MessageSource};
use goondan_core::ports::model::{
    ModelChunk, ModelError, ModelErrorKind, ModelFactory as _, ModelRequest, TokenUsage,
};
use goondan_models::ModelProviders;
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{Environment, Resource};

/// Maximum time of the call. Local models may have to be loaded first.
const PROBE_TIMEOUT: Duration = Duration::from_secs(120);

/// Maximum output of the call. Some providers require at least 16 tokens.
const MAX_PROBE_TOKENS: u32 = 64;

/// Returns the error of a Model that cannot be called with these variables, without connecting.
pub fn model_obstacle(
    model: &Resource<Model>,
    bundle_root: &Path,
    environment: &Environment,
) -> Option<ModelError> {
    ModelProviders::new()
        .client(model, bundle_root, environment)
        .err()
}

/// Sends one short message to a Model, and returns the token counts of its answer.
///
/// # Errors
/// The Model is not usable, refused the call, or did not answer within two minutes.
pub async fn probe_model(
    model: &Resource<Model>,
    bundle_root: &Path,
    environment: &Environment,
) -> Result<Option<TokenUsage>, ModelError> {
    let client = ModelProviders::new().client(model, bundle_root, environment)?;
    let call = async {
        let mut answer = client.stream(probe_request()).await?;
        while let Some(chunk) = answer.next().await {
            if let ModelChunk::Finish(completed) = chunk? {
                return Ok(completed.usage);
            }
        }
        Err(ModelError::new(
            ModelErrorKind::Connection,
            "the answer was interrupted",
        ))
    };
    tokio::time::timeout(PROBE_TIMEOUT, call)
        .await
        .unwrap_or_else(|_| {
            let seconds = PROBE_TIMEOUT.as_secs();
            Err(ModelError::new(
                ModelErrorKind::Deadline,
                format!("the model did not answer within {seconds} s"),
            ))
        })
}

fn probe_request() -> ModelRequest {
    let message = Message {
        id: "probe".to_owned(),
        data: MessageData {
            role: MessageRole::User,
            content: vec![MessagePart::text("Answer with the word ok.")],
        },
        metadata: JsonObject::new(),
        created_at: Utc::now(),
        source: MessageSource::User,
    };
    ModelRequest {
        instance: InstanceId::new("models", "probe"),
        system: None,
        messages: vec![Arc::new(message)].into(),
        tools: Arc::new([]),
        params: Arc::new(ModelParams {
            max_tokens: Some(MAX_PROBE_TOKENS),
            ..ModelParams::default()
        }),
        output: None,
        caller: None,
        exchange: None,
    }
}
