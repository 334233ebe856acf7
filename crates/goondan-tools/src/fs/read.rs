//! `fs__read`: returns a page of a text file with line numbers. Describes other files, and attaches
//! images.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Seek as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use goondan_core::ports::tool::{Attachment, HandlerError, ToolContext, ToolOutput};
use goondan_spec::kinds::PATH_FORMAT;
use schemars::JsonSchema;
use serde::Deserialize;

use super::line_reader::{FileLine, next_line};
use crate::encoding::{FileEncoding, detect_encoding, encoding_error};
use crate::errors::{self, run_blocking};
use crate::file_changes::MAX_GUARDED_FILE_BYTES;
use crate::output_capture::without_cut_end;
use crate::paths::{FileToolSettings, ResolvedPath};
use crate::tool_operation::{ToolOperation, titled_output};

/// Size of a page in bytes if no number of lines is requested.
const DEFAULT_PAGE_BYTES: usize = 50 * 1024;
/// Maximum size of a page in bytes.
const MAX_PAGE_BYTES: usize = 512 * 1024;
/// Number of bytes read to detect the type of a file.
const TYPE_DETECTION_BYTES: usize = 8 * 1024;
/// Maximum size of an attached image in bytes.
const MAX_IMAGE_BYTES: u64 = 5 * 1024 * 1024;

/// Read a file. Text is returned in pages with line numbers; an image is attached.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFilePage {
    /// The file, relative to the working directory.
    #[schemars(length(min = 1), extend("format" = PATH_FORMAT))]
    path: String,
    /// The first line to read, from 0.
    #[serde(default)]
    offset: u64,
    /// Maximum lines to read; default: a page of 50 KB.
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl ToolOperation for ReadFilePage {
    type Shared = FileToolSettings;

    async fn run(
        self,
        ctx: &ToolContext,
        roots: &FileToolSettings,
    ) -> Result<ToolOutput, HandlerError> {
        let (root, guard) = (roots.file_root(ctx)?, roots.stale_write_guard(ctx));
        run_blocking(move || {
            let resolved = root.resolve(&self.path)?;
            let (file, metadata) = root.open(&resolved)?;
            let failed =
                |error| errors::io_error(format_args!("read `{}`", resolved.given), &error);
            let mut reader = BufReader::with_capacity(TYPE_DETECTION_BYTES, file);
            let start = reader.fill_buf().map_err(failed)?;
            match (detect_encoding(start), media_type_of(start)) {
                (FileEncoding::Text, _) => {}
                // Bytes with a known signature are not text, even if they look like an encoding.
                (FileEncoding::Foreign(encoding), None) => {
                    return Err(encoding_error(&resolved.given, encoding));
                }
                (_, media_type) => {
                    return describe_binary_file(&resolved, reader, metadata.len(), media_type);
                }
            }
            // A page can be a part of the file, but the guard compares whole files. Both must come
            // from one read, because the file can change between two reads.
            let mut content = Vec::new();
            if metadata.len() <= MAX_GUARDED_FILE_BYTES as u64 {
                // One byte more shows the guard that the file has grown beyond the limit.
                let limit = MAX_GUARDED_FILE_BYTES as u64 + 1;
                let read = reader.by_ref().take(limit).read_to_end(&mut content);
                read.map_err(failed)?;
                guard.note_read(&resolved.path, &content);
            }
            let page = self.read_page(&mut content.as_slice().chain(reader));
            let page = page.map_err(failed)?;
            Ok(titled_output(
                format!("Read {}", resolved.given),
                self.text(&resolved, page)?.into(),
            ))
        })
        .await
    }
}

#[derive(Default)]
struct TextPage {
    /// The numbered lines.
    text: String,
    /// Number of lines skipped or read.
    seen: u64,
    count: u64,
    /// True if more lines follow.
    more: bool,
}

impl ReadFilePage {
    /// Skips `offset` lines and reads until the page is full or the file ends.
    fn read_page(&self, reader: &mut impl BufRead) -> std::io::Result<TextPage> {
        let size = if self.limit.is_some() {
            MAX_PAGE_BYTES
        } else {
            DEFAULT_PAGE_BYTES
        };
        let mut page = TextPage::default();
        while page.seen < self.offset {
            if next_line(reader, 0)?.is_none() {
                return Ok(page);
            }
            page.seen += 1;
        }
        while let Some(line) = next_line(reader, size)? {
            let is_page_full = page.count > 0 && page.text.len() + line.bytes.len() > size;
            if is_page_full || self.limit.is_some_and(|limit| page.count >= limit) {
                page.more = true;
                break;
            }
            page.seen += 1;
            page.count += 1;
            page.push(&line);
        }
        Ok(page)
    }

    /// Returns the page for the model, with a note about remaining lines.
    fn text(&self, resolved: &ResolvedPath, page: TextPage) -> Result<String, HandlerError> {
        let TextPage {
            mut text,
            seen,
            count,
            more,
        } = page;
        if more {
            let _ = write!(
                text,
                "\n[There are more lines: continue with offset {seen}.]"
            );
        } else if count == 0 && self.offset == 0 {
            text = "[The file is empty.]".to_owned();
        } else if count == 0 {
            let message = format!(
                "`{}` has {seen} lines: there is no line at offset {}",
                resolved.given, self.offset
            );
            return Err(errors::invalid_argument(message)
                .suggest("offset is the number of lines to skip, from 0"));
        }
        Ok(text)
    }
}

impl TextPage {
    /// Adds a line with its number, starting at 1.
    fn push(&mut self, line: &FileLine) {
        let bytes = match line.bytes.strip_prefix("\u{FEFF}".as_bytes()) {
            Some(rest) if self.seen == 1 => rest,
            _ => &line.bytes,
        };
        let bytes = if line.cut > 0 {
            without_cut_end(bytes)
        } else {
            bytes
        };
        let _ = writeln!(
            self.text,
            "{:>6}\t{}",
            self.seen,
            String::from_utf8_lossy(bytes)
        );
        if line.cut > 0 {
            let _ = writeln!(self.text, "[{} more bytes in this line]", line.cut);
        }
    }
}

/// Describes a file that is not text. Attaches an image if it is small enough.
fn describe_binary_file(
    resolved: &ResolvedPath,
    mut reader: BufReader<File>,
    size: u64,
    kind: Option<&'static str>,
) -> Result<ToolOutput, HandlerError> {
    let media_type = kind.unwrap_or("application/octet-stream");
    let text = format!(
        "[{} is a binary file ({media_type}, {size} bytes).]",
        resolved.given
    );
    let mut output = titled_output(format!("Looked at {}", resolved.given), text.into());
    if media_type.starts_with("image/") && size <= MAX_IMAGE_BYTES {
        let mut bytes = Vec::new();
        reader
            .rewind()
            .and_then(|()| reader.take(MAX_IMAGE_BYTES).read_to_end(&mut bytes))
            .map_err(|error| errors::io_error(format_args!("read `{}`", resolved.given), &error))?;
        let name = resolved
            .path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let data = STANDARD.encode(bytes);
        output.attachments.push(Attachment {
            media_type: media_type.to_owned(),
            data,
            name,
        });
    }
    Ok(output)
}

/// Detects the media type from the first bytes of a file.
fn media_type_of(start: &[u8]) -> Option<&'static str> {
    const IMAGE_SIGNATURES: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"%PDF-", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (b"\x1f\x8b", "application/gzip"),
        (b"\x7fELF", "application/x-elf"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
    ];
    if start.starts_with(b"RIFF") && start.get(8..12) == Some(b"WEBP") {
        return Some("image/webp");
    }
    IMAGE_SIGNATURES
        .iter()
        .find(|(magic, _)| start.starts_with(magic))
        .map(|(_, kind)| *kind)
}
