//! `custom-tools`: creates, runs and deletes tools that are programs in their own directories.

use goondan_spec::Code;

pub(crate) mod library;
pub(crate) mod program;
mod sdk_location;
mod template;
pub(crate) mod tool_catalog;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::nofollow_fs::{DirectoryEntryKind, DirectoryHandle, remove_tree};
use goondan_core::ports::tool::{HandlerError, ToolContext, ToolOutput, ToolSource, WrittenFile};
use goondan_spec::kinds::{Permission, ProcessLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::library::LoadedLibraries;
use self::template::{ToolTemplate, build_scaffold};
use self::tool_catalog::{FoundCustomTool, TOOL_MANIFEST_FILE, UnusableToolError};
use crate::builtin_tool::BuiltinTool;
use crate::configured_directory::configured_directory;
use crate::errors::{self, lossy_path, run_blocking};
use crate::file_changes::{make_executable, replace};
use crate::paths::FileRoot;
use crate::sandbox::ProgramLauncher;
use crate::shell;
use crate::tool_operation::{ToolExport, ToolOperation, titled_output};

/// Directory of a project that contains its tools.
const PROJECT_TOOLS_DIR: &str = "tools";

/// Directory of the user's own tools.
const USER_TOOLS_DIR: &str = "~/.goondan/tools";

pub(crate) const BUILTIN: BuiltinTool = BuiltinTool {
    name: "custom-tools",
    about: "Creates and runs tools. A tool is a program or a dynamic library: a directory with a \
        `tool.yaml` and an entrypoint, in the project's `tools/` or, for all projects of a user, \
        in `~/.goondan/tools`. Each call rereads these directories, so a new or changed tool is \
        available at once. See [custom tools](custom-tools.md).",
    config: &[
        (
            "dir",
            "the directory to use instead of `~/.goondan/tools`, relative to the project; `~/` is \
            the home directory",
        ),
        (
            "env",
            "a list of additional environment variables for the programs",
        ),
        ("sandbox", "a sandbox for the programs, as for `bash`"),
        (
            "limits",
            "the resources that the programs may use, as for `bash`",
        ),
    ],
    error_message_limit: Some(2000),
    // Longer than the longest `timeout` of a run.
    timeout: Some(Duration::from_secs(3_660)),
    open: |opening| {
        let config: CustomToolsConfig = opening.config()?;
        let shell = shell::ShellSettings {
            env: config.env,
            sandbox: config.sandbox,
            limits: config.limits,
        };
        let settings = Arc::new(CustomToolsState {
            dir: config.dir,
            launcher: ProgramLauncher::new(shell, opening.state.helper.as_ref()),
            libraries: opening.state.libraries.clone(),
            loaded: Arc::clone(&opening.state.loaded),
        });
        Ok(vec![
            ToolExport::new::<CreateCustomTool>("create", &settings)
                .with_permission(Permission::Write)
                .with_permission(Permission::Execute),
            ToolExport::new::<RunCustomTool>("run", &settings).with_permission(Permission::Execute),
            ToolExport::new::<ListCustomTools>("list", &settings)
                .with_permission(Permission::Read)
                .read_only(),
            ToolExport::new::<DeleteCustomTool>("delete", &settings)
                .with_permission(Permission::Write)
                .with_permission(Permission::Execute),
        ])
    },
    ..BuiltinTool::DEFAULT_ROW
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CustomToolsConfig {
    /// Directory to search after the one of the project.
    #[serde(default)]
    dir: Option<String>,
    /// Names of additional environment variables that programs receive.
    #[serde(default)]
    env: Vec<String>,
    /// Sandbox of the programs.
    #[serde(default)]
    sandbox: Option<shell::SandboxChoice>,
    /// Resource limits of the programs.
    #[serde(default)]
    limits: ProcessLimits,
}

/// State that the exports share.
struct CustomToolsState {
    /// Replaces the directory below the home directory.
    dir: Option<String>,
    launcher: ProgramLauncher,
    libraries: Option<Arc<dyn ToolSource>>,
    loaded: Arc<LoadedLibraries>,
}

impl CustomToolsState {
    /// Returns the directories of tools, the project's first. Their paths contain no links.
    fn tool_directories(&self, ctx: &ToolContext) -> Result<Vec<PathBuf>, HandlerError> {
        let project = configured_directory(ctx, PROJECT_TOOLS_DIR)?;
        Ok(project
            .into_iter()
            .chain(self.user_directory(ctx)?)
            .collect())
    }

    /// Returns the directory of the user's own tools, which all projects share; `None` without a
    /// home directory.
    fn user_directory(&self, ctx: &ToolContext) -> Result<Option<PathBuf>, HandlerError> {
        configured_directory(ctx, self.dir.as_deref().unwrap_or(USER_TOOLS_DIR))
    }

    /// Returns the directory of the tools with `scope`. Fails if there is no home directory.
    fn folder_of(
        &self,
        ctx: &ToolContext,
        scope: CustomToolScope,
    ) -> Result<PathBuf, HandlerError> {
        let folder = match scope {
            CustomToolScope::Project => configured_directory(ctx, PROJECT_TOOLS_DIR)?,
            CustomToolScope::User => self.user_directory(ctx)?,
        };
        folder.ok_or_else(|| {
            HandlerError::new("there is no home directory for user tools")
                .code(Code::TOOL_UNAVAILABLE)
                .suggest("create it with scope `project`")
        })
    }

    /// Finds the tool by its name. The name is compared, and never used as a path.
    async fn find(&self, ctx: &ToolContext, name: &str) -> Result<FoundCustomTool, HandlerError> {
        let mut tools = self.scan(ctx).await?;
        if let Some(index) = tools.iter().position(|tool| tool.name == name) {
            return Ok(tools.swap_remove(index));
        }
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        };
        Err(
            HandlerError::new(format!("there is no custom tool `{name}`"))
                .code(Code::TOOL_CUSTOM_TOOL_NOT_FOUND)
                .suggest(format!("custom tools: {names}")),
        )
    }

    /// Returns all custom tools, including unusable tools.
    async fn scan(&self, ctx: &ToolContext) -> Result<Vec<FoundCustomTool>, HandlerError> {
        let folders = self.tool_directories(ctx)?;
        run_blocking(move || Ok(tool_catalog::scan(&folders))).await
    }
}

/// Who finds a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CustomToolScope {
    #[default]
    Project,
    User,
}

/// Create the files of a new custom tool, for steps that recur. Then write its code and parameters,
/// build it if its language needs that, and call it with `custom-tools__run`. It is available at
/// once and persists. Ask the user before you create a tool without a request.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CreateCustomTool {
    /// Name: lower-case letters, digits and hyphens, beginning with a letter.
    #[schemars(length(min = 1, max = 63))]
    name: String,
    /// Purpose, in a sentence.
    #[schemars(length(min = 1))]
    description: String,
    /// Language.
    #[serde(default)]
    template: ToolTemplate,
    /// `project`: in the project's `tools` directory. `user`: in the home directory, for all
    /// projects.
    #[serde(default)]
    scope: CustomToolScope,
}

impl ToolOperation for CreateCustomTool {
    type Shared = CustomToolsState;

    async fn preview(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Result<Option<String>, HandlerError> {
        is_name(&self.name)?;
        let tools_directory = match self.scope {
            CustomToolScope::Project => PROJECT_TOOLS_DIR.to_owned(),
            CustomToolScope::User => settings.folder_of(ctx, self.scope)?.display().to_string(),
        };
        let scaffold = build_scaffold(self.template, &self.name, &self.description);
        let files = scaffold.files.iter().map(|(path, content, _)| {
            let path = format!("{tools_directory}/{}/{path}", self.name);
            crate::file_changes::diff(&path, "", content)
        });
        Ok(Some(files.collect()))
    }

    /// Returns the files except the manifest. A custom tool's manifest is the purpose of the call, and
    /// the scaffold contains no other resource.
    async fn written_files(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Vec<WrittenFile> {
        let (Ok(()), Ok(parent)) = (is_name(&self.name), settings.folder_of(ctx, self.scope))
        else {
            return Vec::new();
        };
        let folder = parent.join(&self.name);
        let scaffold = build_scaffold(self.template, &self.name, &self.description);
        let paths = scaffold.files.iter().map(|(path, ..)| path);
        let paths = paths.filter(|path| *path != TOOL_MANIFEST_FILE);
        paths
            .map(|path| selected_file("name", folder.join(path)))
            .collect()
    }

    async fn run(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Result<ToolOutput, HandlerError> {
        is_name(&self.name)?;
        if settings
            .scan(ctx)
            .await?
            .iter()
            .any(|tool| tool.name == self.name)
        {
            return Err(exists_error(&self.name));
        }
        let parent = settings.folder_of(ctx, self.scope)?;
        let project = ctx.project_dir.clone();
        run_blocking(move || self.create_files(&parent, &project)).await
    }
}

impl CreateCustomTool {
    /// Creates the files in a new directory below `parent`.
    fn create_files(&self, parent: &Path, project: &Path) -> Result<ToolOutput, HandlerError> {
        // A link in the place of the project's directory must not lead out of the project. The user
        // may place the user directory anywhere.
        let (root, above) = match self.scope {
            CustomToolScope::Project => (
                FileRoot::from_directory(project)?,
                format!("{PROJECT_TOOLS_DIR}/"),
            ),
            CustomToolScope::User => {
                let created = std::fs::create_dir_all(parent);
                created.map_err(|error| {
                    errors::io_error(
                        format_args!("create the directory `{}`", parent.display()),
                        &error,
                    )
                })?;
                (FileRoot::from_resolved(parent.to_owned()), String::new())
            }
        };
        let folder = root.resolve(&format!("{above}{}", self.name))?;
        if folder.path.symlink_metadata().is_ok() {
            return Err(exists_error(&self.name));
        }
        let scaffold = build_scaffold(self.template, &self.name, &self.description);
        for (path, content, executable) in &scaffold.files {
            let file = root.resolve(&format!("{above}{}/{path}", self.name))?;
            root.create_parents(&file)?;
            replace(&root, &file, content.as_bytes())?;
            if *executable {
                make_executable(&root, &file)?;
            }
        }
        let files: Vec<&String> = scaffold.files.iter().map(|(path, ..)| path).collect();
        let output = json!({
            "name": self.name, "template": self.template, "scope": self.scope, "folder": lossy_path(&folder.path), "files": files,
            "next": scaffold.next,
        });
        Ok(titled_output(
            format!("Created the tool {}", self.name),
            output,
        ))
    }
}

/// Returns a file that a call writes or removes because of the name in `argument`.
fn selected_file(argument: &str, path: PathBuf) -> WrittenFile {
    WrittenFile {
        argument: Some(argument.to_owned()),
        path,
    }
}

/// Returns all files below `folder`, which must not be a link. Does not follow links.
fn files_below(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![(DirectoryHandle::open(folder, folder)?, folder.to_owned())];
    while let Some((directory, path)) = folders.pop() {
        for (name, metadata) in directory.entries()? {
            let place = path.join(&name);
            if metadata.kind == DirectoryEntryKind::Folder {
                folders.push((directory.open_subdirectory(&name)?, place));
            } else {
                files.push(place);
            }
        }
    }
    Ok(files)
}

/// Returns the error of a tool name that is in use.
fn exists_error(name: &str) -> HandlerError {
    HandlerError::new(format!("`{name}` already exists"))
        .code(Code::TOOL_CUSTOM_TOOL_EXISTS)
        .suggest("use another name, or edit the existing files")
}

/// Checks a new tool's name, which must be a single path component and valid in a tool name.
fn is_name(name: &str) -> Result<(), HandlerError> {
    let plain = name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'));
    if plain {
        return Ok(());
    }
    let message = format!("`{name}` is not a valid tool name");
    Err(errors::invalid_argument(message)
        .suggest("use lower-case letters, digits and hyphens, beginning with a letter"))
}

/// Run a custom tool. Returns its exit code and output; `custom-tools__list` shows the tools and
/// their parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct RunCustomTool {
    /// Tool.
    #[schemars(length(min = 1))]
    tool_name: String,
    /// Arguments that the tool declares.
    #[serde(default)]
    arguments: JsonObject,
    /// Time limit in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 3_600))]
    timeout: u64,
}

impl ToolOperation for RunCustomTool {
    type Shared = CustomToolsState;
    const WATCHES_CANCELLATION: bool = true;

    async fn preview(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Result<Option<String>, HandlerError> {
        let tool = settings.find(ctx, &self.tool_name).await?;
        let arguments = Value::Object(self.arguments);
        Ok(Some(format!(
            "runs the program of {} with {arguments}",
            tool.folder.display()
        )))
    }

    async fn executed_files(self, ctx: &ToolContext, settings: &CustomToolsState) -> Vec<PathBuf> {
        let Ok(FoundCustomTool {
            folder,
            tool: Ok(tool),
            ..
        }) = settings.find(ctx, &self.tool_name).await
        else {
            return Vec::new();
        };
        vec![folder.join(TOOL_MANIFEST_FILE), tool.program]
    }

    async fn run(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Result<ToolOutput, HandlerError> {
        let tool = settings
            .find(ctx, &self.tool_name)
            .await?
            .tool
            .map_err(|reason| {
                HandlerError::new(format!(
                    "the tool `{}` cannot be run: {reason}",
                    self.tool_name
                ))
                .code(Code::TOOL_CUSTOM_TOOL_BROKEN)
            })?;
        let limit = Some(Duration::from_secs(self.timeout));
        if tool.is_library {
            let (source, loaded) = (settings.libraries.as_ref(), &*settings.loaded);
            let (arguments, limit) = (self.arguments, Duration::from_secs(self.timeout));
            return library::run(
                ctx,
                library::LibraryCall {
                    source,
                    loaded,
                    tool: &tool,
                    arguments,
                    limit,
                },
            )
            .await;
        }
        let output = program::run(ctx, &tool, self.arguments, &settings.launcher, limit).await?;
        Ok(titled_output(format!("Ran {}", self.tool_name), output))
    }
}

/// List the custom tools with their parameters, including unusable tools with the reason.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListCustomTools {}

impl ToolOperation for ListCustomTools {
    type Shared = CustomToolsState;

    async fn run(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Result<ToolOutput, HandlerError> {
        let tools: Vec<Value> = settings
            .scan(ctx)
            .await?
            .into_iter()
            .map(tool_json)
            .collect();
        Ok(titled_output(
            format!("{} custom tools", tools.len()),
            json!({"count": tools.len(), "tools": tools}),
        ))
    }
}

/// Returns the JSON of a tool for the model.
fn tool_json(entry: FoundCustomTool) -> Value {
    match entry.tool {
        Ok(tool) => json!({
            "name": entry.name,
            "available": true,
            "description": tool.manifest.description,
            "version": tool.manifest.version,
            "usage": tool.manifest.usage,
            "parameters": tool.manifest.parameters,
            "folder": lossy_path(&entry.folder),
        }),
        Err(reason) => {
            json!({"name": entry.name, "available": false, "reason": reason.to_string(), "folder": lossy_path(&entry.folder)})
        }
    }
}

/// Delete a custom tool with its directory.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DeleteCustomTool {
    /// Tool.
    #[schemars(length(min = 1))]
    tool_name: String,
}

impl ToolOperation for DeleteCustomTool {
    type Shared = CustomToolsState;

    /// Returns the removed files, except the manifest of a custom tool.
    async fn written_files(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Vec<WrittenFile> {
        let Ok(found) = settings.find(ctx, &self.tool_name).await else {
            return Vec::new();
        };
        let folder = found.folder.clone();
        let tool_files = run_blocking(move || Ok(files_below(&folder).unwrap_or_default())).await;
        let manifest = found.folder.join(TOOL_MANIFEST_FILE);
        let is_custom = !matches!(found.tool, Err(UnusableToolError::Manifest(_)));
        let files = tool_files.unwrap_or_default().into_iter();
        files
            .filter(|path| !(is_custom && *path == manifest))
            .map(|path| selected_file("tool_name", path))
            .collect()
    }

    async fn run(
        self,
        ctx: &ToolContext,
        settings: &CustomToolsState,
    ) -> Result<ToolOutput, HandlerError> {
        let custom_tool = settings.find(ctx, &self.tool_name).await?;
        run_blocking(move || {
            remove_tree(&custom_tool.folder, TOOL_MANIFEST_FILE.as_ref()).map_err(|error| {
                errors::io_error(format_args!("delete `{}`", custom_tool.name), &error)
            })?;
            let output =
                json!({"name": custom_tool.name, "folder": lossy_path(&custom_tool.folder), "deleted": true});
            Ok(titled_output(
                format!("Deleted the tool {}", custom_tool.name),
                output,
            ))
        })
        .await
    }
}

fn default_timeout() -> u64 {
    30
}
