//! Writes model calls to a cassette while a real provider answers them.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use goondan_core::ports::model::{
    ModelChunk, ModelClient, ModelError, ModelFactory, ModelRequest, ModelStream,
};
use goondan_core::private_files;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, reason};
use serde_json::{Value, json};

use super::entry::{RecordedPiece, RecordedRequest, digest};
use super::mask::CassetteMask;
use crate::errors::configuration_error;

/// Returns a factory whose clients answer like those of `factory`, and write every request and
/// answer to a cassette at `path`. The first client empties the file. A cancelled call is not
/// recorded.
///
/// # Errors
/// Fails if the file cannot be written.
pub fn record(
    factory: Arc<dyn ModelFactory>,
    path: impl Into<PathBuf>,
) -> io::Result<Arc<dyn ModelFactory>> {
    let path = path.into();
    // The project may replay this file, so it is emptied only after it was read.
    let file = private_files::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)?;
    Ok(Arc::new(RecordingFactory {
        factory,
        tape: Arc::new(CassetteFile {
            path,
            file: Mutex::new((file, false)),
        }),
    }))
}

struct RecordingFactory {
    factory: Arc<dyn ModelFactory>,
    tape: Arc<CassetteFile>,
}

/// A cassette file that is written.
struct CassetteFile {
    path: PathBuf,
    /// The file, and whether it was already emptied.
    file: Mutex<(File, bool)>,
}

impl ModelFactory for RecordingFactory {
    fn client(
        &self,
        model: &Resource<Model>,
        bundle_root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let client = self.factory.client(model, bundle_root, environment)?;
        self.tape.write("")?;
        Ok(Arc::new(RecordingClient {
            client,
            tape: Arc::clone(&self.tape),
            mask: CassetteMask::for_model(model, environment),
        }))
    }
}

impl CassetteFile {
    /// Appends `text`. The first call empties the file.
    fn write(&self, text: &str) -> Result<(), ModelError> {
        let mut tape = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let (file, has_begun) = &mut *tape;
        let mut write = || {
            // A pipe or a terminal has no length.
            if !std::mem::replace(has_begun, true) && file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(text.as_bytes())
        };
        write().map_err(|error| {
            let message = format!(
                "the cassette {} cannot be written: {}",
                self.path.display(),
                reason(&error)
            );
            configuration_error(message, "check whether the disk is full")
        })
    }
}

struct RecordingClient {
    client: Arc<dyn ModelClient>,
    tape: Arc<CassetteFile>,
    mask: CassetteMask,
}

#[async_trait]
impl ModelClient for RecordingClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let mut take = RecordingEntry {
            tape: Arc::clone(&self.tape),
            mask: self.mask.clone(),
            head: record_head(&request),
            answer: Vec::new(),
        };
        match self.client.stream(request).await {
            Ok(stream) => Ok(record_stream(stream, take)),
            Err(error) => {
                take.answer.push(RecordedPiece::Error(error.clone()));
                take.write()?;
                Err(error)
            }
        }
    }

    fn is_schema_sent(&self) -> bool {
        self.client.is_schema_sent()
    }

    fn context_window(&self) -> Option<u64> {
        self.client.context_window()
    }

    /// Embeddings are not part of a cassette.
    async fn embed(&self, texts: Vec<String>) -> Result<Vec<Vec<f32>>, ModelError> {
        self.client.embed(texts).await
    }
}

/// Returns `stream`, whose complete answer is recorded before the last chunk is forwarded.
fn record_stream(
    stream: ModelStream,
    take: RecordingEntry,
) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
    let mut take = Some(take);
    stream
        .map(move |item| {
            let Some(mut entry) = take.take() else {
                return item;
            };
            match &item {
                Ok(chunk) => RecordedPiece::push(&mut entry.answer, chunk),
                Err(error) => entry.answer.push(RecordedPiece::Error(error.clone())),
            }
            if matches!(item, Ok(ModelChunk::Finish(_)) | Err(_)) {
                entry.write()?;
            } else {
                take = Some(entry);
            }
            item
        })
        .boxed()
}

/// An entry whose answer is not complete yet.
struct RecordingEntry {
    tape: Arc<CassetteFile>,
    mask: CassetteMask,
    /// The agent, the request and its digest.
    head: (String, RecordedRequest, String),
    answer: Vec<RecordedPiece>,
}

/// Returns the agent, the compared content of the request, and its digest.
fn record_head(request: &ModelRequest) -> (String, RecordedRequest, String) {
    let asked = RecordedRequest::of(request);
    let digest = digest(&asked, request);
    (request.instance.agent.clone(), asked, digest)
}

impl RecordingEntry {
    /// Writes the entry to the cassette, masked.
    fn write(self) -> Result<(), ModelError> {
        let (agent, asked, digest) = self.head;
        let entry: Value =
            json!({"agent": agent, "digest": digest, "request": asked, "answer": self.answer});
        self.tape.write(&format!("{}\n", self.mask.apply(entry)))
    }
}
