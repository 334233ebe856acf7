//! One file of a bundle: read, cut into documents, parsed.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::bundle::{BasePackage, BuiltIn};
use crate::diagnostic::{Code, Diagnostic};
use crate::discover::may_be_tool_manifest;
use crate::findings::Findings;
use crate::kept::Keep;
use crate::node::{Content, Node};
use crate::paths::{Folder, Unreadable};
use crate::source::position_of_bytes;
use crate::split::{self, Chunk};
use crate::text::reason;
use crate::yaml;

/// More files than this are given back beside other work.
const MANY_FILES: usize = 32;
/// How many documents a file may hold (rule L2).
const MAX_DOCUMENTS: usize = 1_000;

/// A file that was read.
#[derive(Debug)]
pub(crate) struct ParsedFile {
    /// Relative to the bundle.
    pub(crate) name: String,
    /// Without a byte order mark; empty where it could not be read.
    pub(crate) text: Arc<str>,
    /// Those that could be parsed and hold something.
    pub(crate) documents: Vec<Node>,
    /// What was made of each of them.
    pub(crate) kept: Vec<Keep>,
    /// What is wrong with the file as YAML.
    pub(crate) findings: Findings,
    /// Tells this text from every other one.
    pub(crate) mark: Arc<()>,
}

impl ParsedFile {
    fn empty(name: &str) -> Self {
        let (name, text, findings) = (name.to_owned(), Arc::from(""), Findings::about(name));
        ParsedFile {
            name,
            text,
            documents: Vec::new(),
            kept: Vec::new(),
            findings,
            mark: Arc::default(),
        }
    }

    /// The name of the package that the file's first document declares.
    pub(crate) fn package(&self) -> Option<&str> {
        let first = self.documents.first()?;
        let is_package = first.entry("kind")?.value.text()? == "Package";
        is_package
            .then(|| first.entry("metadata")?.value.entry("name")?.value.text())
            .flatten()
    }

    /// The dependencies of the package that the file's first document declares, as they stand there.
    pub(crate) fn dependencies(&self) -> &[Node] {
        let list = self.package().and_then(|_| {
            self.documents
                .first()?
                .entry("spec")?
                .value
                .entry("dependencies")
        });
        match list.map(|entry| &entry.value.content) {
            Some(Content::List(items)) => items,
            _ => &[],
        }
    }

    /// Whether it is the manifest of an executable custom tool rather than a file of resources (rule L1).
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

/// The files of an earlier load: one whose text is still the same is not parsed again, and a document in it that goes by its
/// own text alone is not checked again. That saves time and nothing else; a bundle that is loaded with it is the bundle that is
/// loaded without. All loads that share it have the same built-in package.
#[derive(Debug, Default)]
pub struct KnownFiles {
    files: Mutex<HashMap<String, Arc<ParsedFile>>>,
    built_in: OnceLock<BuiltIn>,
}

impl KnownFiles {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<ParsedFile>>> {
        // Whoever panicked while holding it left a map that is whole.
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The resources of `base`.
    pub(crate) fn built_in(&self, base: &BasePackage) -> &BuiltIn {
        self.built_in.get_or_init(|| BuiltIn::of(base))
    }

    fn parsed(&self, name: &str, text: String) -> Arc<ParsedFile> {
        let known = self.lock().get(name).cloned();
        if let Some(known) = known.filter(|known| *known.text == *text) {
            return known;
        }
        let mut file = ParsedFile::empty(name);
        file.text = text.into();
        parse(&mut file);
        let file = Arc::new(file);
        self.lock().insert(name.to_owned(), Arc::clone(&file));
        file
    }

    /// Gives back what they hold. Of a large project that takes a while, which nobody has to wait for.
    pub(crate) fn give_back(self) {
        if self.lock().len() > MANY_FILES {
            // Where the system has no thread to spare, it is given back here.
            drop(std::thread::Builder::new().spawn(move || drop(self)));
        }
    }

    /// Forgets what a load did not ask for.
    pub(crate) fn keep_only(&self, files: &[Arc<ParsedFile>]) {
        let mut known = self.lock();
        if known.len() > files.len() {
            let asked: HashSet<&str> = files.iter().map(|file| file.name.as_str()).collect();
            known.retain(|name, _| asked.contains(name.as_str()));
        }
    }
}

/// Reads and parses a file. What goes wrong in one document does not touch the others.
pub(crate) fn read_file(folder: &Folder<'_>, name: &str, known: &KnownFiles) -> Arc<ParsedFile> {
    match folder.read(name) {
        Ok(text) => {
            let text = text
                .strip_prefix('\u{feff}')
                .map(str::to_owned)
                .unwrap_or(text);
            known.parsed(name, with_line_ends(text))
        }
        Err(unreadable) => {
            let (diagnostic, text) = explain(name, unreadable);
            let mut file = ParsedFile::empty(name);
            file.text = text.into();
            file.findings.add(diagnostic);
            Arc::new(file)
        }
    }
}

/// A carriage return alone ends a line in YAML but in no editor of today. Made a line feed, lines count alike everywhere.
fn with_line_ends(text: String) -> String {
    if !text.contains('\r') {
        return text;
    }
    let alone = |at: usize| text.as_bytes().get(at + 1) != Some(&b'\n');
    text.char_indices()
        .map(|(at, c)| if c == '\r' && alone(at) { '\n' } else { c })
        .collect()
}

/// Whether `files` may define more than the `read` documents whose envelopes were read.
pub(crate) fn hides_some(files: &[Arc<ParsedFile>], read: usize) -> bool {
    let documents: usize = files.iter().map(|file| file.documents.len()).sum();
    read < documents || files.iter().any(|file| !file.findings.is_clean())
}

fn explain(name: &str, unreadable: Unreadable) -> (Diagnostic, String) {
    match unreadable {
        Unreadable::TooLarge => {
            let diagnostic = Diagnostic::new(
                Code::FILE_TOO_LARGE,
                format!("`{name}` is larger than 1 MiB."),
            );
            (
                diagnostic.suggest("split it into several files; every `*.yaml` in a folder such as `tools/` is read"),
                String::new(),
            )
        }
        Unreadable::NotText(error) => {
            let start = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let at = position_of_bytes(&text, start, start + 1);
            let what = match error.as_bytes() {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "is UTF-16 text, not UTF-8",
                _ => "is not UTF-8 text from here on",
            };
            let diagnostic = Diagnostic::new(Code::PARSE_ERROR, format!("`{name}` {what}."));
            (diagnostic.at(at).suggest("save the file as UTF-8"), text)
        }
        Unreadable::Io(error) => {
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

fn parse(file: &mut ParsedFile) {
    let text = Arc::clone(&file.text);
    let chunks = split::documents(&text);
    if let Some(first_too_many) = chunks.get(MAX_DOCUMENTS) {
        let start = first_too_many.bytes_before;
        let message = format!(
            "`{}` holds {} documents, more than {MAX_DOCUMENTS}.",
            file.name,
            chunks.len()
        );
        let diagnostic = Diagnostic::new(Code::TOO_MANY_DOCUMENTS, message)
            .at(position_of_bytes(&file.text, start, start + 3))
            .suggest(
                "split it into several files; every `*.yaml` in a folder such as `tools/` is read",
            );
        file.findings.add(diagnostic);
        return;
    }
    for chunk in chunks {
        match yaml::parse(chunk.text) {
            Ok(None) => {}
            Ok(Some(mut document)) => {
                document.shift(chunk.lines_before, chunk.bytes_before);
                file.documents.push(document);
                file.kept.push(Keep::default());
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
                    .add(left_over(&file.text, chunk).unwrap_or(diagnostic));
                hide_values(chunk, &mut file.findings);
            }
        }
    }
}

/// Lines that begin so are no YAML, and say more than what YAML makes of them: what it is, and what to do about it.
const LEFT_OVER: [(&str, &str, &str); 2] = [
    (
        "<<<<<<<",
        "A merge conflict of git is left here.",
        "choose one side and remove the lines `<<<<<<<`, `=======` and `>>>>>>>`",
    ),
    (
        "```",
        "A code fence of Markdown is left here.",
        "remove the lines that begin with three back quotes",
    ),
];

/// A line of git or of Markdown in a document that is no YAML.
fn left_over(text: &str, chunk: Chunk<'_>) -> Option<Diagnostic> {
    let begins_line = |at: &usize| *at == 0 || chunk.text[..*at].ends_with('\n');
    LEFT_OVER.into_iter().find_map(|(mark, what, remedy)| {
        let within = chunk
            .text
            .match_indices(mark)
            .map(|(at, _)| at)
            .find(begins_line)?;
        let start = chunk.bytes_before + within;
        let at = position_of_bytes(text, start, start + mark.len());
        Some(
            Diagnostic::new(Code::PARSE_ERROR, what)
                .at(at)
                .suggest(remedy),
        )
    })
}

/// A document that is no YAML has no fields, but its text is shown around the mistake. What stands behind `value:` or a
/// key that sounds like a secret is hidden all the same.
fn hide_values(chunk: Chunk<'_>, findings: &mut Findings) {
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

/// Whether the last word of what stands before a colon is the name of a secret.
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
        read_file(&Folder::new(&files, Path::new("/p")), "a.yaml", known)
    }

    #[test]
    fn only_text_that_differs_is_parsed_again() {
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
    fn a_broken_document_does_not_hide_its_neighbours() {
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
    fn a_carriage_return_alone_ends_a_line() {
        assert_eq!(&*read("a: 1\rb: [\r\n").text, "a: 1\nb: [\r\n");
    }

    #[test]
    fn secrets_of_a_broken_document_are_hidden() {
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
