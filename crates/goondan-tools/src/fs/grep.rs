//! `fs__grep`: searches the contents of files.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput};
use goondan_spec::kinds::TREE;
use grep_regex::RegexMatcherBuilder;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::search::{Hits, Line, search_file, searcher};
use super::walk::{PathGlob, visit};
use crate::define::{Operation, titled};
use crate::errors::{self, blocking};
use crate::paths::{Root, Roots};
use crate::state::lock;

/// Maximum size of the result in bytes.
const LARGEST: usize = 50 * 1024;

/// Search files of the working directory for a regular expression. Finds `file:line:text`; files that git ignores and
/// hidden files are left out.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Grep {
    /// The regular expression (Rust syntax); begin with (?i) to ignore case.
    #[schemars(length(min = 1))]
    pattern: String,
    /// The folder or file to search, relative to the working directory.
    #[serde(default = "super::here")]
    #[schemars(length(min = 1), extend("format" = TREE))]
    path: String,
    /// A glob that files must fit, such as `*.rs` or `src/**/*.{ts,tsx}`.
    include: Option<String>,
    /// How many lines to show before and after each match.
    #[serde(default)]
    #[schemars(range(max = 50))]
    context: u8,
    /// How many matching lines to find at most.
    #[serde(default = "most_matches")]
    #[schemars(range(min = 1, max = 5_000))]
    max_matches: u32,
}

impl Operation for Grep {
    type Shared = Roots;

    async fn run(self, ctx: &ToolContext, roots: &Roots) -> Result<ToolOutput, ToolError> {
        let root = roots.of(ctx)?;
        let cancellation = ctx.cancellation.clone();
        blocking(move || {
            let found = self.search(&root, &cancellation)?;
            let title = format!("Found {} lines", found.matches);
            Ok(titled(title, self.text(found).into()))
        })
        .await
    }
}

impl Grep {
    fn search(&self, root: &Root, cancellation: &CancellationToken) -> Result<Found, ToolError> {
        let matcher = RegexMatcherBuilder::new()
            .line_terminator(Some(b'\n'))
            .build(&self.pattern)
            .map_err(|error| {
                errors::invalid(format!("the pattern `{}` is wrong: {error}", self.pattern))
            })?;
        let include = self.include.as_deref().map(PathGlob::new).transpose()?;
        let place = root.resolve(&self.path)?;
        let metadata = std::fs::symlink_metadata(&place.path);
        metadata.map_err(|error| errors::io(format_args!("search `{}`", self.path), &error))?;
        let fits = |file: &Path| {
            let below = file.strip_prefix(&place.path).unwrap_or(file);
            // A file that was named directly has an empty path below itself.
            let below = if below.as_os_str().is_empty() {
                root.relative(file)
            } else {
                below
            };
            include.as_ref().is_none_or(|glob| glob.fits(below))
        };
        let hits = Mutex::new(Hits::new(self.max_matches));
        visit(root, &place.path, cancellation, || {
            let (mut searcher, matcher) = (searcher(usize::from(self.context)), matcher.clone());
            let (hits, fits) = (&hits, &fits);
            move |file: &Path| {
                if fits(file) && lock(hits).wants(file) {
                    let lines = search_file(&mut searcher, &matcher, file, self.max_matches);
                    lock(hits).add(file, lines);
                }
            }
        });
        let mut found = Found {
            most: self.max_matches,
            ..Found::default()
        };
        for (file, lines) in lock(&hits).files() {
            if !found.take(&root.relative(file).display().to_string(), lines) {
                break;
            }
        }
        Ok(found)
    }

    fn text(&self, found: Found) -> String {
        if found.matches == 0 {
            return format!("[Nothing in {} matches.]", self.path);
        }
        let mut text = found.text;
        if found.full {
            let _ = write!(
                text,
                "[There may be more: stopped after {} matching lines. Narrow the search.]",
                found.matches
            );
        }
        text
    }
}

#[derive(Default)]
struct Found {
    text: String,
    matches: u32,
    most: u32,
    /// True if the limit is reached.
    full: bool,
}

impl Found {
    /// Adds the lines of a file; returns false at the limit.
    fn take(&mut self, path: &str, lines: &[Line]) -> bool {
        for line in lines {
            match line {
                Line::Match { .. } if self.matches >= self.most || self.text.len() >= LARGEST => {
                    self.full = true;
                    return false;
                }
                Line::Match { number, text } => {
                    self.matches += 1;
                    let _ = writeln!(self.text, "{path}:{number}:{text}");
                }
                Line::Beside { number, text } => {
                    let _ = writeln!(self.text, "{path}-{number}-{text}");
                }
                Line::Gap => self.text.push_str("--\n"),
            }
        }
        true
    }
}

fn most_matches() -> u32 {
    200
}
