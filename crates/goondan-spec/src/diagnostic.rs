//! What is wrong with a bundle, as data. Rendering is another module's work.

use std::fmt;

use serde::Serialize;

/// The page that explains every code under a heading of its name.
pub const HELP_PAGE: &str = "https://goondan.ai/docs/errors";

/// How bad it is. Any error keeps the whole bundle from running (rule L3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing runs.
    Error,
    /// It runs, but probably not as meant.
    Warning,
}

/// A stable code such as `E_CONFIG_REF_NOT_FOUND`; warnings begin with `W_`. See rule L5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Code(pub &'static str);

impl Code {
    /// Warnings begin with `W_`, everything else is an error.
    pub fn severity(self) -> Severity {
        if self.0.starts_with("W_") { Severity::Warning } else { Severity::Error }
    }
}

impl Code {
    /// Where this code is explained.
    pub fn help_url(self) -> String {
        format!("{HELP_PAGE}#{}", self.0.to_ascii_lowercase())
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal),* $(,)?) => {
        impl Code {
            $($(#[$doc])* pub const $name: Code = Code($text);)*
            /// Every code, sorted as documented.
            pub const ALL: &'static [Code] = &[$(Code::$name),*];
        }
    };
}

codes! {
    /// The file is no YAML, not UTF-8, not readable, or past a limit of depth or aliases.
    PARSE_ERROR = "E_CONFIG_PARSE_ERROR",
    /// The file is larger than 1 MiB.
    FILE_TOO_LARGE = "E_CONFIG_FILE_TOO_LARGE",
    /// The file holds more than 1,000 documents.
    TOO_MANY_DOCUMENTS = "E_CONFIG_TOO_MANY_DOCUMENTS",
    /// `apiVersion` is not `goondan.ai/v1`.
    UNSUPPORTED_API_VERSION = "E_CONFIG_UNSUPPORTED_API_VERSION",
    /// `kind` is none of the eight.
    UNKNOWN_KIND = "E_CONFIG_UNKNOWN_KIND",
    /// `metadata.name` breaks rule L6.
    INVALID_NAME = "E_CONFIG_INVALID_NAME",
    /// Two resources of one kind share a name.
    DUPLICATE_NAME = "E_CONFIG_DUPLICATE_NAME",
    /// A wrong type, a missing or unknown field, a bad value.
    SCHEMA_INVALID = "E_CONFIG_SCHEMA_INVALID",
    /// A reference that is no `Kind/name`, or of the wrong kind.
    INVALID_REF = "E_CONFIG_INVALID_REF",
    /// A reference to a resource that nobody defines.
    REF_NOT_FOUND = "E_CONFIG_REF_NOT_FOUND",
    /// A reference that several packages answer.
    REF_AMBIGUOUS = "E_CONFIG_REF_AMBIGUOUS",
    /// An entry or prompt file that is not there.
    ENTRY_NOT_FOUND = "E_CONFIG_ENTRY_NOT_FOUND",
    /// A path that leaves the bundle.
    PATH_ESCAPE = "E_CONFIG_PATH_ESCAPE",
    /// `parameters` is no valid JSON Schema of type object.
    INVALID_PARAMETERS = "E_CONFIG_INVALID_PARAMETERS",
    /// Not exactly one of `value`, `valueFrom.env`, `valueFrom.secretRef`.
    INVALID_VALUE_SOURCE = "E_CONFIG_INVALID_VALUE_SOURCE",
    /// A variable that the chosen swarm needs is not set.
    ENV_MISSING = "E_CONFIG_ENV_MISSING",
    /// `resource__export` is longer than 64 characters.
    TOOL_NAME_TOO_LONG = "E_CONFIG_TOOL_NAME_TOO_LONG",
    /// A Package that is not the first document of `goondan.yaml`.
    PACKAGE_DOC_POSITION = "E_CONFIG_PACKAGE_DOC_POSITION",
    /// More than one Package.
    PACKAGE_DOC_DUPLICATED = "E_CONFIG_PACKAGE_DOC_DUPLICATED",
    /// References that run in a circle.
    CYCLE = "E_CONFIG_CYCLE",
    /// Nothing to run: no Swarm, or several and none chosen.
    NO_SWARM = "E_CONFIG_NO_SWARM",
    /// The project wants to do what needs trust, and nobody has said that it is trusted.
    PROJECT_UNTRUSTED = "E_PROJECT_UNTRUSTED",
    /// No YAML file of the bundle defines a resource.
    EMPTY = "W_CONFIG_EMPTY",
    /// A resource that nothing refers to.
    UNUSED = "W_CONFIG_UNUSED",
    /// A name or schema that the model's provider will not take as it is.
    PROVIDER_SCHEMA = "W_CONFIG_PROVIDER_SCHEMA",
    /// A permission rule that never decides.
    DEAD_RULE = "W_CONFIG_DEAD_RULE",
    /// An entry form that is reserved for later.
    NOT_ACTIVE = "W_CONFIG_NOT_ACTIVE",
    /// It is not known what an MCP server has, or some of it can't be offered.
    MCP_CATALOG = "W_MCP_CATALOG",
    /// `parameters` of an export that are other ones than its library describes.
    SCHEMA_DIFFERS = "W_CONFIG_SCHEMA_DIFFERS",
}

/// One problem. Lines and columns count from 1; columns count characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnostic {
    /// The stable code.
    pub code: Code,
    /// Error or warning, as the code says.
    pub severity: Severity,
    /// A sentence that stands alone.
    pub message: String,
    /// The file, relative to the bundle's folder, with `/` between its parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Where in the file it begins.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub position: Option<Position>,
    /// The resource concerned, as `Kind/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The field concerned, such as `spec.exports[0].name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// What to type next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestion: Option<String>,
    /// Where to read more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help_url: Option<String>,
}

/// A place in a file, with the length of what stands there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Position {
    /// Counted from 1.
    pub line: usize,
    /// In characters, counted from 1.
    pub column: usize,
    /// Byte offset of the first byte in the file.
    #[serde(skip)]
    pub start: usize,
    /// Byte offset behind the last byte.
    #[serde(skip)]
    pub end: usize,
}

impl Diagnostic {
    /// A diagnostic that has no place yet.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Diagnostic {
            code,
            severity: code.severity(),
            message: message.into(),
            file: None,
            position: None,
            resource: None,
            field: None,
            suggestion: None,
            help_url: Some(code.help_url()),
        }
    }

    /// Says where it is.
    #[must_use]
    pub fn at(mut self, position: Position) -> Self {
        self.position = Some(position);
        self
    }

    /// Says which file it is in.
    #[must_use]
    pub fn in_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Says which resource it concerns, as `Kind/name`.
    #[must_use]
    pub fn of(mut self, resource: impl fmt::Display) -> Self {
        self.resource = Some(resource.to_string());
        self
    }

    /// Says which field it concerns, such as `spec.exports[0].name`.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Says what to type next.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Whether it keeps the bundle from running.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
