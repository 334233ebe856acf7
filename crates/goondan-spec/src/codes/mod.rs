//! Every code that the program prints: one table of what a code means, why it comes up, and what to do next.
//!
//! A [`Code`] is made in this folder alone, so nothing is printed that the table does not explain. `docs/errors.md` and
//! `gdn explain` are made from the table, and each help link leads to a heading of that page.

use std::fmt;

use serde::Serialize;

use crate::diagnostic::Severity;
use crate::text::closest;

/// Defines codes, each beside the text that explains it: the constants of [`Code`], and the `ROWS` of a section.
macro_rules! codes {
    ($($(#[doc = $meaning:literal])+ $name:ident = $text:literal { $($field:ident: $value:expr),+ $(,)? })+) => {
        impl $crate::codes::Code {
            $($(#[doc = $meaning])+ pub const $name: Self = $crate::codes::Code($text);)+
        }

        #[allow(clippy::needless_update, reason = "some rows leave nothing out")]
        pub(super) const ROWS: &[$crate::codes::Explanation] = &[$($crate::codes::Explanation {
            code: $crate::codes::Code::$name,
            meaning: concat!($($meaning),+).trim_ascii(),
            $($field: $value,)+
            ..$crate::codes::Explanation::BLANK
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
mod extensions;
mod hosts;
mod mcp;
mod packages;
mod page;
mod references;
mod serve;
mod turns;
mod warnings;

pub use page::markdown;

/// The folder of the documentation.
const DOCS: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs");

/// The address of a page of the documentation, such as `tools.md`: whoever reads a message may have no clone.
pub fn page_url(page: &str) -> String {
    format!("{DOCS}/{page}")
}

/// A stable code such as `E_CONFIG_REF_NOT_FOUND`; warnings begin with `W_`. See rule L5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Code(&'static str);

impl Code {
    /// The text that is printed.
    pub const fn as_str(self) -> &'static str {
        self.0
    }

    /// The code that `text` is, in letters of either case.
    pub fn find(text: &str) -> Option<Code> {
        explanation(text).map(|row| row.code)
    }

    /// The severity that the first letter says: warnings begin with `W_`, everything else is an error.
    pub fn severity(self) -> Severity {
        if self.0.starts_with("W_") {
            Severity::Warning
        } else {
            Severity::Error
        }
    }

    /// The address of the heading of `docs/errors.md` that explains it.
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

/// A row of the table.
#[derive(Debug)]
pub struct Explanation {
    /// The code.
    pub code: Code,
    /// What it means, in a sentence.
    pub meaning: &'static str,
    /// Why it comes up.
    pub why: &'static str,
    /// What is wrong and what is right, side by side.
    pub example: Option<Example>,
    /// What to do about it.
    pub next: &'static str,
    /// The section of the documentation that says more, such as `security.md#permissions`.
    pub more: Option<&'static str>,
}

impl Explanation {
    const BLANK: Explanation = Explanation {
        code: Code(""),
        meaning: "",
        why: "",
        example: None,
        next: "",
        more: None,
    };

    /// The address of [`Explanation::more`].
    pub fn more_url(&self) -> Option<String> {
        self.more.map(page_url)
    }
}

/// Something that leads to a code, and the same without the mistake.
#[derive(Debug)]
pub struct Example {
    /// What the two texts are.
    pub form: Form,
    /// What leads to the code.
    pub wrong: &'static str,
    /// What does not.
    pub right: &'static str,
}

/// What an example is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// YAML of a project, of which the loader tells the one from the other.
    Yaml,
    /// YAML of a project that loads both ways; the difference shows once it runs.
    Running,
    /// Calls as a model makes them: a tool's name and its arguments, a line each.
    Call,
    /// Command lines, and lines that a program writes to the command.
    Shell,
}

impl Form {
    /// The language that a Markdown page names.
    pub fn language(self) -> &'static str {
        match self {
            Form::Yaml | Form::Running => "yaml",
            Form::Call => "text",
            Form::Shell => "sh",
        }
    }
}

const fn yaml(wrong: &'static str, right: &'static str) -> Option<Example> {
    Some(Example {
        form: Form::Yaml,
        wrong,
        right,
    })
}

const fn running(wrong: &'static str, right: &'static str) -> Option<Example> {
    Some(Example {
        form: Form::Running,
        wrong,
        right,
    })
}

const fn call(wrong: &'static str, right: &'static str) -> Option<Example> {
    Some(Example {
        form: Form::Call,
        wrong,
        right,
    })
}

const fn shell(wrong: &'static str, right: &'static str) -> Option<Example> {
    Some(Example {
        form: Form::Shell,
        wrong,
        right,
    })
}

/// Codes that belong together.
#[derive(Debug)]
pub struct Section {
    /// Its heading.
    pub title: &'static str,
    /// Its codes, in the order of the page.
    pub rows: &'static [Explanation],
}

/// The whole table.
pub const SECTIONS: &[Section] = &[
    Section {
        title: "Files and documents",
        rows: documents::ROWS,
    },
    Section {
        title: "References",
        rows: references::ROWS,
    },
    Section {
        title: "Packages",
        rows: packages::ROWS,
    },
    Section {
        title: "Entries, tools and values",
        rows: entries::ROWS,
    },
    Section {
        title: "Warnings",
        rows: warnings::ROWS,
    },
    Section {
        title: "Tool calls",
        rows: calls::ROWS,
    },
    Section {
        title: "Built-in tools",
        rows: built_in::ROWS,
    },
    Section {
        title: "Modules and their hosts",
        rows: hosts::ROWS,
    },
    Section {
        title: "Extensions from files",
        rows: extensions::ROWS,
    },
    Section {
        title: "MCP servers",
        rows: mcp::ROWS,
    },
    Section {
        title: "Agents of other programs",
        rows: a2a::ROWS,
    },
    Section {
        title: "The server",
        rows: serve::ROWS,
    },
    Section {
        title: "Agents",
        rows: agents::ROWS,
    },
    Section {
        title: "Models and turns",
        rows: turns::ROWS,
    },
    Section {
        title: "The command",
        rows: command::ROWS,
    },
];

/// Every row, in the order of the page.
pub fn explanations() -> impl Iterator<Item = &'static Explanation> {
    SECTIONS.iter().flat_map(|section| section.rows)
}

/// The row of the code that `text` is, in letters of either case.
pub fn explanation(text: &str) -> Option<&'static Explanation> {
    explanations().find(|row| row.code.0.eq_ignore_ascii_case(text))
}

/// The codes that `text` may have been meant to be: the closest one, and those that it is a part of.
pub fn near(text: &str) -> Vec<Code> {
    const MOST: usize = 6;
    let codes: Vec<&str> = explanations().map(|row| row.code.0).collect();
    let wanted = text.to_ascii_uppercase();
    let part = codes
        .iter()
        .filter(|code| !wanted.is_empty() && code.contains(&wanted))
        .copied();
    let mut near: Vec<&str> = closest(text, &codes).into_iter().collect();
    for code in part {
        if !near.contains(&code) {
            near.push(code);
        }
    }
    near.into_iter().take(MOST).filter_map(Code::find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_found_in_either_case_and_near_ones_are_named() {
        assert_eq!(Code::find("e_tool_denied"), Some(Code::TOOL_DENIED));
        assert_eq!(Code::find("E_TOOL_DENIE"), None);
        assert_eq!(near("E_TOOL_DENIE"), [Code::TOOL_DENIED]);
        assert_eq!(
            near("path_escape"),
            [Code::PATH_ESCAPE, Code::TOOL_PATH_ESCAPE]
        );
        assert!(near("").is_empty() && near("nonsense").is_empty());
    }
}
