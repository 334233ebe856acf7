//! Embeddings, through genai whatever the format.

use std::time::Duration;

use genai::embed::{EmbedRequest, EmbedResponse};
use goondan_core::ports::model::ModelError;

use super::failure::{self, Caller};
use super::http::Http;
use super::target::Target;
use crate::error::connection;

/// How long a batch may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A vector for each text.
pub(crate) async fn of(
    http: &Http,
    target: &Target,
    caller: &Caller,
    texts: Vec<String>,
) -> Result<Vec<Vec<f32>>, ModelError> {
    let client = http.client(target.is_secure()).await?;
    let target = target
        .resolve(&client.genai)
        .await
        .map_err(|error| caller.failure("the provider", error))?;
    let host = failure::host(target.endpoint.base_url());
    let asked = client
        .genai
        .exec_embed(target, EmbedRequest::new_batch(texts), None);
    let answer = tokio::time::timeout(PATIENCE, asked).await.map_err(|_| {
        connection(format!(
            "{host} did not answer within {} seconds",
            PATIENCE.as_secs()
        ))
    })?;
    answer
        .map(EmbedResponse::into_vectors)
        .map_err(|error| caller.failure(&host, error))
}
