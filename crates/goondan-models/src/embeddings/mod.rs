//! Embeddings: the requests of a batch of texts and the vectors in its answer.

#[cfg(test)]
mod tests;

use goondan_spec::sent_schema::ProviderWireFormat;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::errors::{ProviderError, find_error};

/// Message for providers without embeddings.
pub(crate) const NO_EMBEDDINGS: &str = "This provider has no embeddings.";

/// Text that replaces an empty one: Gemini refuses empty texts.
const BLANK_INPUT: &str = " ";

/// Purpose of the vectors, which Gemini needs to know.
const GEMINI_TASK: &str = "SEMANTIC_SIMILARITY";

/// Returns the path, relative to the base URL, and the body of a request for one vector a text. Returns `None` for
/// formats without embeddings.
pub(crate) fn request(
    wire: ProviderWireFormat,
    model: &str,
    texts: &[String],
) -> Option<(String, Value)> {
    match wire {
        ProviderWireFormat::Chat | ProviderWireFormat::Responses => Some((
            "embeddings".to_owned(),
            json!({"model": model, "input": texts}),
        )),
        ProviderWireFormat::Ollama => Some((
            "api/embed".to_owned(),
            json!({"model": model, "input": texts}),
        )),
        ProviderWireFormat::Gemini => {
            let name = model.strip_prefix("models/").unwrap_or(model);
            let requests: Vec<Value> = texts
                .iter()
                .map(|text| gemini_request(name, text))
                .collect();
            Some((
                format!("models/{name}:batchEmbedContents"),
                json!({"requests": requests}),
            ))
        }
        ProviderWireFormat::Anthropic | ProviderWireFormat::Converse => None,
    }
}

fn gemini_request(model: &str, text: &str) -> Value {
    let text = if text.trim().is_empty() {
        BLANK_INPUT
    } else {
        text
    };
    json!({
        "model": format!("models/{model}"),
        "content": {"parts": [{"text": text}]},
        "taskType": GEMINI_TASK,
    })
}

/// Answer in OpenAI's shape.
#[derive(Deserialize)]
struct OpenaiAnswer {
    data: Vec<OpenaiVector>,
}

#[derive(Deserialize)]
struct OpenaiVector {
    /// Position of the text. Some servers leave it out.
    index: Option<usize>,
    embedding: Vec<f32>,
}

#[derive(Deserialize)]
struct GeminiAnswer {
    embeddings: Vec<GeminiVector>,
}

#[derive(Deserialize)]
struct GeminiVector {
    values: Vec<f32>,
}

#[derive(Deserialize)]
struct OllamaAnswer {
    embeddings: Vec<Vec<f32>>,
}

/// Returns the vectors in an answer, in the order of the texts.
///
/// # Errors
/// The answer reports an error, or has another shape.
pub(crate) fn decode(
    wire: ProviderWireFormat,
    body: &Value,
) -> Result<Vec<Vec<f32>>, ProviderError> {
    if let Some(error) = find_error(body) {
        return Err(ProviderError::Reported(error));
    }
    Ok(match wire {
        ProviderWireFormat::Chat | ProviderWireFormat::Responses => {
            openai_vectors(OpenaiAnswer::deserialize(body)?)
        }
        ProviderWireFormat::Ollama => OllamaAnswer::deserialize(body)?.embeddings,
        ProviderWireFormat::Gemini => {
            let answer = GeminiAnswer::deserialize(body)?;
            answer
                .embeddings
                .into_iter()
                .map(|vector| vector.values)
                .collect()
        }
        ProviderWireFormat::Anthropic | ProviderWireFormat::Converse => {
            return Err(ProviderError::reported(NO_EMBEDDINGS));
        }
    })
}

fn openai_vectors(answer: OpenaiAnswer) -> Vec<Vec<f32>> {
    let mut vectors = answer.data;
    if vectors.iter().all(|vector| vector.index.is_some()) {
        vectors.sort_by_key(|vector| vector.index);
    }
    vectors.into_iter().map(|vector| vector.embedding).collect()
}
