//! `gdn explain`: the meaning of an error code, and its fix.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use goondan::spec::codes::{self, CodeExplanation, SECTIONS};
use serde_json::{Value, json};

use crate::exit::CliError;
use crate::output::{CommandOutput, style};

const EXAMPLES: &str = "\
Examples:
  gdn explain                      List all codes, one per line
  gdn explain E_TOOL_DENIED        Explain one code, with an example and its fix";

/// Line width of explanations, in characters.
const WRAP_COLUMNS: usize = 100;

/// Arguments of `gdn explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The code, in upper or lower case [default: list all]
    #[arg(value_name = "CODE", value_parser = AnyCode, hide_possible_values = true)]
    code: Option<String>,
}

/// Parser that accepts any string, so that gdn instead of clap reports an unknown code.
/// Shell completion still offers the known codes.
#[derive(Clone)]
struct AnyCode;

impl TypedValueParser for AnyCode {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            codes::explanations().map(|row| PossibleValue::new(row.code.as_str())),
        ))
    }
}

/// Explains one code, or lists all codes.
pub(crate) fn run(args: &ExplainArgs, output: &CommandOutput) -> Result<(), CliError> {
    let Some(code) = &args.code else {
        return list(output);
    };
    let row = codes::find_explanation(code).ok_or_else(|| unknown_code_error(code))?;
    if output.json {
        output.json_pretty(&explanation_json(row))
    } else {
        output.piece(&explanation_text(row))
    }
}

/// Lists all codes by section, each with its meaning.
fn list(output: &CommandOutput) -> Result<(), CliError> {
    if output.json {
        return output.json_pretty(
            &codes::explanations()
                .map(explanation_json)
                .collect::<Vec<_>>(),
        );
    }
    let width = codes::explanations()
        .map(|row| row.code.as_str().len())
        .max()
        .unwrap_or(0);
    let bold = style::HEADING;
    let sections = SECTIONS.iter().map(|section| {
        let line =
            |row: &CodeExplanation| format!("  {:width$}  {}\n", row.code.as_str(), row.meaning);
        format!(
            "{bold}{}{bold:#}\n{}",
            section.title,
            section.rows.iter().map(line).collect::<String>()
        )
    });
    output.piece(&sections.collect::<Vec<_>>().join("\n"))
}

/// Returns the error of an unknown code, with similar codes.
fn unknown_code_error(code: &str) -> CliError {
    let similar: Vec<String> = codes::similar_codes(code)
        .into_iter()
        .map(|code| format!("`{code}`"))
        .collect();
    let similar = if similar.is_empty() {
        String::new()
    } else {
        format!("Did you mean {}? ", similar.join(" or "))
    };
    CliError::usage(format!("There is no code `{code}`.")).suggest(format!(
        "{similar}`gdn explain` lists all codes. Third-party tools may define other codes."
    ))
}

/// Formats the explanation of a code for the terminal.
fn explanation_text(row: &CodeExplanation) -> String {
    let bold = style::HEADING;
    let mut text = format!("{bold}{}{bold:#}: {}\n", row.code, row.meaning);
    let mut part =
        |title: &str, lines: &str| text.push_str(&format!("\n{bold}{title}{bold:#}\n{lines}"));
    part("When", &wrap_paragraph(row.why));
    if let Some(example) = &row.example {
        part("Wrong", &indent_lines(example.wrong));
        part("Right", &indent_lines(example.right));
    }
    part("What to do", &wrap_paragraph(row.next));
    if let Some(url) = row.more_url() {
        text.push_str(&format!("\nSee also: {url}\n"));
    }
    text
}

/// Indents each line by two spaces.
fn indent_lines(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// Wraps a paragraph to lines of at most [`WRAP_COLUMNS`] characters, indent included.
fn wrap_paragraph(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WRAP_COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n") + "\n"
}

fn explanation_json(row: &CodeExplanation) -> Value {
    json!({
        "code": row.code,
        "severity": row.code.severity(),
        "meaning": row.meaning,
        "why": row.why,
        "wrong": row.example.as_ref().map(|example| example.wrong),
        "right": row.example.as_ref().map(|example| example.right),
        "next": row.next,
        "helpUrl": row.code.help_url(),
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use goondan::spec::Code;
    use goondan::spec::codes::ExampleLanguage;

    use super::*;
    use crate::args::CommandLine;

    fn is_valid_command_line(line: &str) -> bool {
        // A variable for the command, such as `A=b gdn run`.
        let words = line.split(' ').skip_while(|word| word.contains('='));
        line.starts_with("export ")
            || line.starts_with("mv ")
            || CommandLine::try_parse_from(words.map(|word| word.trim_matches('"'))).is_ok()
    }

    #[test]
    fn command_lines_of_examples_are_valid() {
        let shell = codes::explanations().filter_map(|row| Some((row, row.example.as_ref()?)));
        for (row, example) in shell.filter(|(_, example)| example.form == ExampleLanguage::Shell) {
            assert!(
                example.right.lines().all(is_valid_command_line),
                "{}: {}",
                row.code,
                example.right
            );
            let is_wrong = row.code == Code::INVALID_ARGUMENT;
            assert_eq!(
                example.wrong.lines().all(is_valid_command_line),
                !is_wrong,
                "{}: {}",
                row.code,
                example.wrong
            );
        }
    }

    #[test]
    fn sentences_are_wrapped_at_spaces() {
        let text = wrap_paragraph(&"word ".repeat(50));
        assert!(
            text.lines()
                .all(|line| line.starts_with("  ") && line.chars().count() <= WRAP_COLUMNS)
        );
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
