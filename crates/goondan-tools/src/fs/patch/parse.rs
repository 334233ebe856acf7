//! Parses the `*** Begin Patch` format.

use std::iter::Peekable;

use goondan_core::patch_headers::{self, PatchHeader};

/// The changes to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePatch {
    pub(super) path: String,
    pub(super) action: PatchAction,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchAction {
    /// Create the file.
    Add { lines: Vec<String> },
    /// Change the file, and optionally rename it.
    Update {
        move_to: Option<String>,
        hunks: Vec<PatchHunk>,
    },
    /// Delete the file.
    Delete,
}

/// One place in a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PatchHunk {
    /// A line at or before the place.
    pub(super) anchor: Option<String>,
    /// Line number in the header, starting at 1. It is often wrong, so it only decides between
    /// several matches.
    pub(super) line_hint: Option<usize>,
    pub(super) lines: Vec<HunkLine>,
    /// True if the place is the end of the file.
    pub(super) at_end: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct HunkLine {
    pub(super) sign: HunkLineKind,
    pub(super) text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HunkLineKind {
    Kept,
    Removed,
    Added,
}

/// An error in a patch, with its line number, starting at 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PatchSyntaxError {
    pub(super) line: usize,
    pub(super) message: String,
}

const BEGIN_PATCH_LINE: &str = "*** Begin Patch";
const END_PATCH_LINE: &str = "*** End Patch";
const END_OF_FILE_LINE: &str = "*** End of File";

/// Parses the sections of a patch. Ignores text before its beginning and after its end.
pub(super) fn parse(patch: &str) -> Result<Vec<FilePatch>, PatchSyntaxError> {
    let numbered = patch
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line));
    let mut lines = numbered
        .skip_while(|(_, line)| line.trim() != BEGIN_PATCH_LINE)
        .skip(1)
        .peekable();
    if lines.peek().is_none() {
        return Err(PatchSyntaxError {
            line: 1,
            message: format!("the patch does not begin with `{BEGIN_PATCH_LINE}`"),
        });
    }
    let mut sections = Vec::new();
    let mut last = 1;
    while let Some((number, line)) = lines.next() {
        last = number;
        match line.trim() {
            END_PATCH_LINE if sections.is_empty() => {
                return Err(PatchSyntaxError {
                    line: number,
                    message: "the patch changes nothing".to_owned(),
                });
            }
            END_PATCH_LINE => return Ok(sections),
            "" => {}
            header => sections.push(parse_section(number, header, &mut lines)?),
        }
    }
    Err(PatchSyntaxError {
        line: last,
        message: format!("the patch does not end with `{END_PATCH_LINE}`"),
    })
}

/// Parses a section after its header.
fn parse_section<'a>(
    number: usize,
    header: &str,
    lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Result<FilePatch, PatchSyntaxError> {
    let syntax_error = |message: String| PatchSyntaxError {
        line: number,
        message,
    };
    let (path, action) = match patch_headers::header(header) {
        Some((PatchHeader::Add, path)) => (
            path,
            PatchAction::Add {
                lines: parse_added_lines(lines)?,
            },
        ),
        Some((PatchHeader::Delete, path)) => (path, PatchAction::Delete),
        Some((PatchHeader::Update, path)) => {
            let move_to = lines
                .next_if(|(_, line)| new_name(line).is_some())
                .and_then(|(_, line)| new_name(line));
            let hunks = parse_hunks(lines)?;
            if hunks.is_empty() && move_to.is_none() {
                return Err(syntax_error(format!("`{header}` has no hunks")));
            }
            (
                path,
                PatchAction::Update {
                    move_to: move_to.map(str::to_owned),
                    hunks,
                },
            )
        }
        Some((PatchHeader::Move, _)) | None => {
            return Err(syntax_error(format!(
                "`{header}` is not an Add File, Update File or Delete File line"
            )));
        }
    };
    if path.is_empty() {
        return Err(syntax_error(format!("`{header}` has no file name")));
    }
    Ok(FilePatch {
        path: path.to_owned(),
        action,
    })
}

/// Returns the new path in a `Move to` line; `None` for other lines.
fn new_name(line: &str) -> Option<&str> {
    patch_headers::header(line)
        .filter(|(header, _)| *header == PatchHeader::Move)
        .map(|(_, path)| path)
}

/// Reads the lines of a new file.
fn parse_added_lines<'a>(
    lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Result<Vec<String>, PatchSyntaxError> {
    let mut content = Vec::new();
    while let Some((number, line)) = lines.next_if(|(_, line)| !line.starts_with("*** ")) {
        match line.strip_prefix('+') {
            Some(text) => content.push(text.to_owned()),
            None if line.trim().is_empty() => {}
            None => {
                return Err(PatchSyntaxError {
                    line: number,
                    message: "every line of a new file must begin with `+`".to_owned(),
                });
            }
        }
    }
    Ok(content)
}

/// Reads the hunks of a changed file.
fn parse_hunks<'a>(
    lines: &mut Peekable<impl Iterator<Item = (usize, &'a str)>>,
) -> Result<Vec<PatchHunk>, PatchSyntaxError> {
    let mut hunks: Vec<PatchHunk> = Vec::new();
    let section_goes_on = |line: &str| !line.starts_with("*** ") || line.trim() == END_OF_FILE_LINE;
    while let Some((number, line)) = lines.next_if(|(_, line)| section_goes_on(line)) {
        if let Some(anchor) = line.strip_prefix("@@") {
            hunks.push(PatchHunk {
                anchor: anchor_of(anchor),
                line_hint: line_hint(anchor),
                ..PatchHunk::default()
            });
            continue;
        }
        if hunks.is_empty() {
            // An empty line before the first hunk does not belong to it.
            if line.trim().is_empty() {
                continue;
            }
            hunks.push(PatchHunk::default());
        }
        let Some(hunk) = hunks.last_mut() else {
            continue;
        };
        if line.trim() == END_OF_FILE_LINE {
            hunk.at_end = true;
        } else {
            hunk.lines.push(hunk_line(number, line)?);
        }
    }
    // Empty lines between sections do not belong to the file.
    if let Some(hunk) = hunks.last_mut() {
        while hunk
            .lines
            .last()
            .is_some_and(|line| line.sign == HunkLineKind::Kept && line.text.is_empty())
        {
            hunk.lines.pop();
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    Ok(hunks)
}

/// Returns the line that a hunk header names; `None` for line numbers (`@@ -1,3 +1,4 @@`).
fn anchor_of(header: &str) -> Option<String> {
    let header = header.trim();
    let header = header.strip_suffix("@@").map_or(header, str::trim);
    (!header.is_empty() && line_hint(header).is_none()).then(|| header.to_owned())
}

/// Returns the line number of a header such as `@@ -1,3 +1,4 @@`.
fn line_hint(header: &str) -> Option<usize> {
    let numbers = header.trim().strip_prefix('-')?;
    let (old, _) = numbers.split_once(" +")?;
    let (line, _) = old.split_once(',').unwrap_or((old, ""));
    line.parse().ok()
}

/// Parses a line of a hunk by its first character. Models omit the space of an empty line.
fn hunk_line(number: usize, line: &str) -> Result<HunkLine, PatchSyntaxError> {
    let mut chars = line.chars();
    let sign = match chars.next() {
        None | Some(' ') => HunkLineKind::Kept,
        Some('-') => HunkLineKind::Removed,
        Some('+') => HunkLineKind::Added,
        Some(_) => {
            let message = format!("`{line}` must begin with ` `, `-`, `+`, `@@` or `***`");
            return Err(PatchSyntaxError {
                line: number,
                message,
            });
        }
    };
    Ok(HunkLine {
        sign,
        text: chars.as_str().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_error(patch: &str) -> (usize, String) {
        let error = parse(patch).unwrap_err();
        (error.line, error.message)
    }

    #[test]
    fn parse_accepts_every_section_kind() {
        let patch = "*** Begin Patch\n*** Add File: a b.txt\n+one\n+\n*** Update File: c\n*** Move \
            to: d\n@@ fn x() @@\n \
                     keep\n-old\n+new\n\n+more\n@@\n-end\n*** End of File\n\n*** Delete File: \
            e\n*** End Patch\n";
        let line = |sign, text: &str| HunkLine {
            sign,
            text: text.to_owned(),
        };
        let hunks = vec![
            PatchHunk {
                anchor: Some("fn x()".to_owned()),
                lines: vec![
                    line(HunkLineKind::Kept, "keep"),
                    line(HunkLineKind::Removed, "old"),
                    line(HunkLineKind::Added, "new"),
                    line(HunkLineKind::Kept, ""),
                    line(HunkLineKind::Added, "more"),
                ],
                at_end: false,
                line_hint: None,
            },
            PatchHunk {
                anchor: None,
                line_hint: None,
                lines: vec![line(HunkLineKind::Removed, "end")],
                at_end: true,
            },
        ];
        let expected = vec![
            FilePatch {
                path: "a b.txt".to_owned(),
                action: PatchAction::Add {
                    lines: vec!["one".to_owned(), String::new()],
                },
            },
            FilePatch {
                path: "c".to_owned(),
                action: PatchAction::Update {
                    move_to: Some("d".to_owned()),
                    hunks,
                },
            },
            FilePatch {
                path: "e".to_owned(),
                action: PatchAction::Delete,
            },
        ];
        assert_eq!(parse(patch), Ok(expected));
    }

    #[test]
    fn hunk_headers_parse_as_anchor_or_line_hint() {
        assert_eq!(anchor_of(" -1,3 +1,4 @@ fn x()"), None);
        assert_eq!(line_hint(" -12,3 +1,4 @@ fn x()"), Some(12));
        assert_eq!(line_hint(" -7 +7 @@"), Some(7));
        assert_eq!(line_hint(" -flag +x"), None);
        assert_eq!(anchor_of(""), None);
        assert_eq!(anchor_of(" @@"), None);
        assert_eq!(anchor_of(" -flag"), Some("-flag".to_owned()));
    }

    #[test]
    fn parse_errors_report_the_line() {
        assert_eq!(parse_error("nothing").0, 1);
        assert!(
            parse_error("*** Begin Patch\n*** Add File: a\n+x")
                .1
                .contains("End Patch")
        );
        assert!(
            parse_error("*** Begin Patch\n*** End Patch")
                .1
                .contains("nothing")
        );
        assert_eq!(
            parse_error("*** Begin Patch\n*** Rename File: a\n*** End Patch").0,
            2
        );
        assert_eq!(
            parse_error("*** Begin Patch\n*** Add File: a\nx\n*** End Patch").0,
            3
        );
        assert_eq!(
            parse_error("*** Begin Patch\n*** Delete File:\n*** End Patch").0,
            2
        );
        assert_eq!(
            parse_error("*** Begin Patch\n*** Update File: a\n*** End Patch").0,
            2
        );
        assert_eq!(
            parse_error("*** Begin Patch\n*** Update File: a\n@@\n?\n*** End Patch").0,
            4
        );
    }

    proptest! {
        #[test]
        fn parse_never_panics(patch in "(\\*\\*\\* (Begin Patch|End Patch|Add File: a|Update File: \
            b|End of File)|@@.{0,3}|[ +-]?.{0,3}\n?)*") {
            let _ = parse(&patch);
        }
    }
}
