//! Table of all codes that the program prints: meaning, cause and remedy of each.
//!
//! Only this module can create a [`Code`], so every printed code is explained. `docs/errors.md` and
//! `gdn explain` are generated from the table. Each help link leads to a heading of that page.

use std::fmt;

use serde::Serialize;

use crate::diagnostic::Severity;
use crate::text::closest;

/// Defines codes with their explanations: the constants of [`Code`], and the `ROWS` of a section.
macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $name:ident = $text:literal { $($field:ident: $value:expr),+ $(,)? })+) => {
        impl $crate::codes::Code {
            $($(#[doc = $meaning])+ pub const $name: Self = $crate::codes::Code($text);)+
        }

        #[allow(clippy::needless_update, reason = "some rows leave nothing out")]
        pub(super) const ROWS: &[$crate::codes::CodeExplanation] = &[$($crate::codes::CodeExplanation {
            code: $crate::codes::Code::$name,
            meaning: concat!($($meaning),+).trim_ascii(),
            $($field: $value,)+
            ..$crate::codes::CodeExplanation::BLANK
        }),+];
    };
}

mod a2a;
mod agents;
mod built_in;
mod calls;
mod command;
mod documents;
mod entries;
mod errors_page;
mod extensions;
mod hosts;
mod mcp;
mod packages;
mod references;
mod serve;
mod turns;
mod warnings;

pub use errors_page::markdown;

const DOCS_URL: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs");

/// Returns the URL of a documentation page such as `tools.md`. A path would not help readers
/// without a clone of the repository.
pub fn page_url(page: &str) -> String {
    format!("{DOCS_URL}/{page}")
}

/// Stable code such as `E_CONFIG_REF_NOT_FOUND`. Warnings begin with `W_`. See rule L5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Code(&'static str);

impl Code {
    /// Returns the code as printed.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// Returns the code with that name. Case is ignored.
    pub fn find(text: &str) -> Option<Code> {
        find_explanation(text).map(|row| row.code)
    }

    /// Returns the severity: codes that begin with `W_` are warnings, all others are errors.
    pub fn severity(self) -> Severity {
        if self.0.starts_with("W_") {
            Severity::Warning
        } else {
            Severity::Error
        }
    }

    /// Returns the URL of the code's heading in `docs/errors.md`.
    pub fn help_url(self) -> String {
        page_url(&format!("errors.md#{}", self.0.to_ascii_lowercase()))
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl From<Code> for String {
    fn from(code: Code) -> String {
        code.0.to_owned()
    }
}

impl PartialEq<Code> for String {
    fn eq(&self, code: &Code) -> bool {
        self == code.0
    }
}

/// Row of the table.
#[derive(Debug)]
pub struct CodeExplanation {
    /// Code that the row explains.
    pub code: Code,
    /// Meaning, in one sentence.
    pub meaning: &'static str,
    /// Causes.
    pub why: &'static str,
    /// Wrong and right version of an input.
    pub example: Option<CodeExample>,
    /// Remedy.
    pub next: &'static str,
    /// Section of the documentation with details, such as `permissions.md`.
    pub more: Option<&'static str>,
}

impl CodeExplanation {
    const BLANK: CodeExplanation = CodeExplanation {
        code: Code(""),
        meaning: "",
        why: "",
        example: None,
        next: "",
        more: None,
    };

    /// Returns the URL of [`CodeExplanation::more`].
    pub fn more_url(&self) -> Option<String> {
        self.more.map(page_url)
    }
}

/// Input that leads to a code, and its corrected version.
#[derive(Debug)]
pub struct CodeExample {
    /// Language of both versions.
    pub form: ExampleLanguage,
    /// Input that leads to the code.
    pub wrong: &'static str,
    /// Corrected input.
    pub right: &'static str,
}

/// Language of an example.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExampleLanguage {
    /// YAML of a project. The loader accepts only the right version.
    Yaml,
    /// YAML of a project. The loader accepts both versions, which differ at run time.
    Running,
    /// Tool calls of a model: a tool name and arguments per line.
    Call,
    /// Command lines, and lines that a program writes to the command.
    Shell,
}

impl ExampleLanguage {
    /// Returns the language for a Markdown code block.
    pub fn language(self) -> &'static str {
        match self {
            ExampleLanguage::Yaml | ExampleLanguage::Running => "yaml",
            ExampleLanguage::Call => "text",
            ExampleLanguage::Shell => "sh",
        }
    }
}

/// Creates an example with YAML that the loader rejects.
const fn yaml(wrong: &'static str, right: &'static str) -> Option<CodeExample> {
    Some(CodeExample {
        form: ExampleLanguage::Yaml,
        wrong,
        right,
    })
}

/// Creates an example with YAML whose error occurs only at run time.
const fn run_time_yaml(wrong: &'static str, right: &'static str) -> Option<CodeExample> {
    Some(CodeExample {
        form: ExampleLanguage::Running,
        wrong,
        right,
    })
}

/// Creates an example with a tool call.
const fn call(wrong: &'static str, right: &'static str) -> Option<CodeExample> {
    Some(CodeExample {
        form: ExampleLanguage::Call,
        wrong,
        right,
    })
}

/// Creates an example with a shell command.
const fn shell(wrong: &'static str, right: &'static str) -> Option<CodeExample> {
    Some(CodeExample {
        form: ExampleLanguage::Shell,
        wrong,
        right,
    })
}

/// Group of related codes.
#[derive(Debug)]
pub struct CodeSection {
    /// Heading on the page.
    pub title: &'static str,
    /// Rows, in page order.
    pub rows: &'static [CodeExplanation],
}

/// All sections, in page order.
pub const SECTIONS: &[CodeSection] = &[
    CodeSection {
        title: "Files and documents",
        rows: documents::ROWS,
    },
    CodeSection {
        title: "References",
        rows: references::ROWS,
    },
    CodeSection {
        title: "Packages",
        rows: packages::ROWS,
    },
    CodeSection {
        title: "Entries, tools and values",
        rows: entries::ROWS,
    },
    CodeSection {
        title: "Warnings",
        rows: warnings::ROWS,
    },
    CodeSection {
        title: "Tool calls",
        rows: calls::ROWS,
    },
    CodeSection {
        title: "Built-in tools",
        rows: built_in::ROWS,
    },
    CodeSection {
        title: "Handler files and their runtimes",
        rows: hosts::ROWS,
    },
    CodeSection {
        title: "Extensions from files",
        rows: extensions::ROWS,
    },
    CodeSection {
        title: "MCP servers",
        rows: mcp::ROWS,
    },
    CodeSection {
        title: "Agents of other programs",
        rows: a2a::ROWS,
    },
    CodeSection {
        title: "The server",
        rows: serve::ROWS,
    },
    CodeSection {
        title: "Agents",
        rows: agents::ROWS,
    },
    CodeSection {
        title: "Models and turns",
        rows: turns::ROWS,
    },
    CodeSection {
        title: "The command",
        rows: command::ROWS,
    },
];

/// Returns all rows, in page order.
pub fn explanations() -> impl Iterator<Item = &'static CodeExplanation> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// Returns the row of the code with that name. Case is ignored.
pub fn find_explanation(text: &str) -> Option<&'static CodeExplanation> {
    explanations().find(|row| row.code.0.eq_ignore_ascii_case(text))
}

/// Returns codes similar to `text`: the closest one, and those that contain it.
pub fn similar_codes(text: &str) -> Vec<Code> {
    const MAX_SIMILAR_CODES: usize = 6;
    let codes: Vec<&str> = explanations().map(|row| row.code.0).collect();
    let upper_text = text.to_ascii_uppercase();
    let part = codes
        .iter()
        .filter(|code| !upper_text.is_empty() && code.contains(&upper_text))
        .copied();
    let mut similar: Vec<&str> = closest(text, &codes).into_iter().collect();
    for code in part {
        if !similar.contains(&code) {
            similar.push(code);
        }
    }
    similar
        .into_iter()
        .take(MAX_SIMILAR_CODES)
        .filter_map(Code::find)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_in_any_case_and_similar_codes_are_listed() {
        assert_eq!(Code::find("e_tool_denied"), Some(Code::TOOL_DENIED));
        assert_eq!(Code::find("E_TOOL_DENIE"), None);
        assert_eq!(similar_codes("E_TOOL_DENIE"), [Code::TOOL_DENIED]);
        assert_eq!(
            similar_codes("path_escape"),
            [Code::PATH_ESCAPE, Code::TOOL_PATH_ESCAPE]
        );
        assert!(similar_codes("").is_empty() && similar_codes("nonsense").is_empty());
    }
}
