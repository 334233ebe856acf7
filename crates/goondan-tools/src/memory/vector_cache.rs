//! Embedding vectors of texts, cached on disk so that each text is embedded only once.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_core::file_lock::{FileLock, LOCK_TIMEOUT};
use goondan_core::ids::hex;
use goondan_core::ports::capabilities::EmbeddingModels;
use goondan_core::ports::tool::HandlerError;
use goondan_core::private_files;
use goondan_spec::Code;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::errors::run_blocking;

/// Maximum number of texts per request.
const MAX_TEXTS_PER_REQUEST: usize = 96;
/// File size in bytes above which a vector file is restarted.
const MAX_VECTOR_FILE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Default)]
pub(super) struct VectorCache {
    /// Vectors by the hash of model and text; loaded from disk at the first use.
    known: tokio::sync::Mutex<Option<HashMap<String, Arc<[f32]>>>>,
}

#[derive(Serialize, Deserialize)]
struct StoredVector {
    key: String,
    /// Little-endian floats in Base64.
    vector: String,
}

impl VectorCache {
    /// Returns a vector for each text, in order. Requests vectors that are not cached from `model`.
    pub(super) async fn get_or_embed(
        &self,
        power: &dyn EmbeddingModels,
        model: &str,
        folder: Option<&Path>,
        texts: &[String],
    ) -> Result<Vec<Arc<[f32]>>, HandlerError> {
        let identity = power.model_identity(model)?;
        let file = folder.map(|folder| folder.join(format!("{}.jsonl", hash(&identity, ""))));
        let mut cached = self.known.lock().await;
        if cached.is_none() {
            let file = file.clone();
            *cached = Some(
                run_blocking(move || Ok(file.map(|file| read(&file)).unwrap_or_default())).await?,
            );
        }
        let vectors_by_key = cached.get_or_insert_with(HashMap::new);
        let keys: Vec<String> = texts.iter().map(|text| hash(&identity, text)).collect();
        let mut uncached: Vec<(&String, &String)> = keys
            .iter()
            .zip(texts)
            .filter(|(key, _)| !vectors_by_key.contains_key(*key))
            .collect();
        uncached.sort_unstable();
        uncached.dedup();
        for batch in uncached.chunks(MAX_TEXTS_PER_REQUEST) {
            let texts = batch.iter().map(|(_, text)| (*text).clone()).collect();
            let vectors = power.embed(model, texts).await?;
            if vectors.len() != batch.len() {
                let message = format!(
                    "Model/{model} returned {} vectors for {} texts",
                    vectors.len(),
                    batch.len()
                );
                return Err(HandlerError::new(message).code(Code::MODEL_FAILED));
            }
            let new_vectors: Vec<(String, Arc<[f32]>)> = batch
                .iter()
                .zip(vectors)
                .map(|((key, _), vector)| ((*key).clone(), vector.into()))
                .collect();
            vectors_by_key.extend(new_vectors.iter().cloned());
            let file = file.clone();
            let store = move || {
                if let Some(file) = file {
                    append(&file, &new_vectors);
                }
                Ok(())
            };
            run_blocking(store).await?;
        }
        Ok(keys
            .iter()
            .filter_map(|key| vectors_by_key.get(key).cloned())
            .collect())
    }
}

/// Returns the cosine similarity of two vectors: 1 for equal directions, 0 for orthogonal ones.
pub(super) fn cosine_similarity(a: &[f32], b: &[f32]) -> f64 {
    if a.len() != b.len() {
        return 0.0;
    }
    let dot_product = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    let length = (dot_product(a, a) * dot_product(b, b)).sqrt();
    if length > 0.0 {
        (dot_product(a, b) / length).clamp(0.0, 1.0)
    } else {
        0.0
    }
}

/// Returns the cache key of `text` for `model`.
fn hash(model: &str, text: &str) -> String {
    let digest = Sha256::new()
        .chain_update(model.len().to_le_bytes())
        .chain_update(model)
        .chain_update(text)
        .finalize();
    hex(&digest[..16])
}

/// Reads a file. Unreadable lines, such as a torn last one, are skipped.
#[expect(
    clippy::disallowed_methods,
    reason = "gdn's own file in the state directory"
)]
fn read(file: &Path) -> HashMap<String, Arc<[f32]>> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let lines = text
        .lines()
        .filter_map(|line| serde_json::from_str::<StoredVector>(line).ok());
    lines
        .filter_map(|line| Some((line.key, decode(&line.vector)?)))
        .collect()
}

/// Decodes Base64 of little-endian floats; `None` if it is invalid.
fn decode(text: &str) -> Option<Arc<[f32]>> {
    let bytes = STANDARD.decode(text).ok()?;
    let (floats, rest) = bytes.as_chunks::<4>();
    rest.is_empty().then(|| {
        floats
            .iter()
            .map(|float| f32::from_le_bytes(*float))
            .collect()
    })
}

/// Appends vectors to a file. If this fails, they are requested again later.
fn append(file: &Path, vectors: &[(String, Arc<[f32]>)]) {
    if let Err(error) = try_append(file, vectors) {
        tracing::warn!(
            file = %file.display(),
            %error,
            "could not store vectors; they are requested again next time"
        );
    }
}

/// Appends vectors to a file. A file that is too large is emptied first.
fn try_append(file: &Path, vectors: &[(String, Arc<[f32]>)]) -> std::io::Result<()> {
    // Without the lock, another process could append to a file that is being emptied.
    let _lock = FileLock::of_file(file, LOCK_TIMEOUT)?;
    let is_full = fs::metadata(file).is_ok_and(|file| file.len() > MAX_VECTOR_FILE_BYTES);
    let mut options = private_files::options();
    // The append and truncate modes exclude each other.
    options
        .create(true)
        .append(!is_full)
        .write(is_full)
        .truncate(is_full);
    let mut open = options.open(file)?;
    let mut text = String::new();
    for (key, vector) in vectors {
        let bytes: Vec<u8> = vector
            .iter()
            .flat_map(|float| float.to_le_bytes())
            .collect();
        let line = StoredVector {
            key: key.clone(),
            vector: STANDARD.encode(bytes),
        };
        text.push_str(&serde_json::to_string(&line)?);
        text.push('\n');
    }
    // Ends a torn line of an earlier write.
    open.write_all(format!("\n{text}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_persisted_and_truncated_lines_are_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a/b.jsonl");
        let vector: Arc<[f32]> = Arc::from([0.5, -1.25]);
        append(&file, &[("k".to_owned(), Arc::clone(&vector))]);
        fs::OpenOptions::new()
            .append(true)
            .open(&file)
            .unwrap()
            .write_all(b"{\"key\": \"torn")
            .unwrap();
        append(&file, &[("l".to_owned(), vector.clone())]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(
                fs::metadata(&file).unwrap().permissions().mode() & 0o777,
                0o600,
                "texts could be reconstructed from the vectors"
            );
        }
        let read = read(&file);
        assert_eq!((read.len(), &read["k"], &read["l"]), (2, &vector, &vector));
    }

    #[test]
    fn cosine_similarity_compares_directions() {
        assert_eq!(cosine_similarity(&[1.0, 0.0], &[2.0, 0.0]), 1.0);
        assert_eq!(cosine_similarity(&[1.0, 0.0], &[0.0, 1.0]), 0.0);
        assert_eq!(cosine_similarity(&[1.0], &[1.0, 0.0]), 0.0);
        assert_eq!(cosine_similarity(&[0.0], &[0.0]), 0.0);
    }
}
