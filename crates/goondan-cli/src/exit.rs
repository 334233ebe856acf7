//! How the command ends: exit codes, and the error that a person or a program reads.

use std::fmt;
use std::io;

use goondan::spec::Code;
use goondan::spec::reason;
use serde::Serialize;
use serde_json::Value;

/// What the process ends with. The numbers are part of the interface (`docs/cli.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It did what it was asked to do.
    Ok = 0,
    /// It failed.
    Failure = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// Something that the command needs is not there or not set.
    Configuration = 3,
    /// The project is not valid.
    Validation = 4,
    /// A model endpoint can't be reached.
    Network = 5,
    /// A model endpoint refused the key.
    Authentication = 6,
    /// The project is not trusted.
    Untrusted = 7,
    /// The user pressed Ctrl-C (SIGINT).
    Interrupt = 130,
    /// The system or a supervisor asked it to end (SIGTERM).
    Terminate = 143,
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// An error at the end of a command. `--json` prints it as one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CliError {
    /// Stable: one of the table, or one of whoever wrote a tool.
    pub(crate) code: String,
    /// A sentence that stands alone.
    pub(crate) message: String,
    /// What to type next.
    pub(crate) suggestion: Option<String>,
    /// Where to read more.
    pub(crate) help_url: Option<String>,
    /// What the process ends with.
    pub(crate) exit: Exit,
    /// Diagnostics of the project, for `--json`; a terminal has seen them by then.
    pub(crate) diagnostics: Box<[Value]>,
    /// What a project wants that is not trusted, for `--json`.
    pub(crate) wants: Box<[Value]>,
    /// Whether it was shown already, or there is nobody left to show it to.
    pub(crate) silent: bool,
}

/// The form of [`CliError`] that programs read.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorObject<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    suggestion: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help_url: Option<&'a str>,
    exit_code: u8,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    diagnostics: &'a [Value],
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    wants: &'a [Value],
}

impl CliError {
    /// An error of ours.
    pub(crate) fn new(exit: Exit, code: Code, message: impl Into<String>) -> Self {
        CliError::passed_on(exit, code.into(), message)
    }

    /// An error of a turn or a tool, whose code may be a stranger's. What the table knows, it explains.
    pub(crate) fn passed_on(exit: Exit, code: String, message: impl Into<String>) -> Self {
        CliError {
            help_url: Code::find(&code).map(Code::help_url),
            code,
            message: message.into(),
            suggestion: None,
            exit,
            diagnostics: Box::default(),
            wants: Box::default(),
            silent: false,
        }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError::new(Exit::Usage, Code::INVALID_ARGUMENT, message)
    }

    /// Something that the command needs is not there.
    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        CliError::new(Exit::Configuration, Code::CONFIG_ERROR, message)
    }

    /// The work itself failed.
    pub(crate) fn failure(code: Code, message: impl Into<String>) -> Self {
        CliError::new(Exit::Failure, code, message)
    }

    /// The user stopped it.
    pub(crate) fn interrupted() -> Self {
        CliError::stopped(Exit::Interrupt, "Interrupted.")
    }

    /// A signal ended it; `exit` says which.
    pub(crate) fn stopped(exit: Exit, message: impl Into<String>) -> Self {
        // Whoever sent it needs no explanation.
        CliError {
            help_url: None,
            ..CliError::new(exit, Code::INTERRUPTED, message)
        }
    }

    /// Whether a signal is the reason.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self.exit, Exit::Interrupt | Exit::Terminate)
    }

    /// A failed end whose reasons are on the screen already.
    pub(crate) fn shown(exit: Exit) -> Self {
        CliError {
            silent: true,
            ..CliError::passed_on(exit, String::new(), "")
        }
    }

    /// Adds what to type next.
    #[must_use]
    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// One JSON object, without line breaks.
    pub(crate) fn to_json(&self) -> String {
        let object = ErrorObject {
            code: &self.code,
            message: &self.message,
            suggestion: self.suggestion.as_deref(),
            help_url: self.help_url.as_deref(),
            exit_code: self.exit as u8,
            diagnostics: &self.diagnostics,
            wants: &self.wants,
        };
        serde_json::to_string(&object).expect("strings, numbers and JSON values always serialise")
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.code, self.message)
    }
}

/// A reader that went away (`gdn … | head`) is no failure; any other trouble with standard streams or files is.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::shown(Exit::Ok),
            _ => CliError::failure(
                Code::INTERNAL_ERROR,
                format!("Input or output failed: {error}.", error = reason(&error)),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_object_has_the_documented_keys() {
        let error = CliError::configuration("No goondan.yaml.").suggest("Run `gdn init`.");
        let object: Value = serde_json::from_str(&error.to_json()).unwrap();
        assert_eq!(object["code"], "CONFIG_ERROR");
        assert_eq!(object["message"], "No goondan.yaml.");
        assert_eq!(object["suggestion"], "Run `gdn init`.");
        assert!(
            object["helpUrl"]
                .as_str()
                .unwrap()
                .ends_with("docs/errors.md#config_error")
        );
        assert_eq!(object["exitCode"], 3);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(error.silent && error.exit == Exit::Ok);
    }
}
