//! `memory`: finds and reads the notes in `MEMORY.md` and below `memory/`.

mod passages;
mod vector_cache;
mod word_ranking;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::{PATH_FORMAT, Permission};
use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::passages::NotePassage;
use self::vector_cache::{VectorCache, cosine_similarity};
use crate::builtin_tool::BuiltinTool;
use crate::config_error::ConfigError;
use crate::encoding::{decoded_text, not_text_error};
use crate::errors::{self, lossy_path, run_blocking};
use crate::file_changes::read_bytes;
use crate::host_capabilities;
use crate::paths::FileRoot;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// File name of the main note in the working directory.
const MAIN_NOTE_FILE: &str = "MEMORY.md";
/// Directory of further notes.
const NOTES_DIR: &str = "memory";
/// Maximum number of searched notes.
const MAX_SEARCHED_NOTES: usize = 2_000;
/// Maximum number of characters shown of a passage.
const MAX_SNIPPET_CHARS: usize = 700;
/// Maximum number of characters read of a note at once.
const MAX_NOTE_PAGE_CHARS: usize = 50_000;

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "memory",
    about: "Finds and reads notes: `MEMORY.md` and all `.md` files below `memory/` in the working \
        directory. The search matches words (BM25); with `embeddings`, it also compares meaning. \
        Write notes with the `fs` tools.",
    config: &[(
        "embeddings",
        "`{modelRef: NAME}`: an embedding Model. The score is then 0.7 × meaning similarity \
        + 0.3 × word similarity. Vectors are stored in the cache directory in the state root",
    )],
    open: |opening| {
        let settings: MemoryToolConfig = opening.config()?;
        let model = settings.embeddings.map(|embeddings| {
            let reference = &embeddings.model_ref;
            match reference.strip_prefix("Model/").unwrap_or(reference) {
                name if name.is_empty() || name.contains('/') => {
                    Err(ConfigError::NoModel("embeddings.modelRef"))
                }
                name => Ok(name.to_owned()),
            }
        });
        let cache = opening
            .state
            .cache_dir
            .as_ref()
            .map(|folder| folder.join("embeddings"));
        let shared = Arc::new(MemorySearchState {
            model: model.transpose()?,
            cache,
            vectors: VectorCache::default(),
        });
        let none = Arc::new(());
        Ok(vec![
            ToolExport::new::<SearchNotes>("search", &shared)
                .with_permission(Permission::Read)
                .read_only(),
            ToolExport::new::<ReadNote>("get", &none)
                .with_permission(Permission::Read)
                .read_only(),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MemoryToolConfig {
    embeddings: Option<EmbeddingSettings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EmbeddingSettings {
    model_ref: String,
}

/// State that searches share.
struct MemorySearchState {
    /// Name of the Model resource for embeddings.
    model: Option<String>,
    cache: Option<PathBuf>,
    vectors: VectorCache,
}

/// Weight of the semantic similarity, relative to that of words.
const SEMANTIC_WEIGHT: f64 = 0.7;

/// Search the notes in MEMORY.md and memory/ for the best passages. Use words that the note would
/// contain.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SearchNotes {
    /// Search words.
    #[schemars(length(min = 1))]
    query: String,
    /// Maximum passages.
    #[serde(default = "most_results")]
    #[schemars(range(min = 1, max = 50))]
    max_results: usize,
    /// Minimum score, from 0 (any match) to 1 (has every word).
    #[serde(default = "least_score")]
    #[schemars(range(min = 0, max = 1))]
    min_score: f64,
}

impl ToolOperation for SearchNotes {
    type Shared = MemorySearchState;

    async fn run(
        self,
        ctx: &ToolContext,
        shared: &MemorySearchState,
    ) -> Result<ToolOutput, HandlerError> {
        let root = FileRoot::from_context(ctx)?;
        let query = self.query.clone();
        let (passages, by_words) = run_blocking(move || {
            let passages: Vec<_> = list_notes(&root)?
                .into_iter()
                .flat_map(|note| passages_of(&root, &note))
                .collect();
            let texts: Vec<&str> = passages
                .iter()
                .map(|(_, passage)| passage.text.as_str())
                .collect();
            let ranked = word_ranking::rank(&texts, &query);
            Ok((passages, ranked))
        })
        .await?;
        let (ranked, note) = match &shared.model {
            None => (by_words, None),
            Some(model) => match shared
                .similarities(ctx, model, &self.query, &passages)
                .await
            {
                Ok(likeness) => (combined_scores(&by_words, &likeness), None),
                // A search by words is better than none.
                Err(error) => (
                    by_words,
                    Some(format!("searched only by words: {}", error.message)),
                ),
            },
        };
        let best_passages = ranked
            .into_iter()
            .filter(|(_, score)| *score >= self.min_score)
            .take(self.max_results);
        let results: Vec<Value> = best_passages
            .map(|(index, score)| {
                let (path, passage) = &passages[index];
                let snippet: String = passage.text.chars().take(MAX_SNIPPET_CHARS).collect();
                json!({"path": path, "from": passage.from, "to": passage.to, "score": score, "snippet": snippet})
            })
            .collect();
        let title = format!(
            "Found {} passage{}",
            results.len(),
            if results.len() == 1 { "" } else { "s" }
        );
        let mut output = json!({"count": results.len(), "results": results});
        if let Some(note) = note {
            output["note"] = note.into();
        }
        Ok(titled_output(title, output))
    }
}

impl MemorySearchState {
    /// Returns the semantic similarity of each passage to the query.
    async fn similarities(
        &self,
        ctx: &ToolContext,
        model: &str,
        query: &str,
        found: &[(String, NotePassage)],
    ) -> Result<Vec<f64>, HandlerError> {
        let mut texts: Vec<String> = found
            .iter()
            .map(|(_, passage)| passage.text.clone())
            .collect();
        texts.push(query.to_owned());
        let power = host_capabilities::embeddings(ctx)?;
        let mut vectors = self
            .vectors
            .get_or_embed(power, model, self.cache.as_deref(), &texts)
            .await?;
        let query = vectors.pop().unwrap_or_else(|| Arc::from([]));
        Ok(vectors
            .iter()
            .map(|vector| cosine_similarity(vector, &query))
            .collect())
    }
}

/// Combines the scores by words and by meaning, best first.
fn combined_scores(by_words: &[(usize, f64)], by_meaning: &[f64]) -> Vec<(usize, f64)> {
    let mut scores: Vec<f64> = by_meaning
        .iter()
        .map(|likeness| SEMANTIC_WEIGHT * likeness)
        .collect();
    for (index, score) in by_words {
        scores[*index] += (1.0 - SEMANTIC_WEIGHT) * score;
    }
    let mut ranked: Vec<(usize, f64)> = scores
        .into_iter()
        .map(|score| (score * 1000.0).round() / 1000.0)
        .enumerate()
        .filter(|(_, score)| *score > 0.0)
        .collect();
    ranked.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
    ranked
}

/// Read a note, or some of its lines, as `memory__search` returns them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadNote {
    /// Note: `MEMORY.md` or a file below `memory/`.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// First line to read, from 1.
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    from: usize,
    /// Number of lines; default: all.
    #[schemars(range(min = 1))]
    lines: Option<usize>,
}

impl ToolOperation for ReadNote {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, HandlerError> {
        let root = FileRoot::from_context(ctx)?;
        run_blocking(move || {
            let place = root.resolve(&self.path)?;
            if !is_note(root.relative_path(&place.path)) {
                return Err(
                    errors::invalid_argument(format!("`{}` is not a note", self.path)).suggest(
                        "notes are MEMORY.md and .md files in memory/; read other files with \
                        fs__read",
                    ),
                );
            }
            let (file, _) = root.open(&place)?;
            let text = note_text(file, &self.path)?;
            let count = text.lines().count();
            if self.from > count.max(1) {
                return Err(errors::invalid_argument(format!(
                    "`{}` has only {count} lines, fewer than {}",
                    self.path, self.from
                )));
            }
            let lines: Vec<&str> = text
                .lines()
                .skip(self.from - 1)
                .take(self.lines.unwrap_or(usize::MAX))
                .collect();
            Ok(titled_output(
                format!("Read {}", self.path),
                page_text(&lines, self.from).into(),
            ))
        })
        .await
    }
}

/// Returns a page of the lines, with a note about remaining ones.
fn page_text(lines: &[&str], from: usize) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 && text.len() + line.len() > MAX_NOTE_PAGE_CHARS {
            text.push_str(&format!(
                "[There are more lines: continue with from {}.]",
                from + index
            ));
            return text;
        }
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// Returns the notes in path order.
fn list_notes(root: &FileRoot) -> Result<Vec<PathBuf>, HandlerError> {
    let mut notes = Vec::from_iter(
        [root.folder().join(MAIN_NOTE_FILE)]
            .into_iter()
            .filter(|note| note.is_file()),
    );
    // The directory itself may be a link within the working directory.
    let folder = root.resolve(NOTES_DIR)?.path;
    if folder.is_dir() {
        let entries = WalkBuilder::new(folder)
            .standard_filters(false)
            .sort_by_file_path(Path::cmp)
            .build();
        let files = entries
            .filter_map(Result::ok)
            .map(ignore::DirEntry::into_path);
        notes.extend(
            files
                .filter(|file| is_markdown(file) && file.is_file() && !root.is_protected(file))
                .take(MAX_SEARCHED_NOTES),
        );
    }
    Ok(notes)
}

/// Reads a note in any encoding that `fs__grep` reads.
fn note_text(file: File, shown: &str) -> Result<String, HandlerError> {
    let bytes = read_bytes(file, shown)?;
    decoded_text(bytes).map_err(|bytes| not_text_error(shown, &bytes))
}

/// Returns the passages of a note with its path. An unreadable note has none.
fn passages_of(root: &FileRoot, note: &Path) -> Vec<(String, passages::NotePassage)> {
    let relative = root.relative_path(note);
    let path = lossy_path(relative).into_owned();
    let file = match relative.to_str() {
        Some(given) => root
            .resolve(given)
            .and_then(|place| root.open_unnamed(&place))
            .ok(),
        // Only a walk can name such a file.
        None => root.open_found(note).ok(),
    };
    let text = file
        .and_then(|file| note_text(file, &path).ok())
        .unwrap_or_default();
    passages::split_passages(&text)
        .into_iter()
        .map(|passage| (path.clone(), passage))
        .collect()
}

/// Returns true if `path` is `MEMORY.md` or a note below `memory/`.
fn is_note(path: &Path) -> bool {
    path == Path::new(MAIN_NOTE_FILE) || (path.starts_with(NOTES_DIR) && is_markdown(path))
}

/// Returns true if the file name ends in `.md`.
fn is_markdown(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
}

fn most_results() -> usize {
    6
}

fn least_score() -> f64 {
    0.35
}

fn first_line() -> usize {
    1
}
