//! Reads one file of a bundle, splits it into documents and parses them.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::base_package::BasePackage;
use crate::bundle::BuiltInResources;
use crate::decode_cache::DecodeCache;
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::discover::may_be_tool_manifest;
use crate::document_split::{self, DocumentChunk};
use crate::field_names::{self, FieldNameFindings};
use crate::node::{NodeContent, YamlNode};
use crate::paths::{BundleDirectory, FileReadError};
use crate::source::position_of_bytes;
use crate::text::reason;
use crate::{short_form, yaml};

/// Number of files above which their memory is freed on another thread.
const BACKGROUND_DROP_MIN_FILES: usize = 32;
/// Maximum number of documents in a file (rule L2).
const MAX_DOCUMENTS_PER_FILE: usize = 1_000;

#[derive(Debug)]
pub(crate) struct ParsedFile {
    /// Path relative to the bundle.
    pub(crate) name: String,
    /// Without a byte order mark. Empty if the file could not be read.
    pub(crate) text: Arc<str>,
    /// Non-empty documents that could be parsed.
    pub(crate) documents: Vec<YamlNode>,
    /// Models that the Agents of this file describe in their short form.
    pub(crate) described_models: Vec<YamlNode>,
    /// True for documents that gdn derived from the short forms of a file.
    pub(crate) is_derived: bool,
    /// Fixes that rename older fields, in diagnostics that are not reported.
    pub(crate) renames: Vec<Diagnostic>,
    /// Cached result per document.
    pub(crate) kept: Vec<DecodeCache>,
    /// YAML errors of the file.
    pub(crate) findings: DiagnosticSink,
    /// Unique identity of this text, compared by pointer.
    pub(crate) mark: Arc<()>,
}

impl ParsedFile {
    /// Creates a file without documents.
    fn empty(name: &str) -> Self {
        let (name, text, findings) = (
            name.to_owned(),
            Arc::from(""),
            DiagnosticSink::for_file(name),
        );
        ParsedFile {
            name,
            text,
            documents: Vec::new(),
            described_models: Vec::new(),
            is_derived: false,
            renames: Vec::new(),
            kept: Vec::new(),
            findings,
            mark: Arc::default(),
        }
    }

    /// Returns the package name that the first document declares.
    pub(crate) fn package(&self) -> Option<&str> {
        let first = self.documents.first()?;
        let is_package = first.entry("kind")?.value.text()? == "Package";
        is_package
            .then(|| first.entry("metadata")?.value.entry("name")?.value.text())
            .flatten()
    }

    /// Returns the dependency list of the first document if that is a Package.
    pub(crate) fn dependencies(&self) -> &[YamlNode] {
        let list = self.package().and_then(|_| {
            self.documents
                .first()?
                .entry("spec")?
                .value
                .entry("dependencies")
        });
        match list.map(|entry| &entry.value.content) {
            Some(NodeContent::List(items)) => items,
            _ => &[],
        }
    }

    /// Returns true if this is the manifest of an executable custom tool and not a resource file
    /// (rule L1).
    pub(crate) fn is_tool_manifest(&self) -> bool {
        let has_kind = self
            .documents
            .iter()
            .any(|document| document.entry("kind").is_some())
            || (!self.findings.is_clean()
                && self.text.lines().any(|line| line.starts_with("kind:")));
        may_be_tool_manifest(&self.name) && !has_kind
    }
}

/// Parsed files of an earlier load.
///
/// A file with unchanged text is not parsed again. A document that depends only on its own text is
/// not checked again. This only saves time: the loaded bundle is the same as without it. All loads
/// that share a `KnownFiles` must use the same built-in package.
#[derive(Debug, Default)]
pub struct KnownFiles {
    files: Mutex<HashMap<String, Arc<ParsedFile>>>,
    built_in: OnceLock<BuiltInResources>,
}

impl KnownFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<ParsedFile>>> {
        // A panic while the lock is held cannot leave the map inconsistent.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the resources of the built-in package; creates them on the first call.
    pub(crate) fn built_in(&self, base: &BasePackage) -> &BuiltInResources {
        self.built_in
            .get_or_init(|| BuiltInResources::from_package(base))
    }

    /// Returns the parsed `text` of the file `name`; reuses the result of an earlier load if the
    /// text is equal.
    fn parse_or_reuse(&self, name: &str, text: String) -> Arc<ParsedFile> {
        let earlier = self.lock().get(name).cloned();
        if let Some(earlier) = earlier.filter(|earlier| *earlier.text == *text) {
            return earlier;
        }
        let mut file = ParsedFile::empty(name);
        file.text = text.into();
        parse(&mut file);
        let file = Arc::new(file);
        self.lock().insert(name.to_owned(), Arc::clone(&file));
        file
    }

    /// Frees the files. For a large project this takes a while, so it runs on another thread.
    pub(crate) fn free_in_background(self) {
        if self.lock().len() > BACKGROUND_DROP_MIN_FILES {
            // If no thread can be started, the files are freed here.
            drop(std::thread::Builder::new().spawn(move || drop(self)));
        }
    }

    /// Drops files that the last load did not read.
    pub(crate) fn keep_only(&self, files: &[Arc<ParsedFile>]) {
        let mut known_files = self.lock();
        if known_files.len() > files.len() {
            let names: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
            known_files.retain(|name, _| names.contains(name.as_str()));
        }
    }
}

/// Reads and parses a file. An error in one document does not affect the others.
pub(crate) fn read_file(
    folder: &BundleDirectory<'_>,
    name: &str,
    known: &KnownFiles,
) -> Arc<ParsedFile> {
    match folder.read(name) {
        Ok(text) => {
            let text = text
                .strip_prefix('\u{feff}')
                .map(str::to_owned)
                .unwrap_or(text);
            known.parse_or_reuse(name, with_line_ends(text))
        }
        Err(unreadable) => {
            // The readable text is kept, so that the error shows its lines.
            let (diagnostic, text) = diagnose_unreadable(name, unreadable);
            let mut file = ParsedFile::empty(name);
            file.text = text.into();
            file.findings.add(diagnostic);
            Arc::new(file)
        }
    }
}

/// Converts single carriage returns to line feeds: YAML ends a line there, but editors do not. Line
/// numbers then agree.
fn with_line_ends(text: String) -> String {
    if !text.contains('\r') {
        return text;
    }
    let is_lone_return = |at: usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    text.char_indices()
        .map(|(at, c)| {
            if c == '\r' && is_lone_return(at) {
                '\n'
            } else {
                c
            }
        })
        .collect()
}

/// Returns true if `files` may define more resources than the `read` documents whose envelopes were
/// read.
pub(crate) fn has_unread_documents(files: &[Arc<ParsedFile>], read: usize) -> bool {
    let documents: usize = files.iter().map(|file| file.documents.len()).sum();
    read < documents || files.iter().any(|file| !file.findings.is_clean())
}

/// Returns the error for an unreadable file, and its text as far as it can be read.
fn diagnose_unreadable(name: &str, unreadable: FileReadError) -> (Diagnostic, String) {
    match unreadable {
        FileReadError::TooLarge => {
            let diagnostic = Diagnostic::new(
                Code::FILE_TOO_LARGE,
                format!("`{name}` is larger than 1 MiB."),
            );
            (
                diagnostic.suggest(
                    "split it into several files; gdn reads every `*.yaml` in a directory such \
                    as `tools/`",
                ),
                String::new(),
            )
        }
        FileReadError::NotText(error) => {
            let start = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let position = position_of_bytes(&text, start, start + 1);
            let problem = match error.as_bytes() {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "is UTF-16 text, not UTF-8",
                _ => "is not UTF-8 text from here on",
            };
            let diagnostic = Diagnostic::new(Code::PARSE_ERROR, format!("`{name}` {problem}."));
            (
                diagnostic.at(position).suggest("save the file as UTF-8"),
                text,
            )
        }
        FileReadError::Io(error) => {
            let diagnostic = Diagnostic::new(
                Code::PARSE_ERROR,
                format!("`{name}` cannot be read: {}.", reason(&error)),
            );
            (
                diagnostic.suggest("check that you may read it"),
                String::new(),
            )
        }
    }
}

/// Parses the documents of `file.text`; adds errors to `file.findings`.
fn parse(file: &mut ParsedFile) {
    let text = Arc::clone(&file.text);
    let chunks = document_split::split_documents(&text);
    if let Some(first_too_many) = chunks.get(MAX_DOCUMENTS_PER_FILE) {
        let start = first_too_many.bytes_before;
        let message = format!(
            "`{}` contains {} documents, more than {MAX_DOCUMENTS_PER_FILE}.",
            file.name,
            chunks.len()
        );
        let diagnostic = Diagnostic::new(Code::TOO_MANY_DOCUMENTS, message)
            .at(position_of_bytes(&file.text, start, start + 3))
            .suggest(
                "split it into several files; gdn reads every `*.yaml` in a directory such as \
                `tools/`",
            );
        file.findings.add(diagnostic);
        return;
    }
    for chunk in chunks {
        match yaml::parse(chunk.text) {
            Ok(None) => {}
            Ok(Some(mut document)) => {
                document.shift_positions(chunk.lines_before, chunk.bytes_before);
                read_short_forms(&mut document, file);
                file.documents.push(document);
                file.kept.push(DecodeCache::default());
            }
            Err((error, mut at)) => {
                at.line += chunk.lines_before;
                at.start += chunk.bytes_before;
                at.end += chunk.bytes_before;
                let diagnostic = Diagnostic::new(Code::PARSE_ERROR, error.message).at(at);
                let diagnostic = match error.suggestion {
                    Some(suggestion) => diagnostic.suggest(suggestion),
                    None => diagnostic,
                };
                file.findings
                    .add(find_leftover(&file.text, chunk).unwrap_or(diagnostic));
                hide_values(chunk, &mut file.findings);
            }
        }
    }
}

/// Gives the fields of a document the names that decoders read, and writes out its short forms.
fn read_short_forms(document: &mut YamlNode, file: &mut ParsedFile) {
    let mut names = FieldNameFindings::default();
    field_names::rename_fields(document, &mut names);
    let model = short_form::read_model(document, &mut names.errors);
    file.described_models.extend(model);
    file.renames.extend(names.renames);
    for error in names.errors {
        file.findings.add(error);
    }
}

/// Line prefixes that are never YAML, each with a message and a remedy that beat the YAML error.
const LEFTOVER_MARKERS: [(&str, &str, &str); 2] = [
    (
        "<<<<<<<",
        "This is an unresolved git merge conflict.",
        "choose one side and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`",
    ),
    (
        "```",
        "This is a Markdown code fence, which is not YAML.",
        "remove the lines that begin with three back quotes",
    ),
];

/// Finds a leftover of git or Markdown in a document that is not YAML.
fn find_leftover(text: &str, chunk: DocumentChunk<'_>) -> Option<Diagnostic> {
    let begins_line = |at: &usize| *at == 0 || chunk.text[..*at].ends_with('\n');
    LEFTOVER_MARKERS
        .into_iter()
        .find_map(|(mark, what, remedy)| {
            let offset = chunk
                .text
                .match_indices(mark)
                .map(|(at, _)| at)
                .find(begins_line)?;
            let start = chunk.bytes_before + offset;
            let position = position_of_bytes(text, start, start + mark.len());
            Some(
                Diagnostic::new(Code::PARSE_ERROR, what)
                    .at(position)
                    .suggest(remedy),
            )
        })
}

/// Hides probable secrets in an unparsable document, because its text is shown around the error.
/// Covers values after `value:` and keys that suggest a secret.
fn hide_values(chunk: DocumentChunk<'_>, findings: &mut DiagnosticSink) {
    let mut start = chunk.bytes_before;
    for line in chunk.text.split_inclusive('\n') {
        for (colon, _) in line
            .match_indices(':')
            .filter(|(colon, _)| names_a_secret(&line[..*colon]))
        {
            let rest = &line[colon + 1..];
            let written = rest.trim();
            if !written.is_empty() && !written.starts_with(['{', '&', '|', '>']) {
                let from = start + colon + 1 + (rest.len() - rest.trim_start().len());
                findings.secrets.push(from..from + written.len());
            }
        }
        start += line.len();
    }
}

/// Returns true if the last word before a colon names a secret.
fn names_a_secret(before: &str) -> bool {
    let word = before
        .rsplit(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
        .next()
        .unwrap_or_default();
    let word = word.to_ascii_lowercase();
    word == "value"
        || ["apikey", "token", "secret", "password"]
            .iter()
            .any(|name| word.ends_with(name))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::files::MemoryFiles;

    fn read(content: impl Into<Vec<u8>>) -> Arc<ParsedFile> {
        read_again(content, &KnownFiles::default())
    }

    fn read_again(content: impl Into<Vec<u8>>, known: &KnownFiles) -> Arc<ParsedFile> {
        let files = MemoryFiles::new().file("/p/a.yaml", content);
        read_file(
            &BundleDirectory::new(&files, Path::new("/p")),
            "a.yaml",
            known,
        )
    }

    #[test]
    fn only_changed_text_is_parsed_again() {
        let known = KnownFiles::default();
        let first = read_again("a: 1", &known);
        assert!(Arc::ptr_eq(&first, &read_again("a: 1", &known)));
        let second = read_again("a: [", &known);
        assert!(!second.findings.is_clean() && Arc::ptr_eq(&second, &read_again("a: [", &known)));
        assert!(read_again([0xff], &known).documents.is_empty());
        known.keep_only(&[]);
        assert!(!Arc::ptr_eq(&second, &read_again("a: [", &known)));
    }

    #[test]
    fn an_invalid_document_does_not_hide_the_other_documents() {
        let file = read("a: 1\n---\nb: [\n---\nc: 3\n---\n\td: x: y\n");
        assert_eq!(file.documents.len(), 2);
        assert_eq!(file.documents[1].entry("c").unwrap().value.at.line, 5);
        let lines: Vec<_> = file
            .findings
            .diagnostics
            .iter()
            .map(|found| found.position.unwrap().line)
            .collect();
        assert_eq!(lines, [3, 7]);
    }

    #[test]
    fn a_lone_carriage_return_ends_a_line() {
        assert_eq!(&*read("a: 1\rb: [\r\n").text, "a: 1\nb: [\r\n");
    }

    #[test]
    fn secrets_in_an_invalid_document_are_masked() {
        let text = "apiKey: {value: sk-1, x: [}\nbotToken: sk-2\n";
        let file = read(text);
        let hidden: Vec<_> = file
            .findings
            .secrets
            .iter()
            .map(|range| &text[range.clone()])
            .collect();
        assert_eq!(hidden, ["sk-1, x: [}", "sk-2"]);
    }
}
