//! `fs__grep`: search the content of files.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use goondan_runtime::ports::tool::{ToolContext, ToolError, ToolOutput};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::walk::{PathGlob, files};
use crate::define::{Operation, titled};
use crate::errors::{self, blocking};
use crate::paths::Root;

/// How many bytes of a line are shown.
const LINE: usize = 500;
/// How many bytes the result has at most.
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
    #[schemars(length(min = 1))]
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
    type Shared = ();

    async fn run(self, ctx: &ToolContext, (): &()) -> Result<ToolOutput, ToolError> {
        let root = Root::of(ctx)?;
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
            .map_err(|error| errors::invalid(format!("the pattern `{}` is wrong: {error}", self.pattern)))?;
        let include = self.include.as_deref().map(PathGlob::new).transpose()?;
        let place = root.resolve(&self.path)?;
        let metadata = std::fs::symlink_metadata(&place.path);
        metadata.map_err(|error| errors::io(format_args!("search `{}`", self.path), &error))?;
        let context = usize::from(self.context);
        let mut searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .before_context(context)
            .after_context(context)
            .build();
        let mut found = Found { most: self.max_matches, ..Found::default() };
        for file in files(root, &place.path) {
            if found.full || cancellation.is_cancelled() {
                break;
            }
            let below = file.strip_prefix(&place.path).unwrap_or(&file);
            // A file that was named itself has nothing below it.
            let below = if below.as_os_str().is_empty() { root.relative(&file) } else { below };
            if include.as_ref().is_none_or(|glob| glob.fits(below)) {
                found.search(&mut searcher, &matcher, &file, root);
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
            let _ =
                write!(text, "[There may be more: stopped after {} matching lines. Narrow the search.]", found.matches);
        }
        text
    }
}

/// What has been found so far.
#[derive(Default)]
struct Found {
    text: String,
    matches: u32,
    most: u32,
    /// Nothing more is wanted.
    full: bool,
}

impl Found {
    /// Searches one file. One that cannot be read is passed over.
    fn search(&mut self, searcher: &mut Searcher, matcher: &RegexMatcher, file: &Path, root: &Root) {
        let path = root.relative(file).display().to_string();
        let _ = searcher.search_path(matcher, file, Lines { path, found: self });
    }

    /// Adds a line: `file:12:text` for a match, `file-12-text` beside one.
    fn push(&mut self, path: &str, number: Option<u64>, sign: char, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        let line = line.trim_end_matches(['\n', '\r']);
        let end = line.floor_char_boundary(LINE);
        let more = if end < line.len() { " [cut]" } else { "" };
        let _ = writeln!(self.text, "{path}{sign}{}{sign}{}{more}", number.unwrap_or(0), &line[..end]);
    }
}

/// Takes what the searcher finds in one file.
struct Lines<'a> {
    path: String,
    found: &'a mut Found,
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> Result<bool, io::Error> {
        if self.found.matches >= self.found.most || self.found.text.len() >= LARGEST {
            self.found.full = true;
            return Ok(false);
        }
        self.found.matches += 1;
        self.found.push(&self.path, line.line_number(), ':', line.bytes());
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> Result<bool, io::Error> {
        self.found.push(&self.path, line.line_number(), '-', line.bytes());
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        self.found.text.push_str("--\n");
        Ok(true)
    }
}

fn most_matches() -> u32 {
    200
}
