//! Exit codes, and the error that a command ends with.

use std::fmt;
use std::io;

use goondan::spec::Code;
use goondan::spec::reason;
use serde::Serialize;
use serde_json::Value;

/// Exit code of the process. The numbers are a stable interface (`docs/cli.md`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandExit {
    /// The command succeeded.
    Ok = 0,
    /// The command failed.
    Failure = 1,
    /// The command line is invalid.
    Usage = 2,
    /// A required file or setting is missing.
    Configuration = 3,
    /// The project is invalid.
    Validation = 4,
    /// The model endpoint is unreachable.
    Network = 5,
    /// The model endpoint rejected the API key.
    Authentication = 6,
    /// The project is not trusted.
    Untrusted = 7,
    /// The user pressed Ctrl-C (SIGINT).
    Interrupt = 130,
    /// The operating system or a supervisor requested termination (SIGTERM).
    Terminate = 143,
}

impl From<CommandExit> for std::process::ExitCode {
    fn from(exit: CommandExit) -> Self {
        std::process::ExitCode::from(exit as u8)
    }
}

/// Final error of a command. `--json` prints it as one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CliError {
    /// Stable error code: one of `docs/errors.md`, or a code that a tool defines.
    pub(crate) code: String,
    /// Description of the error, as a complete sentence.
    pub(crate) message: String,
    /// Next command or fix.
    pub(crate) suggestion: Option<String>,
    pub(crate) help_url: Option<String>,
    pub(crate) exit: CommandExit,
    /// Diagnostics of the project, for `--json`. On a terminal they are printed earlier.
    pub(crate) diagnostics: Box<[Value]>,
    /// Capabilities that an untrusted project requests, for `--json`.
    pub(crate) wants: Box<[Value]>,
    /// True if the error is already printed, or no output is left to print it on.
    pub(crate) silent: bool,
}

/// JSON form of [`CliError`].
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonErrorObject<'a> {
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
    /// Creates an error with one of gdn's own codes.
    pub(crate) fn new(exit: CommandExit, code: Code, message: impl Into<String>) -> Self {
        CliError::with_foreign_code(exit, code.into(), message)
    }

    /// Creates an error of a turn or a tool, whose code can be foreign. Known codes get a help URL.
    pub(crate) fn with_foreign_code(
        exit: CommandExit,
        code: String,
        message: impl Into<String>,
    ) -> Self {
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

    /// Creates the error of an invalid command line.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        CliError::new(CommandExit::Usage, Code::INVALID_ARGUMENT, message)
    }

    /// Creates the error of a missing file or setting.
    pub(crate) fn configuration(message: impl Into<String>) -> Self {
        CliError::new(CommandExit::Configuration, Code::CONFIG_ERROR, message)
    }

    /// Creates the error of a failed operation.
    pub(crate) fn failure(code: Code, message: impl Into<String>) -> Self {
        CliError::new(CommandExit::Failure, code, message)
    }

    /// Creates the error of an interruption by the user.
    pub(crate) fn interrupted() -> Self {
        CliError::stopped(CommandExit::Interrupt, "Interrupted.")
    }

    /// Creates the error of a termination by a signal; `exit` identifies the signal.
    pub(crate) fn stopped(exit: CommandExit, message: impl Into<String>) -> Self {
        // The sender of the signal needs no explanation.
        CliError {
            help_url: None,
            ..CliError::new(exit, Code::INTERRUPTED, message)
        }
    }

    /// Returns true if a signal caused the error.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self.exit, CommandExit::Interrupt | CommandExit::Terminate)
    }

    /// Creates an error that ends the command with `exit` and is not printed, because the output
    /// already contains the reasons.
    pub(crate) fn already_printed(exit: CommandExit) -> Self {
        CliError {
            silent: true,
            ..CliError::with_foreign_code(exit, String::new(), "")
        }
    }

    /// Sets the suggestion.
    #[must_use]
    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Serializes the error as one line of JSON.
    pub(crate) fn to_json(&self) -> String {
        let object = JsonErrorObject {
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

/// A closed pipe (`gdn … | head`) counts as success; other errors of streams or files are failures.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::already_printed(CommandExit::Ok),
            _ => CliError::failure(
                Code::INTERNAL_ERROR,
                format!("I/O error: {error}.", error = reason(&error)),
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
    fn a_broken_pipe_error_is_silent_and_successful() {
        let error = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(error.silent && error.exit == CommandExit::Ok);
    }
}
