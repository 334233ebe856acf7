//! Parser of `*.case.yaml` files.

use std::path::{Path, PathBuf};

use goondan::internal::yaml;

use super::{CaseError, ConformanceCase, StepAction, live, mcp, nodes, tool, web};
use crate::rules;

/// A test case with its position.
#[derive(Debug, Clone)]
pub struct LocatedCase {
    /// The file.
    pub file: PathBuf,
    /// Line of the test case's name, from 1.
    pub line: usize,
    /// The test case.
    pub case: ConformanceCase,
}

/// Content of a file. An error in one document does not affect the others.
#[derive(Debug, Default)]
pub struct FileCases {
    /// Valid test cases, in file order.
    pub cases: Vec<LocatedCase>,
    /// Errors, in file order.
    pub errors: Vec<CaseError>,
}

/// Parses all documents of a file.
pub fn read(file: &Path, text: &str) -> FileCases {
    let mut read = FileCases::default();
    for document in split_documents(text) {
        match document.decode(file) {
            Ok(case) => read.cases.push(case),
            Err(errors) => read.errors.extend(errors),
        }
    }
    if read.cases.is_empty() && read.errors.is_empty() {
        let message = "the file contains no case".to_owned();
        read.errors.push(CaseError {
            file: file.to_owned(),
            line: 0,
            column: 0,
            message,
        });
    }
    read
}

/// A document and the number of lines before it.
struct CaseDocument<'a> {
    text: &'a str,
    lines_before: usize,
}

/// Splits at lines that begin with `---`. In YAML, such a line always separates documents, even in
/// block scalars.
fn split_documents(text: &str) -> Vec<CaseDocument<'_>> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut lines_before = 0;
    let mut offset = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if offset > start && is_document_marker(line) {
            documents.push(CaseDocument {
                text: &text[start..offset],
                lines_before,
            });
            (start, lines_before) = (offset, number);
        }
        offset += line.len();
    }
    documents.push(CaseDocument {
        text: &text[start..],
        lines_before,
    });
    documents.retain(|document| !document.is_blank());
    documents
}

/// Returns true if the line is `---`, which separates YAML documents.
fn is_document_marker(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}

impl CaseDocument<'_> {
    /// Returns true if the document has only comments and blank lines.
    fn is_blank(&self) -> bool {
        self.text.lines().all(|line| {
            let line = line.strip_prefix("---").unwrap_or(line).trim_start();
            line.is_empty() || line.starts_with('#')
        })
    }

    /// Decodes a test case and checks it. Returns all errors with their positions.
    fn decode(&self, file: &Path) -> Result<LocatedCase, Vec<CaseError>> {
        let case: ConformanceCase = yaml::from_str(self.text).map_err(|error| {
            let line = error
                .line
                .map_or_else(|| self.line_of("case"), |line| self.lines_before + line);
            vec![CaseError {
                file: file.to_owned(),
                line,
                column: error.column.unwrap_or(0),
                message: error.message,
            }]
        })?;
        let errors: Vec<CaseError> = validation_errors(&case)
            .into_iter()
            .map(|(key, message)| CaseError {
                file: file.to_owned(),
                line: self.line_of(key),
                column: 1,
                message,
            })
            .collect();
        let line = self.line_of("case");
        if errors.is_empty() {
            Ok(LocatedCase {
                file: file.to_owned(),
                line,
                case,
            })
        } else {
            Err(errors)
        }
    }

    /// Returns the line of a top-level key, or else the first line of the document.
    fn line_of(&self, key: &str) -> usize {
        let has_key = |line: &str| {
            // A document may begin on the line of its marker.
            let line = line.strip_prefix("--- ").unwrap_or(line);
            match line.strip_prefix(key) {
                Some(after_key) => after_key.trim_start().starts_with(':'),
                None => false,
            }
        };
        let index = self.text.lines().position(has_key).unwrap_or(0);
        self.lines_before + index + 1
    }
}

/// Returns errors that the types cannot exclude, with the top-level key that they concern.
fn validation_errors(case: &ConformanceCase) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if !is_kebab(&case.case) {
        problems.push((
            "case",
            format!(
                "`{}` is not a kebab-case name such as `one-key-queues`",
                case.case
            ),
        ));
    }
    for rule in case.rules.iter().filter(|rule| rules::find(rule).is_none()) {
        problems.push(("rules", format!("the specification has no rule `{rule}`")));
    }
    if case.files.is_empty() && case.project.is_none() {
        problems.push(("case", "a case needs `files` or a `project`".to_owned()));
    }
    problems.extend(mcp::validation_errors(&case.mcp).map(|message| ("mcp", message)));
    problems.extend(web::validation_errors(&case.web).map(|message| ("web", message)));
    problems.extend(tool::validation_errors(&case.tools).map(|message| ("tools", message)));
    problems.extend(live::validation_errors(case));
    problems.extend(nodes::validation_errors(case));
    problems.extend(stopped_swarm_problems(case).map(|message| ("steps", message)));
    problems
}

/// Checks that all actions except `restart`, `advance` and file changes have a running swarm.
fn stopped_swarm_problems(case: &ConformanceCase) -> Option<String> {
    let mut alive = true;
    for (index, step) in case.steps.iter().enumerate() {
        let number = index + 1;
        match (&step.action, alive) {
            (
                StepAction::Write(..)
                | StepAction::Replace(_)
                | StepAction::Remove(_)
                | StepAction::Advance(_),
                _,
            ) => {}
            (StepAction::Restart(some), _) if alive || some.node.is_none() => alive = true,
            (StepAction::Kill(some), true) => alive = some.node.is_some(),
            (_, true) => {}
            (_, false) => {
                return Some(format!(
                    "step {number}: no swarm runs between `kill` and `restart`"
                ));
            }
        }
    }
    None
}

/// Returns true if the name consists of lower-case words with hyphens between them.
fn is_kebab(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.split('-').all(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "case: a-good-one\nfiles: {goondan.yaml: \"a: 1\\n---\\n\"}\n";

    fn errors(text: &str) -> Vec<String> {
        read(Path::new("x.case.yaml"), text)
            .errors
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn an_invalid_document_does_not_affect_other_documents() {
        let broken = "--- # next\ncase: broken\nstesp: []\n";
        let text = format!("# all about it\n---\n{GOOD}{broken}---\ncase: c\nfiles: {{a: b}}\n");
        let read = read(Path::new("x.case.yaml"), &text);
        let names: Vec<(&str, usize)> = read
            .cases
            .iter()
            .map(|case| (&*case.case.case, case.line))
            .collect();
        assert_eq!(names, [("a-good-one", 3), ("c", 9)]);
        assert_eq!(read.errors.len(), 1);
        assert_eq!((read.errors[0].line, read.errors[0].column), (7, 1));
    }

    #[test]
    fn document_separators_in_block_scalars_are_text() {
        let text = "case: x\nfiles:\n  goondan.yaml: |\n    a: 1\n    ---\n    b: 2\n";
        let read = read(Path::new("x.case.yaml"), text);
        let content = read.cases[0].case.files.values().next().expect("a file");
        assert_eq!(content.bytes, b"a: 1\n---\nb: 2\n");
    }

    #[test]
    fn invalid_cases_have_a_location_and_a_message() {
        let texts = [
            "case: [\n".to_owned(),
            "case: x\nfiles: {a: b}\nexpcet: {}\n".to_owned(),
            "case: X_y\nfiles: {a: b}\n".to_owned(),
            "case: x\nrules: [T1, T99]\nfiles: {a: b}\n".to_owned(),
            "case: x\n".to_owned(),
            "case: x\nfiles: {../a: b}\n".to_owned(),
            format!("{GOOD}steps:\n  - kill: {{}}\n  - send: {{input: a}}\n"),
            format!(
                "{GOOD}web: {{news: {{body: a}}, /a: {{status: 99}}, /b: {{headers: {{\"a:b\": \
                c}}}}}}\n"
            ),
            format!("{GOOD}steps:\n  - send: {{input: a, wiat: false}}\n"),
            format!("{GOOD}expect:\n  conversation:\n    a:main: {{$foo: 1}}\n"),
            format!(
                "{GOOD}nodes: 1\nwatch: true\nsteps:\n  - reload: {{}}\n  - kill: {{node: 3}}\n"
            ),
            format!(
                "{GOOD}steps:\n  - pause: {{node: leader}}\n  - kill: {{node: 1}}\n  - heal: {{}}\n"
            ),
            format!(
                "{GOOD}nodes: 3\nsteps:\n  - partition: {{node: 2, seconds: 0}}\n  - kill: {{node: \
                4}}\n"
            ),
            "# nothing\n---\n\n".to_owned(),
        ];
        insta::assert_snapshot!(
            texts
                .iter()
                .map(|text| errors(text).join("\n"))
                .collect::<Vec<_>>()
                .join("\n")
        );
    }

    #[test]
    fn names_are_kebab_case() {
        assert!(
            ["a", "a-b", "a1-2b", "3-ways"]
                .iter()
                .all(|name| is_kebab(name))
        );
        assert!(
            ["", "-a", "a-", "a--b", "A", "a_b", "a b", "ä"]
                .iter()
                .all(|name| !is_kebab(name))
        );
    }
}
