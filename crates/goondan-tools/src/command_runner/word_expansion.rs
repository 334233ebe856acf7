//! Expands words of command lines: file name patterns and command substitutions.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::{GlobBuilder, GlobMatcher};
use goondan_core::nofollow_fs::DirectoryHandle;
use goondan_spec::command_line::{CommandScript, CommandWord, WordPiece};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;

use super::standard_streams::StreamTarget;
use super::{CommandLineRun, CommandState};
use crate::process::reading_end;
use crate::sandbox::sandboxed_start;

/// Maximum size in bytes of a command substitution's output.
const MAX_SUBSTITUTION_BYTES: u64 = 1 << 20;

/// Maximum number of names that match a pattern.
const MAX_MATCHED_NAMES: usize = 100_000;

impl CommandLineRun<'_> {
    /// Expands a word to arguments: a pattern to the matching file names, and other words to one
    /// argument.
    pub(super) async fn expand(
        self,
        word: &CommandWord,
        scope: &CommandState,
    ) -> io::Result<Vec<OsString>> {
        if word.is_glob() {
            let (word, folder, roots) =
                (word.clone(), scope.folder.clone(), self.line.glob_roots());
            let layers = self.line.launcher.sandbox_layers(&self.line.ctx, &[]);
            let layers = layers.map_err(io::Error::other)?;
            let find_names = move || {
                sandboxed_start::run_in_sandbox(&layers, || Ok(names(&word, &folder, &roots)))
            };
            return tokio::task::spawn_blocking(find_names)
                .await
                .map_err(io::Error::other)?;
        }
        let mut text = Vec::new();
        for piece in &word.pieces {
            match piece {
                WordPiece::Text(more) => text.extend_from_slice(more.as_bytes()),
                WordPiece::Output(script) => text.extend(self.command_output(script, scope).await?),
                WordPiece::Star | WordPiece::Question => {}
            }
        }
        Ok(vec![bytes_to_argument(text)])
    }

    /// Returns the output of commands, without trailing line breaks.
    async fn command_output(
        self,
        script: &CommandScript,
        scope: &CommandState,
    ) -> io::Result<Vec<u8>> {
        let (reader, writer) = io::pipe()?;
        let mut inner_scope = scope.clone();
        inner_scope
            .streams
            .set(1, StreamTarget::Writer(Arc::new(writer)));
        let running = async move { self.run_script(script, &mut inner_scope).await };
        let mut printed = Vec::new();
        let mut reader = reading_end::<ChildStdout>(reader)?.take(MAX_SUBSTITUTION_BYTES + 1);
        let (end, read) = tokio::join!(running, async {
            let read = reader.read_to_end(&mut printed).await;
            // Dropping the reader ends commands that write more.
            drop(reader);
            read
        });
        end?;
        read?;
        if printed.len() as u64 > MAX_SUBSTITUTION_BYTES {
            return Err(io::Error::other(
                "the output of a command substitution is too long for an argument",
            ));
        }
        printed.retain(|byte| *byte != 0);
        while printed.last() == Some(&b'\n') {
            printed.pop();
        }
        Ok(printed)
    }
}

/// Converts bytes to an argument.
#[cfg(unix)]
fn bytes_to_argument(text: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(text)
}

/// Converts bytes to an argument, with replacement characters for invalid text.
#[cfg(not(unix))]
fn bytes_to_argument(text: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&text).into_owned().into()
}

/// A component of a path, in pieces.
type Part = Vec<WordPiece>;

/// Returns the files that match a pattern, in byte order; the pattern itself if none matches.
fn names(word: &CommandWord, folder: &Path, roots: &[PathBuf]) -> Vec<OsString> {
    let mut matches = vec![OsString::new()];
    let parts = parts(word);
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            for name in &mut matches {
                name.push("/");
            }
        }
        let is_last = index + 1 == parts.len();
        matches = matches
            .iter()
            .flat_map(|before| matching_entries(before, part, folder, roots, is_last))
            .take(MAX_MATCHED_NAMES)
            .collect();
    }
    matches.sort();
    if matches.is_empty() {
        vec![pattern_text(word)]
    } else {
        matches
    }
}

/// Returns the pattern as plain text.
fn pattern_text(word: &CommandWord) -> OsString {
    let text = word.pieces.iter().map(|piece| match piece {
        WordPiece::Text(text) => text.as_str(),
        WordPiece::Star => "*",
        WordPiece::Question => "?",
        WordPiece::Output(_) => "",
    });
    text.collect::<String>().into()
}

/// Splits a pattern into path components.
fn parts(word: &CommandWord) -> Vec<Part> {
    let mut parts = vec![Part::new()];
    for piece in &word.pieces {
        let WordPiece::Text(text) = piece else {
            if let Some(part) = parts.last_mut() {
                part.push(piece.clone());
            }
            continue;
        };
        for (index, name) in text.split('/').enumerate() {
            if index > 0 {
                parts.push(Part::new());
            }
            if let Some(part) = parts.last_mut() {
                part.push(WordPiece::Text(name.to_owned()));
            }
        }
    }
    parts
}

/// Returns the entries that match `part` in the directory `before`.
fn matching_entries(
    before: &OsString,
    part: &Part,
    folder: &Path,
    roots: &[PathBuf],
    is_last: bool,
) -> Vec<OsString> {
    let join_name = |name: &std::ffi::OsStr| {
        let mut path = before.clone();
        path.push(name);
        path
    };
    let absolute_path = |name: &OsString| folder.join(PathBuf::from(name));
    if let Some(name) = literal_text(part) {
        let path = join_name(name.as_ref());
        let exists = path.is_empty() || absolute_path(&path).symlink_metadata().is_ok();
        return if exists { vec![path] } else { Vec::new() };
    }
    let Some(matcher) = build_matcher(part) else {
        return Vec::new();
    };
    let hides = begins_open(part);
    let inside = if before.is_empty() {
        folder.to_owned()
    } else {
        absolute_path(before)
    };
    // Patterns are expanded only in the sandboxes of agents, so limit them to directories that the
    // line may use.
    let real = inside.canonicalize().unwrap_or_default();
    let Some(root) = roots.iter().find(|root| real.starts_with(root)) else {
        return Vec::new();
    };
    // Another program may replace a directory by a link at any time.
    let entries = DirectoryHandle::open(root, &real).and_then(|directory| directory.entries());
    let names = entries
        .unwrap_or_default()
        .into_iter()
        .map(|(name, _)| name);
    let matching_names = names.filter(|name| {
        let is_hidden = hides && name.as_encoded_bytes().starts_with(b".");
        !is_hidden
            && matcher.is_match(name)
            && (is_last || absolute_path(&join_name(name)).is_dir())
    });
    matching_names.map(|name| join_name(&name)).collect()
}

/// Returns the text of a part without patterns.
fn literal_text(part: &Part) -> Option<String> {
    part.iter()
        .map(|piece| {
            if let WordPiece::Text(text) = piece {
                Some(text.as_str())
            } else {
                None
            }
        })
        .collect()
}

/// Returns a matcher for a part; `None` if its pattern is invalid.
fn build_matcher(part: &Part) -> Option<GlobMatcher> {
    let pattern = part.iter().map(|piece| match piece {
        WordPiece::Text(text) => globset::escape(text),
        WordPiece::Star => "*".to_owned(),
        WordPiece::Question => "?".to_owned(),
        WordPiece::Output(_) => String::new(),
    });
    Some(
        GlobBuilder::new(&pattern.collect::<String>())
            .literal_separator(true)
            .backslash_escape(false)
            .build()
            .ok()?
            .compile_matcher(),
    )
}

/// Returns true if a part begins with a pattern, which does not match hidden files.
fn begins_open(part: &Part) -> bool {
    let first = part
        .iter()
        .find(|piece| **piece != WordPiece::Text(String::new()));
    matches!(first, Some(WordPiece::Star | WordPiece::Question))
}
