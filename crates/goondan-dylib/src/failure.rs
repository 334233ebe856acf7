//! Errors of opening a library, independent of the resource that needs it.

use std::env::consts::{ARCH, OS};
use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use goondan_abi::raw::{ABI_MAJOR, SYMBOL, Status};
use goondan_core::ports::tool::OpenError;
use goondan_spec::ResourceId;
use object::{Architecture, BinaryFormat};
use serde::{Deserialize, Serialize};

/// The error. `name` is the library's name, for messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
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
    #[error("{name} keeps changing while it is read")]
    Changing { name: String },
    #[error("reading the library was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
    #[error("{name} could not be copied: {cause}")]
    NotCopied {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("copies of libraries cannot be kept in {}: {cause}", root.display())]
    Unwritable {
        root: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("{name} is empty")]
    Empty { name: String },
    #[error("{name} is not a dynamic library")]
    OtherFile { name: String },
    #[error("{name} is damaged or not completely written: {cause}")]
    Damaged {
        name: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    #[error(
        "{name} is built for another machine ({format:?}, {architecture:?}); this one is {OS} on {ARCH}"
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
    #[error("`{SYMBOL}` of {name} is something else: its magic number is wrong")]
    OtherSymbol { name: String },
    #[error("{name} speaks version {theirs} of the tool ABI, this program speaks {ABI_MAJOR}")]
    OtherMajor { name: String, theirs: u16 },
    #[error("{name} is built so that a panic in it would end this program")]
    PanicsAbort { name: String },
    #[error("{name} has no function `{function}` in its table")]
    Incomplete {
        name: String,
        function: &'static str,
    },
    #[error("{name} refused to open: {}", status.name())]
    Refused { name: String, status: Status },
    #[error("{name} failed to describe itself: {}", status.name())]
    NotDescribed { name: String, status: Status },
    #[error("the manifest of {name} is not the JSON that it should be: {cause}")]
    NoManifest {
        name: String,
        #[source]
        cause: serde_json::Error,
    },
    #[error("the manifest of {name} is wrong: {cause}")]
    WrongManifest {
        name: String,
        #[source]
        cause: Fault,
    },
    #[error("{name} has no extension")]
    NoExtension { name: String },
    #[error("{name} has no connector")]
    NoConnector { name: String },
    #[error("the connector of {name} needs a program that can host libraries, and this one cannot")]
    NotHosted { name: String },
    #[error("{name} has no export `{export}`")]
    NoExport {
        name: String,
        export: String,
        has: Vec<String>,
    },
    #[error("no thread could be started for {name}: {cause}")]
    NoThread {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("{name} was given up while it was being opened")]
    GivenUp { name: String },
    #[error("{name} did not finish opening within {} s", patience.as_secs())]
    Slow { name: String, patience: Duration },
    #[error("the host for {name} could not be started: {}: {cause}", program.display())]
    NoHost {
        name: String,
        program: PathBuf,
        #[source]
        cause: io::Error,
    },
    #[error("the host for {name} cannot be talked to: {cause}")]
    MuteHost {
        name: String,
        #[source]
        cause: io::Error,
    },
    #[error("the host for {name} died while it was opening the library")]
    DeadHost { name: String },
    #[error("the host for {name} did not answer within {} s", patience.as_secs())]
    SlowHost { name: String, patience: Duration },
    #[error("{}", .0.message)]
    Told(Told),
}

/// An error in a manifest.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("it exports nothing")]
    NoExports,
    #[error("two of its exports have the same name")]
    SameName,
    #[error(
        "`{0}` is not a valid export name: letters, digits, `-` and single `_`, starting with a letter, at most 63"
    )]
    Name(String),
    #[error("the parameters of `{0}` are not a JSON Schema of type object")]
    Parameters(String),
}

/// A failure as a host process reports it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Told {
    message: String,
    suggestion: Option<String>,
    export: Option<String>,
}

impl Failure {
    pub(crate) fn suggestion(&self) -> Option<String> {
        Some(match self {
            Failure::Told(told) => return told.suggestion.clone(),
            Failure::Missing { looked_for, .. } => {
                format!(
                    "build it first, or correct the path; looked for {}",
                    looked_for.join(", ")
                )
            }
            Failure::Foreign { .. } => {
                format!(
                    "build it for {ARCH} on {OS}, such as by `cargo build --target` with the triple that `rustc -vV` \
                     prints as host"
                )
            }
            Failure::OtherMajor { name, theirs } => {
                let update = if *theirs > ABI_MAJOR {
                    ", or update this program"
                } else {
                    ""
                };
                format!("rebuild {name} with goondan-abi {ABI_MAJOR}.x{update}")
            }
            Failure::NoExport { has, .. } => {
                let has = has.join(", ");
                format!(
                    "it has: {has}; correct `spec.exports`, or rebuild the library with that export"
                )
            }
            _ => self.fixed_suggestion()?.to_owned(),
        })
    }

    /// Returns the suggested fix of errors with a constant one.
    fn fixed_suggestion(&self) -> Option<&'static str> {
        Some(match self {
            Failure::Told(_)
            | Failure::Missing { .. }
            | Failure::Foreign { .. }
            | Failure::OtherMajor { .. }
            | Failure::NoExport { .. }
            | Failure::NoLibrary
            | Failure::Interrupted(_)
            | Failure::NotCopied { .. }
            | Failure::NoThread { .. }
            | Failure::GivenUp { .. }
            | Failure::NoHost { .. }
            | Failure::MuteHost { .. } => return None,
            Failure::Unreadable { .. } => "check the path and its permissions",
            Failure::Changing { .. } => "reload once its build is done",
            Failure::Unwritable { .. } => "give the state root a folder that can be written to",
            Failure::Empty { .. } | Failure::OtherFile { .. } => {
                "build a `cdylib` (Rust: `crate-type = [\"cdylib\"]`; C: `cc -shared -fPIC`) and name the file that \
                 comes of it"
            }
            Failure::Damaged { .. } => {
                "build it again; if it was just being built, reload once that is done"
            }
            Failure::NoSymbol { .. } => {
                "add `export_tools!` of goondan-abi (or define `goondan_plugin` of include/goondan_plugin.h), and rebuild"
            }
            Failure::NotLoaded { .. } => {
                "rebuild it on this machine; a missing symbol or library has to be linked into it"
            }
            Failure::OtherSymbol { .. } => {
                "use the type of include/goondan_plugin.h, or `export_tools!` of goondan-abi"
            }
            Failure::PanicsAbort { .. } => {
                "remove `panic = \"abort\"` from its profile, and rebuild"
            }
            Failure::Incomplete { .. } => {
                "fill every function of `goondan_library`; rebuild with the current header or SDK"
            }
            Failure::Refused { .. } => "its own log or documentation has to say why",
            Failure::NotDescribed { .. } => {
                "this is a fault of the library; rebuild it with a current SDK"
            }
            Failure::NoManifest { .. } => {
                "this is a fault of the library: `describe` writes {name, version, exports}"
            }
            Failure::WrongManifest { .. } => "this is a fault of the library",
            Failure::NoExtension { .. } => {
                "add `export_extension!` of goondan-abi (or fill `extend` of include/goondan_plugin.h), and rebuild; \
                 a library of tools is for a Tool resource"
            }
            Failure::NoConnector { .. } => {
                "add `export_connector!` of goondan-abi, and rebuild; a library of tools is for a Tool resource"
            }
            Failure::NotHosted { .. } => "give `SwarmBuilder::tool_host` a command",
            Failure::Slow { .. } => {
                "its initialisers, `open` and `describe` must return promptly; start what takes long at the first call"
            }
            Failure::DeadHost { .. } => {
                "the library crashes when it is loaded or opened; run it under a debugger"
            }
            Failure::SlowHost { .. } => {
                "the library's initialisers, `open` and `describe` must return promptly"
            }
        })
    }

    /// Returns true if the host process caused the failure, or has ended.
    pub(crate) fn is_of_host(&self) -> bool {
        matches!(
            self,
            Failure::NotHosted { .. }
                | Failure::NoHost { .. }
                | Failure::MuteHost { .. }
                | Failure::DeadHost { .. }
                | Failure::SlowHost { .. }
        )
    }

    /// Returns the missing export that was requested.
    fn export(&self) -> Option<&str> {
        match self {
            Failure::NoExport { export, .. } => Some(export),
            Failure::Told(told) => told.export.as_deref(),
            _ => None,
        }
    }

    /// Converts the failure to the form that a host process reports.
    pub(crate) fn told(&self) -> Told {
        let export = self.export().map(str::to_owned);
        Told {
            message: self.to_string(),
            suggestion: self.suggestion(),
            export,
        }
    }

    pub(crate) fn of(self, resource: &ResourceId) -> OpenError {
        let (suggestion, export) = (self.suggestion(), self.export().map(str::to_owned));
        OpenError {
            suggestion,
            export,
            ..OpenError::new(resource, self)
        }
    }
}
