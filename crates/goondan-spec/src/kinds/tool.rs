//! `kind: Tool`.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::a2a::{self, A2aAgent, A2aAgentShape};
use super::build::{self, Build, BuildShape};
use super::export::{self, ExportOverride, ExportShape, ExportSpec, Source};
use super::exports::Exports;
use super::mcp::{self, McpServer, McpServerShape};
use super::module::{Module, Runtime};
use super::{Scope, free_map};
use crate::JsonObject;
use crate::custom_tool::CustomTool;
use crate::decode::{Field, Fields};
use crate::diagnostic::{Code, Diagnostic};
use crate::entry;
use crate::findings::Findings;
use crate::paths::Unreadable;
use crate::text::reason;

/// Callable exports behind one entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Where the handlers are.
    pub entry: Entry,
    /// Free settings for the handlers.
    pub config: JsonObject,
    /// Error messages are cut to that many characters (default 1000).
    pub error_message_limit: usize,
    /// Output is cut to that many characters (default 100000).
    pub output_limit: usize,
    /// How long a call may take (default 120 s).
    pub timeout: Duration,
    /// Selected and overridden exports. Empty where the entry describes itself and nothing was said (rule L9a):
    /// for a built-in entry it is filled in, for a library it becomes known when the library is opened.
    ///
    /// An export of a library that states only its name has an empty description and `Null` parameters: the library
    /// says the rest.
    pub exports: Exports,
    /// What `spec.exports` states, for laying it over what a library says of itself.
    pub overrides: Vec<ExportOverride>,
    /// Whether the entry runs in a process of its own.
    pub isolation: Isolation,
    /// How the entry is made.
    pub build: Option<Build>,
    /// The variables that its entry looks at without being told.
    pub variables: Vec<String>,
}

/// Where the handlers of a tool run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// In the process of `gdn`.
    #[default]
    None,
    /// In a process of its own, so that a crash does not end `gdn`.
    Process,
}

/// Error messages are cut to that many characters where nothing else is said.
const ERROR_MESSAGE_LIMIT: usize = 1_000;
/// Output is cut to that many characters where nothing else is said.
const OUTPUT_LIMIT: usize = 100_000;
/// How long a call may take where nothing else is said, in milliseconds.
const TIMEOUT_MS: u64 = 120_000;
/// The longest time-out that can be given: a day. Longer is a mistake of units.
pub(super) const MAX_TIMEOUT_MS: u64 = 24 * 60 * 60 * 1_000;

/// Where the handlers of a tool are (rule T2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// A handler set of this program.
    Builtin(String),
    /// A dynamic library, relative to the bundle.
    Library(String),
    /// A folder with a `tool.yaml`, relative to the bundle.
    Executable(String),
    /// A file in JavaScript, TypeScript or Python.
    Module(Box<Module>),
    /// An MCP server, which stands in `spec.mcp`.
    Mcp(Box<McpServer>),
    /// An agent of another program, which stands in `spec.a2a`.
    A2a(Box<A2aAgent>),
}

/// A handler set that describes itself: a built-in, a library or a `tool.yaml`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolManifest {
    /// The resource name, such as `text-transform`.
    pub name: String,
    /// What it can do.
    pub exports: Exports,
    /// Error messages are cut to that many characters, where the set says so.
    pub error_message_limit: Option<usize>,
    /// Output is cut to that many characters, where the set says so.
    #[serde(default)]
    pub output_limit: Option<usize>,
    /// How long a call may take in milliseconds, where the set says so.
    pub timeout_ms: Option<u64>,
    /// The variables that the set looks at without being told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<String>,
}

impl Tool {
    /// A tool of which nothing is said but its entry: all limits are the defaults.
    pub fn new(entry: Entry) -> Tool {
        Tool {
            entry,
            config: JsonObject::new(),
            error_message_limit: ERROR_MESSAGE_LIMIT,
            output_limit: OUTPUT_LIMIT,
            timeout: Duration::from_millis(TIMEOUT_MS),
            exports: Exports::default(),
            overrides: Vec::new(),
            isolation: Isolation::None,
            build: None,
            variables: Vec::new(),
        }
    }

    /// The tool that a built-in handler set is without a resource of the user's own.
    /// How long a call of `export` may take, and the field that says so.
    pub fn timeout_of(&self, export: &str) -> (Duration, &'static str) {
        let own = self
            .overrides
            .iter()
            .find(|stated| stated.name == export)
            .and_then(|stated| stated.timeout);
        own.map_or((self.timeout, "spec.timeoutMs"), |own| {
            (own, "spec.exports[].timeoutMs")
        })
    }

    pub(crate) fn of_base(manifest: &ToolManifest) -> Tool {
        Tool {
            error_message_limit: manifest.error_message_limit.unwrap_or(ERROR_MESSAGE_LIMIT),
            output_limit: manifest.output_limit.unwrap_or(OUTPUT_LIMIT),
            timeout: Duration::from_millis(manifest.timeout_ms.unwrap_or(TIMEOUT_MS)),
            exports: manifest.exports.clone(),
            variables: manifest.variables.clone(),
            ..Tool::new(Entry::Builtin(manifest.name.clone()))
        }
    }
}

pub(crate) fn decode(spec: &Field<'_>, scope: &Scope<'_>, findings: &mut Findings) -> Option<Tool> {
    let mut fields = spec.fields(findings)?;
    let remote_field = match (fields.optional("mcp"), fields.optional("a2a")) {
        (Some(mcp), other) => {
            not_both(other, &mcp, findings);
            Some(mcp)
        }
        (None, a2a) => a2a,
    };
    let entry_field = match &remote_field {
        Some(remote) => not_both(fields.optional("entry"), remote, findings),
        None => fields.required("entry", findings),
    };
    entry_field
        .iter()
        .chain(&remote_field)
        .for_each(|field| findings.note_place(field));
    let build = build::read(
        fields.optional("build").as_ref(),
        entry_field.as_ref(),
        scope,
        findings,
    );
    let mut entry = match &remote_field {
        Some(field) if field.key == "a2a" => {
            a2a::read(field, findings).map(|agent| Entry::A2a(Box::new(agent)))
        }
        Some(field) => mcp::read(field, scope, findings).map(|server| Entry::Mcp(Box::new(server))),
        None => entry_field
            .as_ref()
            .and_then(|field| entry::tool(field, scope.folder, scope.base, findings)),
    };
    let runtime = read_runtime(fields.optional("runtime"), entry.as_mut(), findings);
    let custom = read_custom(entry.as_ref(), entry_field.as_ref(), scope, findings);
    let manifest = builtin_manifest(entry.as_ref(), scope);
    let ask = matches!(entry, Some(Entry::A2a(_))).then(A2aAgent::export);
    let source = match (&entry, manifest, &custom) {
        (Some(Entry::A2a(_)), ..) => Source::Builtin(ask.as_slice()),
        (Some(Entry::Builtin(_)), Some(manifest), _) => Source::Builtin(&manifest.exports),
        (Some(Entry::Executable(_)), _, Some(export)) => Source::Says(std::slice::from_ref(export)),
        (Some(Entry::Library(_) | Entry::Mcp(_)), ..) => Source::SaysLater,
        (Some(Entry::Module(_)), ..) => Source::SaysNothing,
        _ => Source::Unknown,
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
    let config = free_map(fields.optional("config"), findings);
    let isolation = fields.optional("isolation").map(|field| {
        field.one_of(
            &[("process", Isolation::Process), ("none", Isolation::None)],
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
        isolation: isolation.unwrap_or(Some(Isolation::None))?,
        build: build?,
        variables: manifest
            .map(|manifest| manifest.variables.clone())
            .unwrap_or_default(),
    })
}

/// Reads `runtime`, which is laid over what a module says of itself.
fn read_runtime(
    field: Option<Field<'_>>,
    entry: Option<&mut Entry>,
    findings: &mut Findings,
) -> Option<()> {
    match entry {
        // What is wrong with the entry was told.
        None => Some(()),
        Some(Entry::Module(module)) => Runtime::lay_over(field, Some(module), findings),
        Some(_) => Runtime::lay_over(field, None, findings),
    }
}

/// Whether it is known what the tool offers: a module does not say it.
fn is_described(
    entry: Option<&Entry>,
    field: Option<&Field<'_>>,
    has_exports: bool,
    findings: &mut Findings,
) -> bool {
    let (Some(Entry::Module(module)), Some(field), false) = (entry, field, has_exports) else {
        return true;
    };
    let message = format!(
        "A tool with the entry `{}` needs `spec.exports`: a module does not describe itself.",
        module.path
    );
    let example = "add `exports: [{name: …, description: …, parameters: {type: object}}]`, one for each handler";
    findings.add(field.invalid(message).suggest(example));
    false
}

/// A tool has one source. The entry is dropped where there is a server or an agent, so that it is not looked for.
fn not_both<'n>(
    entry: Option<Field<'n>>,
    remote: &Field<'_>,
    findings: &mut Findings,
) -> Option<Field<'n>> {
    if let Some(entry) = entry {
        let message = format!("A tool has `{}` or `{}`, not both.", entry.key, remote.key);
        findings.add(entry.invalid(message).suggest("keep one of the two"));
    }
    None
}

fn builtin_manifest<'s>(entry: Option<&Entry>, scope: &Scope<'s>) -> Option<&'s ToolManifest> {
    match entry {
        Some(Entry::Builtin(name)) => scope.base.tools.iter().find(|tool| tool.name == *name),
        _ => None,
    }
}

/// The only export of an executable entry. What is wrong with its `tool.yaml` is reported there.
fn read_custom(
    entry: Option<&Entry>,
    field: Option<&Field<'_>>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> Option<ExportSpec> {
    let (Some(Entry::Executable(folder)), Some(field)) = (entry, field) else {
        return None;
    };
    let file = entry::below(folder, entry::TOOL_MANIFEST);
    findings.depends_on(file.clone());
    let text = match scope.folder.read(&file) {
        Ok(text) => text,
        Err(unreadable) => {
            let (code, why) = match unreadable {
                Unreadable::TooLarge => {
                    (Code::FILE_TOO_LARGE, "it is larger than 1 MiB".to_owned())
                }
                Unreadable::NotText(_) => (Code::PARSE_ERROR, "it is not UTF-8 text".to_owned()),
                Unreadable::Io(error) => (Code::PARSE_ERROR, reason(&error)),
            };
            findings.add(field.problem(code, format!("`{file}` cannot be read: {why}.")));
            return None;
        }
    };
    match CustomTool::parse(&text, &file) {
        Ok(custom) => {
            check_program(&custom, folder, field, scope, findings).then(|| custom.export())
        }
        Err(problems) => {
            problems
                .into_iter()
                .for_each(|problem| findings.add(problem));
            findings.texts.push((file, text));
            None
        }
    }
}

fn check_program(
    custom: &CustomTool,
    folder: &str,
    field: &Field<'_>,
    scope: &Scope<'_>,
    findings: &mut Findings,
) -> bool {
    let program = entry::below(folder, &custom.entrypoint);
    let escapes = scope.folder.leaves_by_link(&program);
    let problem: Diagnostic = if escapes {
        let message = format!("The program `{program}` is a link that leads out of the bundle.");
        field
            .problem(Code::PATH_ESCAPE, message)
            .suggest("copy the program into the tool's folder")
    } else if scope.folder.is_file(&program) {
        findings.depends_on(program);
        return true;
    } else {
        let message = format!("The tool's program `{program}` is not there.");
        let problem =
            field
                .problem(Code::ENTRY_NOT_FOUND, message)
                .suggest(match findings.is_buildable() {
                    true => "run `gdn build`, or correct `entrypoint` in its `tool.yaml`",
                    false => "build it, or correct `entrypoint` in its `tool.yaml`",
                });
        findings.add_not_built(problem);
        return false;
    };
    findings.add(problem);
    false
}

struct Limits {
    error_message: usize,
    output: usize,
    timeout: Duration,
}

fn read_limits(
    fields: &mut Fields<'_>,
    manifest: Option<&ToolManifest>,
    findings: &mut Findings,
) -> Option<Limits> {
    let error_message = fields
        .optional("errorMessageLimit")
        .map(|field| field.whole_as(1, findings));
    let output = fields
        .optional("outputLimit")
        .map(|field| field.whole_as(1, findings));
    let timeout = fields
        .optional("timeoutMs")
        .map(|field| read_timeout(&field, findings));
    let default_error = manifest
        .and_then(|manifest| manifest.error_message_limit)
        .unwrap_or(ERROR_MESSAGE_LIMIT);
    let default_output = manifest
        .and_then(|manifest| manifest.output_limit)
        .unwrap_or(OUTPUT_LIMIT);
    let default_timeout = manifest
        .and_then(|manifest| manifest.timeout_ms)
        .unwrap_or(TIMEOUT_MS);
    Some(Limits {
        error_message: error_message.unwrap_or(Some(default_error))?,
        output: output.unwrap_or(Some(default_output))?,
        timeout: Duration::from_millis(timeout.unwrap_or(Some(default_timeout))?),
    })
}

pub(super) fn read_timeout(field: &Field<'_>, findings: &mut Findings) -> Option<u64> {
    let timeout = field.whole(1, findings)?;
    if timeout > MAX_TIMEOUT_MS {
        let message = format!("`{}` is {timeout} ms, more than a day.", field.path);
        findings.add(field.invalid(message).suggest("give it in milliseconds"));
        return None;
    }
    Some(timeout)
}

/// Functions that a model may call.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(rename = "Tool")]
#[expect(dead_code, reason = "read by the schema generator alone")]
pub(crate) struct ToolSpec {
    /// Where the handlers are: `builtin:NAME`, the path of a file in JavaScript, TypeScript or Python, the path of a dynamic
    /// library (with or without the platform's prefix and suffix), or the path of a folder with a `tool.yaml`. Every tool
    /// has an `entry`, an `mcp` or an `a2a`.
    #[schemars(length(min = 1))]
    #[schemars(extend("x-goondan-names" = "file"))]
    entry: Option<String>,
    /// What runs an entry in JavaScript, TypeScript or Python. By default the first line of the file decides, then its
    /// package, then what is installed: for JavaScript the first of Node.js, Bun and Deno, for TypeScript the first of
    /// Bun, Node.js and Deno.
    runtime: Option<Runtime>,
    /// An MCP server, in place of `entry`: its tools are the exports.
    mcp: Option<McpServerShape>,
    /// An agent of another program that speaks A2A, in place of `entry`. Its only export is `ask`.
    a2a: Option<A2aAgentShape>,
    /// Settings for the handlers. Each built-in tool documents its own.
    config: Option<JsonObject>,
    /// How many characters an error message may have. The rest is cut off. Built-in tools may have another default.
    #[schemars(range(min = 1), extend("default" = ERROR_MESSAGE_LIMIT))]
    error_message_limit: Option<u64>,
    /// How many characters an output may have. The rest is cut off. Built-in tools may have another default.
    #[schemars(range(min = 1), extend("default" = OUTPUT_LIMIT))]
    output_limit: Option<u64>,
    /// How many milliseconds a call may take. Built-in tools may have another default.
    #[schemars(range(min = 1, max = MAX_TIMEOUT_MS), extend("default" = TIMEOUT_MS))]
    timeout_ms: Option<u64>,
    /// The exports that the tool offers, and what replaces the entry's own description of them. Without it, the tool
    /// offers all exports of the entry.
    #[schemars(length(min = 1))]
    exports: Option<Vec<ExportShape>>,
    /// Where a library runs.
    #[schemars(extend("default" = Isolation::default()))]
    isolation: Option<Isolation>,
    /// How `gdn build`, `gdn run --build` and `gdn run --watch` make the entry: a command, or a map with more settings.
    build: Option<BuildShape>,
}
