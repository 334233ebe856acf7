//! What the tests of this crate share.

use std::sync::Arc;

use futures::TryStreamExt;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData, MessageSource, Part, Role};
use goondan_core::ports::model::{ModelChunk, ModelClient, ModelError, ModelRequest};
use goondan_spec::kinds::{Model, ModelParams};
use goondan_spec::{Kind, Resource, ResourceId};
use serde_json::Value;

pub(crate) fn model(provider: &str, options: Value) -> Resource<Model> {
    let Value::Object(options) = options else {
        panic!("options are an object")
    };
    let spec = Model {
        provider: provider.to_owned(),
        model: "m".to_owned(),
        api_key: None,
        endpoint: None,
        options,
        capabilities: Default::default(),
        pricing: None,
        limits: Default::default(),
    };
    let id = ResourceId {
        package: None,
        kind: Kind::Model,
        name: "m".to_owned(),
    };
    Resource {
        id,
        labels: Default::default(),
        annotations: Default::default(),
        origin: None,
        spec,
    }
}

pub(crate) fn message(role: Role, content: Vec<Part>) -> Arc<Message> {
    Arc::new(Message {
        id: "id".to_owned(),
        data: MessageData { role, content },
        metadata: Default::default(),
        created_at: Default::default(),
        source: MessageSource::User,
    })
}

pub(crate) fn request(agent: &str, input: &str) -> ModelRequest {
    ModelRequest {
        instance: InstanceId::new(agent, "main"),
        system: None,
        messages: vec![message(Role::User, vec![Part::text(input.to_owned())])].into(),
        tools: Arc::from([]),
        params: Arc::new(ModelParams {
            temperature: None,
            max_tokens: None,
            top_p: None,
            other: Default::default(),
        }),
        output: None,
        caller: None,
    }
}

/// Everything that comes, or the first error.
pub(crate) async fn answer(
    client: &Arc<dyn ModelClient>,
    request: ModelRequest,
) -> Result<Vec<ModelChunk>, ModelError> {
    client.stream(request).await?.try_collect().await
}

/// The text of the answer.
pub(crate) async fn said(client: &Arc<dyn ModelClient>, request: ModelRequest) -> String {
    let chunks = answer(client, request).await.expect("an answer");
    let text = |chunk| {
        if let ModelChunk::Text(text) = chunk {
            Some(text)
        } else {
            None
        }
    };
    chunks.into_iter().filter_map(text).collect()
}
