//! The reference page of all codes.

use std::fmt::Write as _;

use super::{Explanation, SECTIONS};

const INTRODUCTION: &str = "\
# Errors and warnings

<!-- Made from the table of codes: do not edit. `UPDATE_DOCS=1 cargo test -p goondan-spec` writes it anew. -->

Every error has a stable code, a sentence that says what is wrong and, where it helps, what to type next. `gdn explain CODE`
prints what this page says about it.

`gdn validate` reads all files of a project and reports every problem at once, with the file, line and column, the resource
(`Kind/name`) and the field (`spec.exports[0].name`). Of these codes, those that begin with `E_CONFIG_` are errors: as long as
there is one, nothing runs. Those that begin with `W_CONFIG_` are warnings. The other codes come up while something runs.

Tools and libraries of others may have codes of their own.

The examples leave out what they do not need: a Model `main`, an Agent `writer` and a Swarm `default`.
";

/// The page `docs/errors.md`.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    for section in SECTIONS {
        let _ = write!(page, "\n## {}\n", section.title);
        section
            .rows
            .iter()
            .for_each(|row| page.push_str(&entry(row)));
    }
    page
}

fn entry(row: &Explanation) -> String {
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
