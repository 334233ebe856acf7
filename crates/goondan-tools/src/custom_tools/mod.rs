//! `custom-tools`: creates, runs and deletes tools that are programs in their own directories.

use goondan_spec::Code;

pub(crate) mod library;
pub(crate) mod program;
mod sdk;
pub(crate) mod shelf;
mod template;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{ToolContext, ToolError, ToolOutput, ToolSource};
use goondan_spec::kinds::{Permission, ProcessLimits};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::library::Loaded;
use self::shelf::{Found, MANIFEST};
use self::template::{Template, scaffold};
use crate::confine::Launcher;
use crate::define::{Export, Operation, titled};
use crate::errors::{self, blocking};
use crate::paths::Root;
use crate::shell;
use crate::table::Builtin;
use crate::write::{make_executable, replace};

/// Directory of a project that contains its tools.
const FOLDER: &str = "tools";

pub(crate) const BUILTIN: Builtin = Builtin {
    name: "custom-tools",
    about: "Creates and runs tools. A tool is a program, or a dynamic library that is loaded into the running swarm: a folder \
            with a `tool.yaml` and an entrypoint, in the project's `tools/` or, for all projects of a user, in \
            `~/.goondan/tools`. Each call reads the folders again, so a new or changed tool is available at once. See \
            [custom tools](custom-tools.md).",
    config: &[
        (
            "dir",
            "the folder to use instead of `~/.goondan/tools`, relative to the project; `~/` is the home folder",
        ),
        (
            "env",
            "a list of more environment variables that the programs may see",
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
        let config: Config = opening.config()?;
        let shell = shell::Settings {
            env: config.env,
            sandbox: config.sandbox,
            limits: config.limits,
        };
        let settings = Arc::new(Shelf {
            dir: config.dir,
            launcher: Launcher::new(shell, opening.state.helper.as_ref()),
            libraries: opening.state.libraries.clone(),
            loaded: Arc::clone(&opening.state.loaded),
        });
        Ok(vec![
            Export::new::<Create>("create", &settings)
                .needs(Permission::Write)
                .needs(Permission::Execute),
            Export::new::<Run>("run", &settings).needs(Permission::Execute),
            Export::new::<List>("list", &settings)
                .needs(Permission::Read)
                .read_only(),
            Export::new::<Delete>("delete", &settings)
                .needs(Permission::Write)
                .needs(Permission::Execute),
        ])
    },
    ..Builtin::BLANK
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Directory to search after the one of the project.
    #[serde(default)]
    dir: Option<String>,
    /// Names of additional environment variables that programs receive.
    #[serde(default)]
    env: Vec<String>,
    /// Sandbox of the programs.
    #[serde(default)]
    sandbox: Option<shell::Wanted>,
    /// Resource limits of the programs.
    #[serde(default)]
    limits: ProcessLimits,
}

/// State that the exports share.
struct Shelf {
    /// Replaces the directory below the home directory.
    dir: Option<String>,
    launcher: Launcher,
    libraries: Option<Arc<dyn ToolSource>>,
    loaded: Arc<Loaded>,
}

impl Shelf {
    /// Returns the directories of tools, the project's first.
    fn folders(&self, ctx: &ToolContext) -> Vec<PathBuf> {
        [Some(ctx.project_dir.join(FOLDER)), self.users(ctx)]
            .into_iter()
            .flatten()
            .collect()
    }

    /// Returns the directory of the user's own tools, which all projects share; `None` without a
    /// home directory.
    fn users(&self, ctx: &ToolContext) -> Option<PathBuf> {
        let home = || std::env::home_dir().filter(|home| home.is_absolute());
        match self.dir.as_deref() {
            None => home().map(|home| home.join(".goondan").join(FOLDER)),
            Some(dir) => match dir.strip_prefix("~/") {
                Some(below) => home().map(|home| home.join(below)),
                None => Some(ctx.project_dir.join(dir)),
            },
        }
    }

    fn folder_of(&self, ctx: &ToolContext, scope: Scope) -> Result<PathBuf, ToolError> {
        match scope {
            Scope::Project => Ok(ctx.project_dir.join(FOLDER)),
            Scope::User => self.users(ctx).ok_or_else(|| {
                ToolError::new("there is no home folder to keep the tools of a user in")
                    .code(Code::TOOL_UNAVAILABLE)
                    .suggest("make it with scope `project`")
            }),
        }
    }

    /// Finds the tool by its name. The name is compared, and never used as a path.
    async fn find(&self, ctx: &ToolContext, name: &str) -> Result<Found, ToolError> {
        let mut found = self.scan(ctx).await?;
        if let Some(index) = found.iter().position(|found| found.name == name) {
            return Ok(found.swap_remove(index));
        }
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        let names = if names.is_empty() {
            "there is none".to_owned()
        } else {
            names.join(", ")
        };
        Err(ToolError::new(format!("there is no custom tool `{name}`"))
            .code(Code::TOOL_CUSTOM_TOOL_NOT_FOUND)
            .suggest(format!("custom tools: {names}")))
    }

    async fn scan(&self, ctx: &ToolContext) -> Result<Vec<Found>, ToolError> {
        let folders = self.folders(ctx);
        blocking(move || Ok(shelf::scan(&folders))).await
    }
}

/// Who finds a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Scope {
    #[default]
    Project,
    User,
}

/// Make the files of a new custom tool, for steps that come again and again. Then write what it does and which parameters it
/// takes, build it if its language needs that, and call it with `custom-tools__run`; it is there at once and stays. Ask the
/// user before you make a tool that nobody has asked for.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Create {
    /// Its name: lower-case letters, digits and hyphens, beginning with a letter.
    #[schemars(length(min = 1, max = 63))]
    name: String,
    /// What it does, in a sentence.
    #[schemars(length(min = 1))]
    description: String,
    /// The language to write it in.
    #[serde(default)]
    template: Template,
    /// Who finds it: `project` puts it into the project's `tools` folder, `user` into the home folder for all projects.
    #[serde(default)]
    scope: Scope,
}

impl Operation for Create {
    type Shared = Shelf;

    async fn preview(
        self,
        ctx: &ToolContext,
        settings: &Shelf,
    ) -> Result<Option<String>, ToolError> {
        is_name(&self.name)?;
        let shelf = match self.scope {
            Scope::Project => FOLDER.to_owned(),
            Scope::User => settings.folder_of(ctx, self.scope)?.display().to_string(),
        };
        let scaffold = scaffold(self.template, &self.name, &self.description);
        let files = scaffold.files.iter().map(|(path, content, _)| {
            let path = format!("{shelf}/{}/{path}", self.name);
            crate::write::diff(&path, "", content)
        });
        Ok(Some(files.collect()))
    }

    async fn run(self, ctx: &ToolContext, settings: &Shelf) -> Result<ToolOutput, ToolError> {
        is_name(&self.name)?;
        if settings
            .scan(ctx)
            .await?
            .iter()
            .any(|found| found.name == self.name)
        {
            return Err(exists(&self.name));
        }
        let shelf = settings.folder_of(ctx, self.scope)?;
        let project = ctx.project_dir.clone();
        blocking(move || self.make(&shelf, &project)).await
    }
}

impl Create {
    /// Creates the files in the directory `shelf`.
    fn make(&self, shelf: &Path, project: &Path) -> Result<ToolOutput, ToolError> {
        // A link in the place of the project's directory must not lead out of the project. The user
        // may place the user directory anywhere.
        let (root, above) = match self.scope {
            Scope::Project => (Root::at(project)?, format!("{FOLDER}/")),
            Scope::User => {
                let made = std::fs::create_dir_all(shelf);
                made.map_err(|error| {
                    errors::io(
                        format_args!("make the folder `{}`", shelf.display()),
                        &error,
                    )
                })?;
                (Root::at(shelf)?, String::new())
            }
        };
        let folder = root.resolve(&format!("{above}{}", self.name))?;
        if folder.path.symlink_metadata().is_ok() {
            return Err(exists(&self.name));
        }
        let scaffold = scaffold(self.template, &self.name, &self.description);
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
            "name": self.name, "template": self.template, "scope": self.scope, "folder": folder.path, "files": files,
            "next": scaffold.next,
        });
        Ok(titled(format!("Made the tool {}", self.name), output))
    }
}

fn exists(name: &str) -> ToolError {
    ToolError::new(format!("there is something named `{name}` already"))
        .code(Code::TOOL_CUSTOM_TOOL_EXISTS)
        .suggest("take another name, or change the files of the one that exists")
}

/// Checks a new tool's name, which must be a single path component and valid in a tool name.
fn is_name(name: &str) -> Result<(), ToolError> {
    let plain = name.len() <= 63
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| matches!(c, 'a'..='z' | '0'..='9' | '-'));
    if plain {
        return Ok(());
    }
    let message = format!("`{name}` cannot be the name of a tool");
    Err(errors::invalid(message)
        .suggest("use lower-case letters, digits and hyphens, beginning with a letter"))
}

/// Run a custom tool. Its exit code and what it prints come back; `custom-tools__list` names the tools and their
/// parameters.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Run {
    /// The tool.
    #[schemars(length(min = 1))]
    tool_name: String,
    /// Its arguments, as it declares them.
    #[serde(default)]
    arguments: JsonObject,
    /// The time limit in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 3_600))]
    timeout: u64,
}

impl Operation for Run {
    type Shared = Shelf;
    const WATCHES_CANCELLATION: bool = true;

    async fn preview(
        self,
        ctx: &ToolContext,
        settings: &Shelf,
    ) -> Result<Option<String>, ToolError> {
        let found = settings.find(ctx, &self.tool_name).await?;
        let arguments = Value::Object(self.arguments);
        Ok(Some(format!(
            "runs the program of {} with {arguments}",
            found.folder.display()
        )))
    }

    async fn programs(self, ctx: &ToolContext, settings: &Shelf) -> Vec<PathBuf> {
        let Ok(Found {
            folder,
            tool: Ok(tool),
            ..
        }) = settings.find(ctx, &self.tool_name).await
        else {
            return Vec::new();
        };
        vec![folder.join(MANIFEST), tool.program]
    }

    async fn run(self, ctx: &ToolContext, settings: &Shelf) -> Result<ToolOutput, ToolError> {
        let tool = settings
            .find(ctx, &self.tool_name)
            .await?
            .tool
            .map_err(|reason| {
                ToolError::new(format!(
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
                library::Run {
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
        Ok(titled(format!("Ran {}", self.tool_name), output))
    }
}

/// List the custom tools with their parameters, also those that cannot be used, with the reason.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct List {}

impl Operation for List {
    type Shared = Shelf;

    async fn run(self, ctx: &ToolContext, settings: &Shelf) -> Result<ToolOutput, ToolError> {
        let tools: Vec<Value> = settings.scan(ctx).await?.into_iter().map(shown).collect();
        Ok(titled(
            format!("{} custom tools", tools.len()),
            json!({"count": tools.len(), "tools": tools}),
        ))
    }
}

/// Returns a tool for the list.
fn shown(found: Found) -> Value {
    match found.tool {
        Ok(tool) => json!({
            "name": found.name,
            "available": true,
            "description": tool.manifest.description,
            "version": tool.manifest.version,
            "usage": tool.manifest.usage,
            "parameters": tool.manifest.parameters,
            "folder": found.folder,
        }),
        Err(reason) => {
            json!({"name": found.name, "available": false, "reason": reason.to_string(), "folder": found.folder})
        }
    }
}

/// Remove a custom tool with all files of its folder.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Delete {
    /// The tool.
    #[schemars(length(min = 1))]
    tool_name: String,
}

impl Operation for Delete {
    type Shared = Shelf;

    async fn run(self, ctx: &ToolContext, settings: &Shelf) -> Result<ToolOutput, ToolError> {
        let found = settings.find(ctx, &self.tool_name).await?;
        blocking(move || {
            let failed = |error| errors::io(format_args!("delete `{}`", found.name), &error);
            let metadata = found.folder.symlink_metadata().map_err(failed)?;
            if metadata.is_symlink() {
                let message = format!(
                    "`{}` is a link to another folder, which stays: delete it there",
                    found.name
                );
                return Err(ToolError::new(message).code(Code::TOOL_WRONG_FILE_TYPE));
            }
            // Remove the manifest first, so that a partially deleted directory is no longer a tool.
            std::fs::remove_file(found.folder.join(MANIFEST)).map_err(failed)?;
            std::fs::remove_dir_all(&found.folder).map_err(failed)?;
            let output = json!({"name": found.name, "folder": found.folder, "deleted": true});
            Ok(titled(format!("Deleted the tool {}", found.name), output))
        })
        .await
    }
}

fn default_timeout() -> u64 {
    30
}
