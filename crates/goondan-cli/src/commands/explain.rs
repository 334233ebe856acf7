//! `gdn explain`: what a code means, and what to do about it.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Args, Command};
use goondan::spec::codes::{self, Explanation, SECTIONS};
use serde_json::{Value, json};

use crate::exit::CliError;
use crate::output::{Output, style};

const EXAMPLES: &str = "\
Examples:
  gdn explain                      List all codes, one per line
  gdn explain E_TOOL_DENIED        Explain one code, with an example and its fix";

/// How wide sentences are, in characters.
const WIDTH: usize = 100;

/// Arguments of `gdn explain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainArgs {
    /// The code, in upper or lower case [default: list all]
    #[arg(value_name = "CODE", value_parser = AnyCode, hide_possible_values = true)]
    code: Option<String>,
}

/// Takes any word, so that one that is no code gets an answer of ours; shells complete to the codes.
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

/// Explains one code, or lists all.
pub(crate) fn run(args: &ExplainArgs, output: &Output) -> Result<(), CliError> {
    let Some(code) = &args.code else {
        return list(output);
    };
    let row = codes::explanation(code).ok_or_else(|| unknown(code))?;
    match output.json {
        true => output.json_pretty(&object(row)),
        false => output.piece(&text(row)),
    }
}

fn list(output: &Output) -> Result<(), CliError> {
    if output.json {
        return output.json_pretty(&codes::explanations().map(object).collect::<Vec<_>>());
    }
    let width = codes::explanations()
        .map(|row| row.code.as_str().len())
        .max()
        .unwrap_or(0);
    let bold = style::HEADING;
    let sections = SECTIONS.iter().map(|section| {
        let line = |row: &Explanation| format!("  {:width$}  {}\n", row.code.as_str(), row.meaning);
        format!(
            "{bold}{}{bold:#}\n{}",
            section.title,
            section.rows.iter().map(line).collect::<String>()
        )
    });
    output.piece(&sections.collect::<Vec<_>>().join("\n"))
}

fn unknown(code: &str) -> CliError {
    let near: Vec<String> = codes::near(code)
        .into_iter()
        .map(|code| format!("`{code}`"))
        .collect();
    let near = match near.is_empty() {
        true => String::new(),
        false => format!("Did you mean {}? ", near.join(" or ")),
    };
    CliError::usage(format!("There is no code `{code}`.")).suggest(format!(
        "{near}`gdn explain` lists all. Tools of others may have codes of their own."
    ))
}

fn text(row: &Explanation) -> String {
    let bold = style::HEADING;
    let mut text = format!("{bold}{}{bold:#}: {}\n", row.code, row.meaning);
    let mut part =
        |title: &str, lines: &str| text.push_str(&format!("\n{bold}{title}{bold:#}\n{lines}"));
    part("When", &wrapped(row.why));
    if let Some(example) = &row.example {
        part("Wrong", &indented(example.wrong));
        part("Right", &indented(example.right));
    }
    part("What to do", &wrapped(row.next));
    if let Some(url) = row.more_url() {
        text.push_str(&format!("\nRead on: {url}\n"));
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// A paragraph in lines of at most [`WIDTH`] characters.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n") + "\n"
}

fn object(row: &Explanation) -> Value {
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
    use goondan::spec::codes::Form;

    use super::*;
    use crate::args::Cli;

    fn is_understood(line: &str) -> bool {
        line.starts_with("export ")
            || Cli::try_parse_from(line.split(' ').map(|word| word.trim_matches('"'))).is_ok()
    }

    #[test]
    fn command_lines_of_examples_are_understood() {
        let shell = codes::explanations().filter_map(|row| Some((row, row.example.as_ref()?)));
        for (row, example) in shell.filter(|(_, example)| example.form == Form::Shell) {
            assert!(
                example.right.lines().all(is_understood),
                "{}: {}",
                row.code,
                example.right
            );
            let is_wrong = row.code == Code::INVALID_ARGUMENT;
            assert_eq!(
                example.wrong.lines().all(is_understood),
                !is_wrong,
                "{}: {}",
                row.code,
                example.wrong
            );
        }
    }

    #[test]
    fn sentences_are_wrapped_at_spaces() {
        let text = wrapped(&"word ".repeat(50));
        assert!(
            text.lines()
                .all(|line| line.starts_with("  ") && line.chars().count() <= WIDTH)
        );
        assert_eq!(text.split_whitespace().count(), 50);
    }
}
