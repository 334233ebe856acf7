//! Reference page of all codes.

use std::fmt::Write as _;

use super::{CodeExplanation, SECTIONS};

const INTRODUCTION: &str = "\
# Errors and warnings

<!-- Generated from the table of codes: do not edit. To update it, run `UPDATE_DOCS=1 cargo test \
    -p goondan-spec`. -->

Every error has a stable code, a sentence with the cause and, where possible, a suggested fix. \
    `gdn explain CODE` prints the
entry of this page for a code.

`gdn validate` reads all files of a project and reports all errors and warnings at once. Each one \
    shows the file, line and column, the
resource (`Kind/name`) and the field (`spec.exports[0].name`). Codes that begin with `E_CONFIG_` \
    are errors: a project with such an
error does not run. Codes that begin with `W_CONFIG_` are warnings. Most other codes occur while a \
    swarm or a command runs.

Third-party tools and libraries may have their own codes.

The examples omit common resources: a Model `main`, an Agent `writer` and a Swarm `default`.
";

/// Returns the contents of `docs/errors.md`.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in SECTIONS {
        let _ = write!(page, "\n## {}\n", section.title);
        for row in section.rows.iter() {
            page.push_str(&format_section(row));
        }
    }
    page
}

/// Formats the section of an error code as Markdown.
fn format_section(row: &CodeExplanation) -> String {
    let mut text = format!(
        "\n### {}\n\n{}\n\n**When.** {}\n",
        row.code, row.meaning, row.why
    );
    if let Some(example) = &row.example {
        let language = example.form.language();
        for (title, shown) in [("Wrong", example.wrong), ("Right", example.right)] {
            let _ = write!(text, "\n{title}:\n\n```{language}\n{shown}```\n");
        }
    }
    let _ = write!(text, "\n**What to do.** {}", row.next);
    if let Some(more) = row.more {
        let page = more.split('#').next().unwrap_or(more);
        let _ = write!(text, " See [{page}]({more}).");
    }
    text.push('\n');
    text
}
