//! `fs__grep`: searches the contents of files.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::PATH_TREE_FORMAT;
use grep_regex::RegexMatcherBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::file_walk::{PathGlob, visit};
use super::search::{SearchResultLine, SearchResults, build_searcher, search_file};
use crate::errors::{self, run_blocking};
use crate::mutex_lock::lock;
use crate::paths::{FileRoot, FileToolSettings};
use crate::tool_operation::{ToolOperation, titled_output};

/// Maximum size of the result in bytes.
const MAX_GREP_OUTPUT_BYTES: usize = 50 * 1024;

/// Search files for a regular expression. Returns `file:line:text`. Skips hidden files and files
/// that git ignores.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct GrepFiles {
    /// The regular expression (Rust syntax); `(?i)` at the start ignores case.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The directory or file to search, relative to the working directory.
    #[serde(default = "super::default_path")]
    #[schemars(length(min = 1), extend("format" = PATH_TREE_FORMAT))]
    path: String,
    /// Glob of the files to search, such as `*.rs` or `src/**/*.{ts,tsx}`.
    include: Option<String>,
    /// Lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 50))]
    context: u8,
    /// Maximum matching lines.
    #[serde(default = "most_matches")]
    #[schemars(range(min = 1, max = 5_000))]
    max_matches: u32,
}

impl ToolOperation for GrepFiles {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let root = roots.file_root(ctx)?;
        let cancellation = ctx.cancellation.clone();
        run_blocking(move || {
            let matches = self.search(&root, &cancellation)?;
            let title = format!("Found {} lines", matches.matches);
            Ok(titled_output(title, self.text(matches).into()))
        })
        .await
    }
}

impl GrepFiles {
    /// Searches the files and returns the matching lines.
    fn search(
        &self,
        root: &FileRoot,
        cancellation: &CancellationToken,
    ) -> Result<GrepOutput, HandlerError> {
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            // `$` also matches before CRLF.
            .crlf(true)
            .build(&self.pattern)
            .map_err(|error| {
                errors::invalid_argument(format!(
                    "the pattern `{}` is invalid: {error}",
                    self.pattern
                ))
            })?;
        let resolved = root.resolve(&self.path)?;
        let include = self.include.as_deref();
        let include = include
            .map(|glob| PathGlob::new(root, &resolved.path, glob))
            .transpose()?;
        let metadata = std::fs::symlink_metadata(&resolved.path);
        metadata
            .map_err(|error| errors::io_error(format_args!("search `{}`", self.path), &error))?;
        let is_selected = |file: &Path| {
            let below = file.strip_prefix(&resolved.path).unwrap_or(file);
            // If `path` is a file, the path below it is empty.
            let below = if below.as_os_str().is_empty() {
                root.relative_path(file)
            } else {
                below
            };
            include.as_ref().is_none_or(|glob| glob.matches(below))
        };
        let hits = Mutex::new(SearchResults::new(self.max_matches));
        let failure = Mutex::new(None);
        visit(root, &resolved.path, cancellation, || {
            let (mut searcher, matcher) =
                (build_searcher(usize::from(self.context)), matcher.clone());
            let hits = &hits;
            let is_selected = &is_selected;
            let failure = &failure;
            let searched = resolved.path.as_path();
            move |file: &Path| {
                if is_selected(file) && lock(hits).may_include(file) {
                    let opened = if file == searched {
                        root.open_named(file)
                    } else {
                        root.open_found(file)
                    };
                    let lines = opened.and_then(|opened| {
                        search_file(&mut searcher, &matcher, &opened, self.max_matches)
                    });
                    match lines {
                        Ok(lines) => lock(hits).add(file, lines),
                        Err(error) if file == searched => *lock(failure) = Some(error),
                        // In a directory, unreadable files are skipped.
                        Err(_) => {}
                    }
                }
            }
        });
        if let Some(error) = lock(&failure).take() {
            return Err(errors::io_error(
                format_args!("search `{}`", self.path),
                &error,
            ));
        }
        let mut output = GrepOutput {
            most: self.max_matches,
            ..GrepOutput::default()
        };
        for (file, lines) in lock(&hits).files() {
            if !output.take(&root.display_path(file), lines) {
                break;
            }
        }
        Ok(output)
    }

    /// Returns the result for the model, with a note if there may be more matches.
    fn text(&self, output: GrepOutput) -> String {
        if output.matches == 0 {
            return format!("[No matches in `{}`.]", self.path);
        }
        let mut text = output.text;
        if output.full {
            let _ = write!(
                text,
                "[There may be more: stopped after {} matching lines. Narrow the search.]",
                output.matches
            );
        }
        text
    }
}

#[derive(Default)]
struct GrepOutput {
    text: String,
    matches: u32,
    /// Maximum number of matches.
    most: u32,
    /// True if the limit is reached.
    full: bool,
}

impl GrepOutput {
    /// Adds the lines of a file; returns false at the limit.
    fn take(&mut self, path: &str, lines: &[SearchResultLine]) -> bool {
        for line in lines {
            match line {
                SearchResultLine::Match { .. } | SearchResultLine::Binary
                    if self.matches >= self.most || self.text.len() >= MAX_GREP_OUTPUT_BYTES =>
                {
                    self.full = true;
                    return false;
                }
                SearchResultLine::Match { number, text } => {
                    self.matches += 1;
                    let _ = writeln!(self.text, "{path}:{number}:{text}");
                }
                SearchResultLine::Beside { number, text } => {
                    let _ = writeln!(self.text, "{path}-{number}-{text}");
                }
                SearchResultLine::Binary => {
                    self.matches += 1;
                    let _ = writeln!(self.text, "{path}: matches in binary data, not shown");
                }
                SearchResultLine::Gap => self.text.push_str("--\n"),
            }
        }
        true
    }
}

fn most_matches() -> u32 {
    200
}
