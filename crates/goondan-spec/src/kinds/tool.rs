//! `kind: Tool`: reads and checks the spec of a tool.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::a2a::{self, A2aAgent, A2aAgentShape};
use super::build::{self, BuildShape};
use super::call_timeout::{MAX_TIMEOUT_MS, read_timeout};
use super::export::{self, DeclaredExports, ExportOverride, ExportShape};
use super::export_spec::ExportSpec;
use super::lazy_exports::LazyExports;
use super::mcp::{self, McpServer, McpServerShape};
use super::script_language::ScriptRuntime;
use super::script_module::ScriptModule;
use super::tool_build::BuildSettings;
use super::tool_manifest::ToolManifest;
use super::{ResourceScope, free_config};
use crate::JsonObject;
use crate::custom_tool::CustomTool;
use crate::decode::{FieldReader, MapReader};
use crate::diagnostic::{Code, Diagnostic};
use crate::diagnostic_sink::DiagnosticSink;
use crate::entry;
use crate::node::NodeContent;
use crate::paths::FileReadError;
use crate::relative_paths::join_relative;
use crate::text::reason;

/// Callable exports of one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Location of the handlers.
    pub entry: ToolEntry,
    /// Free-form settings for the handlers.
    pub config: JsonObject,
    /// Maximum length of error messages, in characters. Default: 1000.
    pub error_message_limit: usize,
    /// Maximum length of output, in characters. Default: 100000.
    pub output_limit: usize,
    /// Time limit of a call. Default: 120 s.
    pub timeout: Duration,
    /// Selected and overridden exports. Empty if the entry describes itself and the resource states
    /// none (rule L9a). A built-in entry fills the list, and a library does so when it is opened.
    ///
    /// A library export that states only its name has an empty description and `Null` parameters.
    /// The library supplies the rest.
    pub exports: LazyExports,
    /// Items of `spec.exports`, to apply to the exports that a library declares.
    pub overrides: Vec<ExportOverride>,
    /// Process in which the entry runs.
    pub isolation: ToolIsolation,
    /// Build settings of the entry.
    pub build: Option<BuildSettings>,
    /// Environment variables that the entry reads without configuration.
    pub variables: Vec<String>,
}

/// The process in which the handlers of a tool run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Isolation")]
pub enum ToolIsolation {
    /// In the process of `gdn`.
    #[default]
    None,
    /// In a separate process, so that a crash does not end `gdn`.
    Process,
}

const DEFAULT_ERROR_MESSAGE_CHARS: usize = 1_000;
const DEFAULT_OUTPUT_CHARS: usize = 100_000;
const DEFAULT_CALL_TIMEOUT_MS: u64 = 120_000;

/// Entry of a tool whose functions are part of the program that embeds the swarm.
pub const EMBEDDED_ENTRY: &str = "embedded";

/// Location of a tool's handlers (rule T2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolEntry {
    /// Built-in handler set.
    Builtin(String),
    /// Dynamic library, relative to the bundle.
    Library(String),
    /// Directory with a `tool.yaml`, relative to the bundle.
    Executable(String),
    /// File in JavaScript, TypeScript or Python.
    Module(Box<ScriptModule>),
    /// Functions of the program that embeds the swarm.
    Embedded,
    /// MCP server of `spec.mcp`.
    Mcp(Box<McpServer>),
    /// Remote agent of `spec.a2a`.
    A2a(Box<A2aAgent>),
}

impl Tool {
    /// Returns a tool with only an entry and default limits.
    pub fn new(entry: ToolEntry) -> Tool {
        Tool {
            entry,
            config: JsonObject::new(),
            error_message_limit: DEFAULT_ERROR_MESSAGE_CHARS,
            output_limit: DEFAULT_OUTPUT_CHARS,
            timeout: Duration::from_millis(DEFAULT_CALL_TIMEOUT_MS),
            exports: LazyExports::default(),
            overrides: Vec::new(),
            isolation: ToolIsolation::None,
            build: None,
            variables: Vec::new(),
        }
    }

    /// Returns the time limit of a call of `export`, and the field that states it.
    pub fn timeout_of(&self, export: &str) -> (Duration, &'static str) {
        let own_timeout = self
            .overrides
            .iter()
            .find(|stated| stated.name == export)
            .and_then(|stated| stated.timeout);
        own_timeout.map_or((self.timeout, "spec.timeoutMs"), |timeout| {
            (timeout, "spec.exports[].timeoutMs")
        })
    }

    /// Returns the tool of a built-in handler set that has no resource in the project.
    pub(crate) fn from_manifest(manifest: &ToolManifest) -> Tool {
        Tool {
            error_message_limit: manifest
                .error_message_limit
                .unwrap_or(DEFAULT_ERROR_MESSAGE_CHARS),
            output_limit: manifest.output_limit.unwrap_or(DEFAULT_OUTPUT_CHARS),
            timeout: Duration::from_millis(manifest.timeout_ms.unwrap_or(DEFAULT_CALL_TIMEOUT_MS)),
            exports: manifest.exports.clone(),
            variables: manifest.variables.clone(),
            ..Tool::new(ToolEntry::Builtin(manifest.name.clone()))
        }
    }
}

/// Decodes the spec of a Tool; `None` if a field is invalid.
pub(crate) fn decode(
    spec: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<Tool> {
    let mut fields = spec.fields(findings)?;
    let remote_field = match (fields.optional("mcp"), fields.optional("a2a")) {
        (Some(mcp), other) => {
            report_conflict(other, &mcp, findings);
            Some(mcp)
        }
        (None, a2a) => a2a,
    };
    let entry_field = match &remote_field {
        Some(remote) => report_conflict(fields.optional("entry"), remote, findings),
        None => fields.required("entry", findings),
    };
    for field in entry_field.iter().chain(&remote_field) {
        findings.record_position(field);
    }
    let build = build::read(
        fields.optional("build").as_ref(),
        entry_field.as_ref(),
        scope,
        findings,
    );
    let mut entry = match &remote_field {
        Some(field) if field.key == "a2a" => {
            a2a::read(field, findings).map(|agent| ToolEntry::A2a(Box::new(agent)))
        }
        Some(field) => {
            mcp::read(field, scope, findings).map(|server| ToolEntry::Mcp(Box::new(server)))
        }
        None => entry_field
            .as_ref()
            .and_then(|field| entry::tool(field, scope.folder, scope.base, findings)),
    };
    let runtime = read_runtime(fields.optional("runtime"), entry.as_mut(), findings);
    let custom = read_custom(entry.as_ref(), entry_field.as_ref(), scope, findings);
    let manifest = builtin_manifest(entry.as_ref(), scope);
    let ask = matches!(entry, Some(ToolEntry::A2a(_))).then(A2aAgent::export);
    let source = match (&entry, manifest, &custom) {
        (Some(ToolEntry::A2a(_)), ..) => DeclaredExports::Builtin(ask.as_slice()),
        (Some(ToolEntry::Builtin(_)), Some(manifest), _) => {
            DeclaredExports::Builtin(&manifest.exports)
        }
        (Some(ToolEntry::Executable(_)), _, Some(export)) => {
            DeclaredExports::Says(std::slice::from_ref(export))
        }
        (Some(ToolEntry::Library(_) | ToolEntry::Mcp(_)), ..) => DeclaredExports::SaysLater,
        (Some(ToolEntry::Module(_) | ToolEntry::Embedded), ..) => DeclaredExports::SaysNothing,
        _ => DeclaredExports::Unknown,
    };
    let exports_field = fields.optional("exports");
    let is_described = is_described(
        entry.as_ref(),
        entry_field.as_ref(),
        exports_field.is_some(),
        findings,
    );
    let exports = export::read_all(exports_field.as_ref(), source, scope, findings);
    let limits = read_limits(&mut fields, manifest, findings);
    let is_builtin = matches!(entry, Some(ToolEntry::Builtin(_)));
    let config_field = fields.optional("config");
    if let Some(config) = config_field.as_ref().filter(|_| is_builtin) {
        check_directories(config, scope, findings);
    }
    let config = free_config(config_field, is_builtin, findings);
    let isolation = fields.optional("isolation").map(|field| {
        field.one_of(
            &[
                ("process", ToolIsolation::Process),
                ("none", ToolIsolation::None),
            ],
            findings,
        )
    });
    fields.finish(findings);
    let ((exports, overrides), limits) = (exports?, limits?);
    (is_described && runtime.is_some()).then_some(())?;
    Some(Tool {
        entry: entry?,
        config: config?,
        error_message_limit: limits.error_message,
        output_limit: limits.output,
        timeout: limits.timeout,
        exports: exports.into(),
        overrides,
        isolation: isolation.unwrap_or(Some(ToolIsolation::None))?,
        build: build?,
        variables: manifest
            .map(|manifest| manifest.variables.clone())
            .unwrap_or_default(),
    })
}

/// Reports directories in the configuration of a built-in tool whose path contains a link.
fn check_directories(
    config: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) {
    for field in ["roots", "dir"].iter().filter_map(|key| config.child(key)) {
        let items = match &field.node.content {
            NodeContent::List(_) => field.list(findings).unwrap_or_default(),
            _ => vec![field],
        };
        for item in items {
            scope.folder.check_configured_directory(&item, findings);
        }
    }
}

/// Reads `runtime` of a script entry; `None`, with an error, if it is invalid.
fn read_runtime(
    field: Option<FieldReader<'_>>,
    entry: Option<&mut ToolEntry>,
    findings: &mut DiagnosticSink,
) -> Option<()> {
    match entry {
        // Errors in the entry are already reported.
        None => Some(()),
        Some(ToolEntry::Module(module)) => {
            ScriptRuntime::apply_field(field, Some(module), findings)
        }
        Some(_) => ScriptRuntime::apply_field(field, None, findings),
    }
}

/// Returns false and reports an error if `spec.exports` is missing for an entry that does not
/// describe itself.
fn is_described(
    entry: Option<&ToolEntry>,
    field: Option<&FieldReader<'_>>,
    has_exports: bool,
    findings: &mut DiagnosticSink,
) -> bool {
    let (entry, owner) = match entry {
        Some(ToolEntry::Module(module)) => (&*module.path, "a handler file"),
        Some(ToolEntry::Embedded) => (EMBEDDED_ENTRY, "an embedding program"),
        _ => return true,
    };
    let (Some(field), false) = (field, has_exports) else {
        return true;
    };
    let message = format!(
        "A tool with the entry `{entry}` needs `spec.exports`, because {owner} does not declare its \
        exports."
    );
    let example = "add `exports: [{name: …, description: …, parameters: {type: object}}]`, one for \
        each handler";
    findings.add(field.invalid_value(message).suggest(example));
    false
}

/// Reports an entry next to a server or remote agent. The entry is dropped, so that no file is
/// searched for.
fn report_conflict<'n>(
    entry: Option<FieldReader<'n>>,
    remote: &FieldReader<'_>,
    findings: &mut DiagnosticSink,
) -> Option<FieldReader<'n>> {
    if let Some(entry) = entry {
        let message = format!("A tool has `{}` or `{}`, not both.", entry.key, remote.key);
        findings.add(entry.invalid_value(message).suggest("keep one of the two"));
    }
    None
}

/// Returns the manifest of a built-in entry; `None` for other entries.
fn builtin_manifest<'s>(
    entry: Option<&ToolEntry>,
    scope: &ResourceScope<'s>,
) -> Option<&'s ToolManifest> {
    match entry {
        Some(ToolEntry::Builtin(name)) => scope.base.tools.iter().find(|tool| tool.name == *name),
        _ => None,
    }
}

/// Reads the only export of an executable entry. Errors are reported at their position in its
/// `tool.yaml`.
fn read_custom(
    entry: Option<&ToolEntry>,
    field: Option<&FieldReader<'_>>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> Option<ExportSpec> {
    let (Some(ToolEntry::Executable(folder)), Some(field)) = (entry, field) else {
        return None;
    };
    let file = join_relative(folder, entry::TOOL_MANIFEST);
    findings.depends_on(file.clone());
    let text = match scope.folder.read(&file) {
        Ok(text) => text,
        Err(unreadable) => {
            let (code, why) = match unreadable {
                FileReadError::TooLarge => {
                    (Code::FILE_TOO_LARGE, "it is larger than 1 MiB".to_owned())
                }
                FileReadError::NotText(_) => (Code::PARSE_ERROR, "it is not UTF-8 text".to_owned()),
                FileReadError::Io(error) => (Code::PARSE_ERROR, reason(&error)),
            };
            findings.add(field.diagnostic(code, format!("`{file}` cannot be read: {why}.")));
            return None;
        }
    };
    match CustomTool::parse(&text, &file) {
        Ok(custom) => {
            check_program(&custom, folder, field, scope, findings).then(|| custom.export())
        }
        Err(problems) => {
            for problem in problems {
                findings.add(problem);
            }
            findings.texts.push((file, text));
            None
        }
    }
}

/// Returns true if the program of a custom tool exists inside the bundle; reports it otherwise.
fn check_program(
    custom: &CustomTool,
    folder: &str,
    field: &FieldReader<'_>,
    scope: &ResourceScope<'_>,
    findings: &mut DiagnosticSink,
) -> bool {
    let program = join_relative(folder, &custom.entrypoint);
    let escapes = scope.folder.leaves_by_link(&program);
    let problem: Diagnostic = if escapes {
        let message = format!("The program `{program}` is a link that leads out of the bundle.");
        field
            .diagnostic(Code::PATH_ESCAPE, message)
            .suggest("copy the program into the tool's directory")
    } else if scope.folder.is_file(&program) {
        findings.depends_on(program);
        return true;
    } else {
        let message = format!("The tool's program `{program}` does not exist.");
        let problem =
            field
                .diagnostic(Code::ENTRY_NOT_FOUND, message)
                .suggest(if findings.is_buildable() {
                    "run `gdn build`, or correct `entrypoint` in its `tool.yaml`"
                } else {
                    "build it, or correct `entrypoint` in its `tool.yaml`"
                });
        findings.add_not_built(problem);
        return false;
    };
    findings.add(problem);
    false
}

struct ToolCallLimits {
    error_message: usize,
    output: usize,
    timeout: Duration,
}

/// Reads the limits of a call: characters of output and error message, and time. Defaults come from
/// the built-in manifest, if there is one.
fn read_limits(
    fields: &mut MapReader<'_>,
    manifest: Option<&ToolManifest>,
    findings: &mut DiagnosticSink,
) -> Option<ToolCallLimits> {
    let error_message = fields
        .optional("errorMessageLimit")
        .map(|field| field.unsigned_as(1, findings));
    let output = fields
        .optional("outputLimit")
        .map(|field| field.unsigned_as(1, findings));
    let timeout = fields
        .optional("timeout")
        .map(|field| read_timeout(&field, findings));
    let default_error = manifest
        .and_then(|manifest| manifest.error_message_limit)
        .unwrap_or(DEFAULT_ERROR_MESSAGE_CHARS);
    let default_output = manifest
        .and_then(|manifest| manifest.output_limit)
        .unwrap_or(DEFAULT_OUTPUT_CHARS);
    let default_timeout = manifest
        .and_then(|manifest| manifest.timeout_ms)
        .unwrap_or(DEFAULT_CALL_TIMEOUT_MS);
    Some(ToolCallLimits {
        error_message: error_message.unwrap_or(Some(default_error))?,
        output: output.unwrap_or(Some(default_output))?,
        timeout: Duration::from_millis(timeout.unwrap_or(Some(default_timeout))?),
    })
}

/// Functions that a model may call.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Tool")]
#[expect(dead_code, reason = "read only by the schema generator")]
pub(crate) struct ToolSpec {
    /// The location of the handlers: `builtin:NAME` or a path. The path names a file in JavaScript,
    /// TypeScript or Python, a dynamic library, or a directory with a `tool.yaml`. The platform's
    /// prefix and suffix of a library may be omitted. `embedded` names functions of a Rust program
    /// that embeds the swarm. Every tool has an `entry`, an `mcp` or an `a2a`.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: Option<String>,
    /// The runtime of an entry in JavaScript, TypeScript or Python. By default, the first line of
    /// the file decides, then its package, then the installed programs. For JavaScript, `gdn` tries
    /// Node.js, Bun and Deno in this order. For TypeScript, it tries Bun, Node.js and Deno.
    runtime: Option<ScriptRuntime>,
    /// An MCP server, instead of `entry`. Its tools are the exports.
    mcp: Option<McpServerShape>,
    /// A remote agent that speaks A2A, instead of `entry`. Its only export is `ask`.
    a2a: Option<A2aAgentShape>,
    /// Settings for the handlers. Each built-in tool documents its own.
    config: Option<JsonObject>,
    /// The maximum length of an error message, in characters. The rest is cut off. Built-in tools
    /// may have another default.
    #[schemars(range(min = 1), extend("default" = DEFAULT_ERROR_MESSAGE_CHARS))]
    error_message_limit: Option<u64>,
    /// The maximum length of an output, in characters. The rest is cut off. Built-in tools may have
    /// another default.
    #[schemars(range(min = 1), extend("default" = DEFAULT_OUTPUT_CHARS))]
    output_limit: Option<u64>,
    /// The time limit of a call, in milliseconds. Built-in tools may have another default.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("default" = DEFAULT_CALL_TIMEOUT_MS))]
    timeout_ms: Option<u64>,
    /// The exports that the tool offers, with replacements for the entry's own description of them.
    /// Without it, the tool offers all exports of the entry.
    #[schemars(length(min = 1))]
    exports: Option<Vec<ExportShape>>,
    /// The process in which a library runs.
    #[schemars(extend("default" = ToolIsolation::default()))]
    isolation: Option<ToolIsolation>,
    /// The command that builds the entry for `gdn build`, `gdn run --build` and `gdn run --watch`,
    /// or a map with more settings.
    build: Option<BuildShape>,
}
