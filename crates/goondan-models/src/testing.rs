//! What the tests of this crate share.

use std::path::Path;
use std::sync::Arc;

use futures::TryStreamExt;
use goondan_core::ids::InstanceId;
use goondan_core::message::{Message, MessageData, MessageSource, Part, Role};
use goondan_core::ports::model::{ModelChunk, ModelClient, ModelError, ModelRequest};
use goondan_spec::kinds::Model;
use goondan_spec::{BasePackage, LoadInput, MemoryFiles, Resource, load};
use serde_json::{Value, json};

pub(crate) fn model(provider: &str, options: Value) -> Resource<Model> {
    loaded(json!({"provider": provider, "model": "m", "options": options}))
}

/// The Model with this `spec`, as a project defines it.
fn loaded(spec: Value) -> Resource<Model> {
    let document = json!({
        "apiVersion": "goondan.ai/v1", "kind": "Model", "metadata": {"name": "m"}, "spec": spec,
    });
    let files = MemoryFiles::new().file("/p/goondan.yaml", document.to_string());
    let loaded = load(LoadInput {
        root: Path::new("/p"),
        files: &files,
        base: &BasePackage::default(),
    });
    let bundle = loaded
        .bundle
        .unwrap_or_else(|| panic!("{:?}", loaded.diagnostics));
    Resource::clone(&bundle.models()[0])
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
        params: Arc::default(),
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
