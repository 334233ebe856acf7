//! Errors of opening a library, independent of the resource that needs it.

use std::env::consts::{ARCH, OS};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use goondan_abi::raw::{ABI_MAJOR, SYMBOL, Status};
use goondan_core::ports::tool::EntryOpenError;
use goondan_spec::ResourceId;
use object::{Architecture, BinaryFormat};
use serde::{Deserialize, Serialize};

/// The error. `name` is the library's name, for messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LibraryFailure {
    #[error("its entry is not a library")]
    NoLibrary,
    #[error("there is no library `{entry}`")]
    Missing {
        entry: String,
        looked_for: Vec<String>,
    },
    #[error("{name} cannot be read: {cause}")]
    Unreadable {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("{name} changed repeatedly while it was read")]
    Changing { name: String },
    #[error("reading the library was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
    #[error("cannot copy {name}: {cause}")]
    NotCopied {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("cannot store library copies in {}: {cause}", root.display())]
    Unwritable {
        root: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{name} is empty")]
    Empty { name: String },
    #[error("{name} is not a dynamic library")]
    OtherFile { name: String },
    #[error("{name} is damaged or incompletely written: {cause}")]
    Damaged {
        name: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error(
        "{name} is built for another machine ({format:?}, {architecture:?}); this one is {OS} on \
        {ARCH}"
    )]
    Foreign {
        name: String,
        format: BinaryFormat,
        architecture: Architecture,
    },
    #[error("{name} does not export `{SYMBOL}`, so it is not a tool library")]
    NoSymbol { name: String },
    #[error("the system cannot load {name}: {words}")]
    NotLoaded {
        name: String,
        words: String,
        #[source]
        cause: libloading::Error,
    },
    #[error("`{SYMBOL}` of {name} has a wrong magic number")]
    OtherSymbol { name: String },
    #[error(
        "{name} uses version {theirs} of the tool ABI, but this program uses version \
        {ABI_MAJOR}"
    )]
    OtherMajor { name: String, theirs: u16 },
    #[error("{name} is built with `panic = \"abort\"`, so a panic in it would end this program")]
    PanicsAbort { name: String },
    #[error("{name} has no function `{function}` in its table")]
    Incomplete {
        name: String,
        function: &'static str,
    },
    #[error("{name} refused to open: {}", status.name())]
    Refused { name: String, status: Status },
    #[error("{name} did not return its manifest: {}", status.name())]
    NotDescribed { name: String, status: Status },
    #[error("the manifest of {name} is not valid JSON: {cause}")]
    NoManifest {
        name: String,
        #[source]
        cause: serde_json::Error,
    },
    #[error("the manifest of {name} is invalid: {cause}")]
    WrongManifest {
        name: String,
        #[source]
        cause: ManifestFault,
    },
    #[error("{name} has no extension")]
    NoExtension { name: String },
    #[error("{name} has no connector")]
    NoConnector { name: String },
    #[error(
        "the connector of {name} needs a library host process, which this program does not \
        have"
    )]
    NotHosted { name: String },
    #[error("{name} has no export `{export}`")]
    NoExport {
        name: String,
        export: String,
        has: Vec<String>,
    },
    #[error("cannot start a thread for {name}: {cause}")]
    NoThread {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("opening {name} was cancelled")]
    Cancelled { name: String },
    #[error("{name} did not finish opening within {} s", time_limit.as_secs())]
    Slow { name: String, time_limit: Duration },
    #[error("cannot start the library host process for {name}: {}: {cause}", program.display())]
    NoHost {
        name: String,
        program: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("cannot communicate with the library host process for {name}: {cause}")]
    MuteHost {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("the library host process for {name} crashed while it opened the library")]
    DeadHost { name: String },
    #[error("the library host process for {name} did not respond within {} s", time_limit.as_secs())]
    SlowHost { name: String, time_limit: Duration },
    #[error("{}", .0.message)]
    Reported(ReportedFailure),
}

/// An error in a manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestFault {
    #[error("it exports nothing")]
    NoExports,
    #[error("two of its exports have the same name")]
    SameName,
    #[error(
        "`{0}` is not a valid export name: letters, digits, `-` and single `_`, starting with a \
        letter, at most 63"
    )]
    Name(String),
    #[error("the parameters of `{0}` are not a JSON Schema of type object")]
    Parameters(String),
}

/// A failure as a host process reports it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ReportedFailure {
    message: String,
    suggestion: Option<String>,
    export: Option<String>,
}

impl LibraryFailure {
    /// Returns the fix as a sentence; `None` if there is no usual fix.
    pub(crate) fn suggestion(&self) -> Option<String> {
        Some(match self {
            LibraryFailure::Reported(report) => return report.suggestion.clone(),
            LibraryFailure::Missing { looked_for, .. } => {
                format!(
                    "build it first, or correct the path; looked for {}",
                    looked_for.join(", ")
                )
            }
            LibraryFailure::Foreign { .. } => {
                format!(
                    "build it for {ARCH} on {OS}, for example with `cargo build --target` and the \
                    host triple from `rustc -vV`"
                )
            }
            LibraryFailure::OtherMajor { name, theirs } => {
                let update = if *theirs > ABI_MAJOR {
                    ", or update this program"
                } else {
                    ""
                };
                format!("rebuild {name} with goondan-abi {ABI_MAJOR}.x{update}")
            }
            LibraryFailure::NoExport { has: names, .. } => {
                let names = names.join(", ");
                format!(
                    "its exports are: {names}; correct `spec.exports`, or rebuild the library with \
                    the missing export"
                )
            }
            _ => self.fixed_suggestion()?.to_owned(),
        })
    }

    /// Returns the suggested fix of errors with a constant one.
    fn fixed_suggestion(&self) -> Option<&'static str> {
        Some(match self {
            LibraryFailure::Reported(_)
            | LibraryFailure::Missing { .. }
            | LibraryFailure::Foreign { .. }
            | LibraryFailure::OtherMajor { .. }
            | LibraryFailure::NoExport { .. }
            | LibraryFailure::NoLibrary
            | LibraryFailure::Interrupted(_)
            | LibraryFailure::NotCopied { .. }
            | LibraryFailure::NoThread { .. }
            | LibraryFailure::Cancelled { .. }
            | LibraryFailure::NoHost { .. }
            | LibraryFailure::MuteHost { .. } => return None,
            LibraryFailure::Unreadable { .. } => "check the path and its permissions",
            LibraryFailure::Changing { .. } => "reload when its build is finished",
            LibraryFailure::Unwritable { .. } => "set the state root to a writable directory",
            LibraryFailure::Empty { .. } | LibraryFailure::OtherFile { .. } => {
                "build a `cdylib` (Rust: `crate-type = [\"cdylib\"]`; C: `cc -shared -fPIC`) and \
                use the resulting file as the entry"
            }
            LibraryFailure::Damaged { .. } => {
                "build it again, or reload when its build is finished"
            }
            LibraryFailure::NoSymbol { .. } => {
                "add `export_tools!` of goondan-abi (or define `goondan_plugin` of \
                include/goondan_plugin.h), and rebuild"
            }
            LibraryFailure::NotLoaded { .. } => {
                "rebuild it on this machine, and link missing symbols or libraries into it"
            }
            LibraryFailure::OtherSymbol { .. } => {
                "use the type of include/goondan_plugin.h, or `export_tools!` of goondan-abi"
            }
            LibraryFailure::PanicsAbort { .. } => {
                "remove `panic = \"abort\"` from its profile, and rebuild"
            }
            LibraryFailure::Incomplete { .. } => {
                "fill every function of `goondan_library`; rebuild with the current header or SDK"
            }
            LibraryFailure::Refused { .. } => {
                "see the log or documentation of the library for \
                the reason"
            }
            LibraryFailure::NotDescribed { .. } => {
                "this is a bug in the library; rebuild it with a current SDK"
            }
            LibraryFailure::NoManifest { .. } => {
                "this is a bug in the library: `describe` must write {name, version, exports}"
            }
            LibraryFailure::WrongManifest { .. } => "this is a bug in the library",
            LibraryFailure::NoExtension { .. } => {
                "add `export_extension!` of goondan-abi (or fill `extend` of \
                include/goondan_plugin.h), and rebuild; use a tool library in a Tool resource"
            }
            LibraryFailure::NoConnector { .. } => {
                "add `export_connector!` of goondan-abi, and rebuild; use a tool library in a \
                Tool resource"
            }
            LibraryFailure::NotHosted { .. } => "give `SwarmBuilder::tool_host` a command",
            LibraryFailure::Slow { .. } => {
                "its initializers, `open` and `describe` must return promptly; start slow work in \
                the first call"
            }
            LibraryFailure::DeadHost { .. } => {
                "the library crashes when it is loaded or opened; run it under a debugger"
            }
            LibraryFailure::SlowHost { .. } => {
                "the library's initializers, `open` and `describe` must return promptly"
            }
        })
    }

    /// Returns true for a failure of the host process, such as its end or a timeout.
    pub(crate) fn is_host_failure(&self) -> bool {
        matches!(
            self,
            LibraryFailure::NotHosted { .. }
                | LibraryFailure::NoHost { .. }
                | LibraryFailure::MuteHost { .. }
                | LibraryFailure::DeadHost { .. }
                | LibraryFailure::SlowHost { .. }
        )
    }

    /// Returns the missing export that was requested.
    fn export(&self) -> Option<&str> {
        match self {
            LibraryFailure::NoExport { export, .. } => Some(export),
            LibraryFailure::Reported(report) => report.export.as_deref(),
            _ => None,
        }
    }

    /// Converts the failure to the form that a host process reports.
    pub(crate) fn report(&self) -> ReportedFailure {
        let export = self.export().map(str::to_owned);
        ReportedFailure {
            message: self.to_string(),
            suggestion: self.suggestion(),
            export,
        }
    }

    pub(crate) fn of(self, resource: &ResourceId) -> EntryOpenError {
        let (suggestion, export) = (self.suggestion(), self.export().map(str::to_owned));
        EntryOpenError {
            suggestion,
            export,
            ..EntryOpenError::new(resource, self)
        }
    }
}
