//! `memory`: finds and reads the notes in `MEMORY.md` and below `memory/`.

mod passages;
mod rank;
mod vectors;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::{PATH, Permission};
use ignore::WalkBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::passages::Passage;
use self::vectors::{Vectors, likeness};
use crate::define::{Export, Operation, titled};
use crate::errors::{self, blocking};
use crate::paths::Root;
use crate::powers;
use crate::table::{Builtin, ConfigError};
use crate::write::read_text;

/// File name of the main note in the working directory.
const NOTE: &str = "MEMORY.md";
/// Directory of further notes.
const FOLDER: &str = "memory";
/// Maximum number of searched notes.
const MOST_NOTES: usize = 2_000;
/// Maximum number of characters shown of a passage.
const SNIPPET: usize = 700;
/// Maximum number of characters read of a note at once.
const PAGE: usize = 50_000;

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "memory",
    about: "Finds and reads notes: `MEMORY.md` and all `.md` files below `memory/` in the working directory. The search \
            uses words (BM25), and with `embeddings` also the meaning. Write notes with the `fs` tools.",
    config: &[(
        "embeddings",
        "`{modelRef: Model/NAME}`: an embedding model. A score is then 0.7 times the similarity of meaning plus 0.3 times \
         that of words. Vectors are kept in the cache folder below the state root",
    )],
    open: |opening| {
        let settings: Settings = opening.config()?;
        let model = settings.embeddings.map(|embeddings| {
            match embeddings.model_ref.strip_prefix("Model/") {
                Some(name) if !name.is_empty() => Ok(name.to_owned()),
                _ => Err(ConfigError::NoModel("embeddings.modelRef")),
            }
        });
        let cache = opening
            .state
            .cache_dir
            .as_ref()
            .map(|folder| folder.join("embeddings"));
        let shared = Arc::new(Shared {
            model: model.transpose()?,
            cache,
            vectors: Vectors::default(),
        });
        let none = Arc::new(());
        Ok(vec![
            Export::new::<Search>("search", &shared)
                .needs(Permission::Read)
                .read_only(),
            Export::new::<Get>("get", &none)
                .needs(Permission::Read)
                .read_only(),
        ])
    },
    ..Builtin::BLANK
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    embeddings: Option<EmbeddingSettings>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EmbeddingSettings {
    model_ref: String,
}

/// State that searches share.
struct Shared {
    /// Name of the Model resource for embeddings.
    model: Option<String>,
    cache: Option<PathBuf>,
    vectors: Vectors,
}

/// Weight of the semantic similarity, relative to that of words.
const MEANING: f64 = 0.7;

/// Search the notes of MEMORY.md and memory/ for the passages that fit best. Ask with the words that the note would use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Search {
    /// What to look for.
    #[schemars(length(min = 1))]
    query: String,
    /// How many passages to find at most.
    #[serde(default = "most_results")]
    #[schemars(range(min = 1, max = 50))]
    max_results: usize,
    /// How well a passage must fit, from 0 (at all) to 1 (has every word).
    #[serde(default = "least_score")]
    #[schemars(range(min = 0, max = 1))]
    min_score: f64,
}

impl Operation for Search {
    type Shared = Shared;

    async fn run(self, ctx: &ToolContext, shared: &Shared) -> Result<ToolOutput, ToolError> {
        let root = Root::of(ctx)?;
        let query = self.query.clone();
        let (found, by_words) = blocking(move || {
            let found: Vec<_> = notes(&root)?
                .into_iter()
                .flat_map(|note| passages_of(&root, &note))
                .collect();
            let texts: Vec<&str> = found
                .iter()
                .map(|(_, passage)| passage.text.as_str())
                .collect();
            let ranked = rank::rank(&texts, &query);
            Ok((found, ranked))
        })
        .await?;
        let (ranked, note) = match &shared.model {
            None => (by_words, None),
            Some(model) => match shared.by_meaning(ctx, model, &self.query, &found).await {
                Ok(likeness) => (both(&by_words, &likeness), None),
                // A search by words is better than none.
                Err(error) => (
                    by_words,
                    Some(format!("searched by words alone: {}", error.message)),
                ),
            },
        };
        let fitting = ranked
            .into_iter()
            .filter(|(_, score)| *score >= self.min_score)
            .take(self.max_results);
        let results: Vec<Value> = fitting
            .map(|(index, score)| {
                let (path, passage) = &found[index];
                let snippet: String = passage.text.chars().take(SNIPPET).collect();
                json!({"path": path, "from": passage.from, "to": passage.to, "score": score, "snippet": snippet})
            })
            .collect();
        let title = format!(
            "Remembered {} passage{}",
            results.len(),
            if results.len() == 1 { "" } else { "s" }
        );
        let mut output = json!({"count": results.len(), "results": results});
        if let Some(note) = note {
            output["note"] = note.into();
        }
        Ok(titled(title, output))
    }
}

impl Shared {
    /// Returns the semantic similarity of each passage to the query.
    async fn by_meaning(
        &self,
        ctx: &ToolContext,
        model: &str,
        query: &str,
        found: &[(String, Passage)],
    ) -> Result<Vec<f64>, ToolError> {
        let mut texts: Vec<String> = found
            .iter()
            .map(|(_, passage)| passage.text.clone())
            .collect();
        texts.push(query.to_owned());
        let power = powers::embeddings(ctx)?;
        let mut vectors = self
            .vectors
            .of(power, model, self.cache.as_deref(), &texts)
            .await?;
        let query = vectors.pop().unwrap_or_else(|| Arc::from([]));
        Ok(vectors
            .iter()
            .map(|vector| likeness(vector, &query))
            .collect())
    }
}

/// Combines the scores by words and by meaning, best first.
fn both(by_words: &[(usize, f64)], by_meaning: &[f64]) -> Vec<(usize, f64)> {
    let mut scores: Vec<f64> = by_meaning
        .iter()
        .map(|likeness| MEANING * likeness)
        .collect();
    for (index, score) in by_words {
        scores[*index] += (1.0 - MEANING) * score;
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

/// Read a note, or some lines of it, as `memory__search` names them.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Get {
    /// The note: `MEMORY.md` or a file below `memory/`.
    #[schemars(length(min = 1), extend("format" = PATH))]
    path: String,
    /// The line to start at, from 1.
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    from: usize,
    /// How many lines to read; all if not given.
    #[schemars(range(min = 1))]
    lines: Option<usize>,
}

impl Operation for Get {
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let root = Root::of(ctx)?;
        blocking(move || {
            let place = root.resolve(&self.path)?;
            if !is_note(root.relative(&place.path)) {
                return Err(errors::invalid(format!("`{}` is not a note", self.path))
                    .suggest("notes are MEMORY.md and .md files below memory/; other files are read with fs__read"));
            }
            let text = read_text(&root, &place)?;
            let count = text.lines().count();
            if self.from > count.max(1) {
                return Err(errors::invalid(format!("`{}` has {count} lines, so none from {}", self.path, self.from)));
            }
            let lines: Vec<&str> = text.lines().skip(self.from - 1).take(self.lines.unwrap_or(usize::MAX)).collect();
            Ok(titled(format!("Read {}", self.path), page(&lines, self.from).into()))
        })
        .await
    }
}

/// Returns a page of the lines, with a note about remaining ones.
fn page(lines: &[&str], from: usize) -> String {
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        if index > 0 && text.len() + line.len() > PAGE {
            text.push_str(&format!(
                "[There are more lines: go on with from {}.]",
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
fn notes(root: &Root) -> Result<Vec<PathBuf>, ToolError> {
    let mut notes = Vec::from_iter(
        [root.folder().join(NOTE)]
            .into_iter()
            .filter(|note| note.is_file()),
    );
    // The directory itself may be a link within the working directory.
    let folder = root.resolve(FOLDER)?.path;
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
                .filter(|file| is_markdown(file) && file.is_file())
                .take(MOST_NOTES),
        );
    }
    Ok(notes)
}

/// Returns the passages of a note with its path. An unreadable note has none.
fn passages_of(root: &Root, note: &Path) -> Vec<(String, passages::Passage)> {
    let path = root.relative(note).display().to_string();
    let text = root
        .resolve(&path)
        .and_then(|place| read_text(root, &place))
        .unwrap_or_default();
    passages::passages(&text)
        .into_iter()
        .map(|passage| (path.clone(), passage))
        .collect()
}

fn is_note(path: &Path) -> bool {
    path == Path::new(NOTE) || (path.starts_with(FOLDER) && is_markdown(path))
}

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
