//! `gdn new agent`, `model`, `connection` and `mcp`: one resource in a file of the project.

use std::path::{Path, PathBuf};

use clap::Args;
use goondan::internal::{nofollow_fs, render, yaml_scalar as scalar};
use goondan::spec::kinds::SettingRequirement;
use goondan::spec::{Diagnostic, reason};
use serde_json::json;

use crate::commands::init::is_name;
use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, style};
use crate::project_path;

const AGENT_EXAMPLES: &str = "\
Examples:
  gdn new agent reviewer                                    Create agents/reviewer.yaml
  gdn new agent reviewer --model openai/gpt-5               Use a model without a Model resource
  gdn new agent reviewer --prompt \"You review code.\" --tool fs";

const MODEL_EXAMPLES: &str = "\
Examples:
  gdn new model main --provider anthropic --model claude-sonnet-4-5
  gdn new model local --provider ollama --model qwen3";

const CONNECTION_EXAMPLES: &str = "\
Examples:
  gdn new connection desk --connector telegram
  gdn new connection nightly --connector cron --set \"schedule=0 2 * * *\" --set \"text=Report.\"";

const MCP_EXAMPLES: &str = "\
Examples:
  gdn new mcp files -- npx -y @modelcontextprotocol/server-filesystem .
  gdn new mcp tickets --url https://tickets.example.com/mcp";

/// Arguments of `gdn new agent`.
#[derive(Debug, Args)]
#[command(after_help = AGENT_EXAMPLES)]
pub(super) struct NewAgentArgs {
    /// The name of the agent: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// Use this Model, or this model of a provider, such as `openai/gpt-5` [default: the only Model,
    /// or the one named `main`]
    #[arg(short, long, value_name = "MODEL")]
    model: Option<String>,
    /// The system prompt
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "You are a helpful assistant."
    )]
    prompt: String,
    /// A tool that the agent may use; repeat it for several
    #[arg(short, long = "tool", value_name = "NAME")]
    tools: Vec<String>,
}

/// Arguments of `gdn new model`.
#[derive(Debug, Args)]
#[command(after_help = MODEL_EXAMPLES)]
pub(super) struct NewModelArgs {
    /// The name of the Model: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// The provider, such as `anthropic`, `openai` or `ollama`
    #[arg(long, value_name = "NAME")]
    provider: String,
    /// The provider's name for the model
    #[arg(short, long, value_name = "NAME")]
    model: String,
    /// Read the API key from this environment variable [default: the provider's usual variable]
    #[arg(long, value_name = "VARIABLE")]
    key_variable: Option<String>,
}

/// Arguments of `gdn new connection`.
#[derive(Debug, Args)]
#[command(after_help = CONNECTION_EXAMPLES)]
pub(super) struct NewConnectionArgs {
    /// The name of the Connection: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// The Connector, such as `slack`, `telegram` or `cron`
    #[arg(short, long, value_name = "NAME")]
    connector: String,
    /// A setting of the connector; repeat it for several
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

/// Arguments of `gdn new mcp`.
#[derive(Debug, Args)]
#[command(after_help = MCP_EXAMPLES)]
pub(super) struct NewMcpArgs {
    /// The name of the Tool: lower-case letters, digits and hyphens
    #[arg(value_name = "NAME")]
    name: String,
    /// The URL of a server that is reached over HTTP
    #[arg(long, value_name = "URL", conflicts_with = "command")]
    url: Option<String>,
    /// The command that starts the server, with its arguments
    #[arg(value_name = "COMMAND", last = true, required_unless_present = "url")]
    command: Vec<String>,
}

/// Resource to write.
struct NewResource {
    kind: &'static str,
    /// Directory in the project.
    directory: &'static str,
    name: String,
    /// Lines of `spec`.
    spec: String,
    /// Next step, as a sentence.
    next: String,
}

/// Creates an Agent.
pub(super) fn agent(args: &NewAgentArgs, output: &CommandOutput) -> Result<(), CliError> {
    let root = project_root(output)?;
    let model = match &args.model {
        Some(model) => model.clone(),
        None => default_model(&root)?,
    };
    let mut spec = format!(
        "  model: {}\n  prompt:\n    system: {}\n",
        scalar(&model),
        scalar(&args.prompt)
    );
    if !args.tools.is_empty() {
        spec.push_str("  tools:\n");
        for tool in &args.tools {
            spec.push_str(&format!("    - {}\n", scalar(tool)));
        }
    }
    let resource = NewResource {
        kind: "Agent",
        directory: "agents",
        name: args.name.clone(),
        spec,
        next: format!(
            "To run it, add `{}` to `spec.agents` of the Swarm. A project with one agent needs no \
            Swarm.",
            args.name
        ),
    };
    resource.create(&root, output)
}

/// Returns the name of the Model for a new agent. Fails if the choice is not clear.
fn default_model(root: &Path) -> Result<String, CliError> {
    let project = goondan::load(root);
    let names: Vec<String> = project
        .bundle
        .iter()
        .flat_map(|bundle| bundle.models().values())
        .map(|model| model.id.name.clone())
        .collect();
    if let [only] = names.as_slice() {
        return Ok(only.clone());
    }
    let main = names.into_iter().find(|name| name == "main");
    main.ok_or_else(|| {
        CliError::usage("It is not clear which model the agent should use.")
            .suggest("Add `--model NAME`, or `--model PROVIDER/MODEL`.")
    })
}

/// Creates a Model.
pub(super) fn model(args: &NewModelArgs, output: &CommandOutput) -> Result<(), CliError> {
    let root = project_root(output)?;
    let mut spec = format!(
        "  provider: {}\n  model: {}\n",
        scalar(&args.provider),
        scalar(&args.model)
    );
    if let Some(variable) = &args.key_variable {
        spec.push_str(&format!(
            "  apiKey:\n    valueFrom:\n      env: {}\n",
            scalar(variable)
        ));
    }
    let resource = NewResource {
        kind: "Model",
        directory: "models",
        name: args.name.clone(),
        spec,
        next: format!(
            "To test it, run `gdn models {} --test`. To use it, write `model: {}` in an agent.",
            args.name, args.name
        ),
    };
    resource.create(&root, output)
}

/// Creates a Connection, with the variables of the secrets that its connector needs.
pub(super) fn connection(args: &NewConnectionArgs, output: &CommandOutput) -> Result<(), CliError> {
    let root = project_root(output)?;
    let mut spec = format!("  connectorRef: {}\n", scalar(&args.connector));
    if !args.settings.is_empty() {
        spec.push_str("  config:\n");
        for setting in &args.settings {
            let (key, value) = setting.split_once('=').ok_or_else(|| {
                CliError::usage(format!("`{setting}` is not a setting."))
                    .suggest("Write `--set KEY=VALUE`.")
            })?;
            spec.push_str(&format!("    {}: {}\n", scalar(key), scalar(value)));
        }
    }
    let secrets = secrets_of(&args.connector, &args.name);
    if !secrets.is_empty() {
        spec.push_str("  secrets:\n");
        for (key, variable) in &secrets {
            spec.push_str(&format!(
                "    {key}:\n      valueFrom:\n        env: {variable}\n"
            ));
        }
    }
    let variables: Vec<&str> = secrets.iter().map(|(_, name)| name.as_str()).collect();
    let next = if variables.is_empty() {
        "To start it, run `gdn serve`.".to_owned()
    } else {
        format!(
            "Set {} in the environment or in .env, then run `gdn serve`.",
            variables.join(", ")
        )
    };
    let resource = NewResource {
        kind: "Connection",
        directory: "connections",
        name: args.name.clone(),
        spec,
        next,
    };
    resource.create(&root, output)
}

/// Returns the secrets that a built-in connector always needs, with variables for them.
fn secrets_of(connector: &str, connection: &str) -> Vec<(&'static str, String)> {
    let connectors = &goondan::internal::base().connectors;
    let manifest = connectors
        .iter()
        .find(|manifest| manifest.name == connector.trim_start_matches("Connector/"));
    let secrets = manifest.into_iter().flat_map(|manifest| &manifest.secrets);
    secrets
        .filter(|secret| secret.need == SettingRequirement::Always)
        .map(|secret| {
            let own_variable = || format!("{}_{}", upper(connection), upper(secret.name));
            let variable = secret.variable.map_or_else(own_variable, str::to_owned);
            (secret.name, variable)
        })
        .collect()
}

/// Converts `botToken` and `bot-token` to `BOT_TOKEN`.
fn upper(name: &str) -> String {
    name.chars().fold(String::new(), |mut text, letter| {
        if letter.is_ascii_uppercase() {
            text.push('_');
        }
        text.push(match letter {
            '-' => '_',
            letter => letter.to_ascii_uppercase(),
        });
        text
    })
}

/// Creates a Tool with an MCP server.
pub(super) fn mcp(args: &NewMcpArgs, output: &CommandOutput) -> Result<(), CliError> {
    let root = project_root(output)?;
    let mut spec = "  mcp:\n".to_owned();
    match (&args.url, args.command.split_first()) {
        (Some(url), _) => spec.push_str(&format!("    url: {}\n", scalar(url))),
        (None, Some((program, arguments))) => {
            spec.push_str(&format!("    command: {}\n", scalar(program)));
            if !arguments.is_empty() {
                spec.push_str("    args:\n");
                for argument in arguments {
                    spec.push_str(&format!("      - {}\n", scalar(argument)));
                }
            }
        }
        (None, None) => {}
    }
    let resource = NewResource {
        kind: "Tool",
        directory: "tools",
        name: args.name.clone(),
        spec,
        next: format!(
            "To list its tools, run `gdn mcp list --connect`. To use it, add `{}` to an agent's \
            `tools`.",
            args.name
        ),
    };
    resource.create(&root, output)
}

/// Returns the project around the current directory.
fn project_root(output: &CommandOutput) -> Result<PathBuf, CliError> {
    project_path::find_around(output)?.ok_or_else(|| {
        CliError::configuration("There is no goondan.yaml in this directory or in a parent.")
            .suggest("Create a project with `gdn init`.")
    })
}

impl NewResource {
    /// Writes the resource. Removes the file again if it has errors.
    fn create(&self, root: &Path, output: &CommandOutput) -> Result<(), CliError> {
        let NewResource {
            kind, name, spec, ..
        } = self;
        if !is_name(name) {
            return Err(
                CliError::usage(format!("`{name}` is not a valid name.")).suggest(
                    "Use lower-case letters, digits and hyphens, a letter first, at most 63 \
                    characters.",
                ),
            );
        }
        let file = format!("{}/{name}.yaml", self.directory);
        let path = root.join(&file);
        if path.symlink_metadata().is_ok() {
            return Err(
                CliError::configuration(format!("`{}` already exists.", path.display()))
                    .suggest("Choose another name. Existing files are never overwritten."),
            );
        }
        let text = format!(
            "apiVersion: goondan.ai/v1\nkind: {kind}\nmetadata:\n  name: {name}\nspec:\n{spec}"
        );
        nofollow_fs::write_inside(root, &path, text.as_bytes(), true).map_err(|error| {
            CliError::configuration(format!(
                "`{}` can't be written: {}.",
                path.display(),
                reason(&error)
            ))
        })?;
        let project = goondan::load(root);
        let is_about_file = |problem: &&Diagnostic| {
            problem.is_error() && problem.file.as_deref() == Some(file.as_str())
        };
        let errors: Vec<Diagnostic> = project
            .diagnostics
            .iter()
            .filter(is_about_file)
            .cloned()
            .collect();
        if !errors.is_empty() {
            std::fs::remove_file(&path)?;
            output.piece(&render::pretty(
                &errors,
                &project.sources,
                CommandOutput::stdout_has_colour(),
            ))?;
            output.note("Nothing was written.")?;
            return Err(CliError::already_printed(CommandExit::Validation));
        }
        self.report(&file, output)
    }

    /// Prints the path of the new file, and the next step for the user.
    fn report(&self, file: &str, output: &CommandOutput) -> Result<(), CliError> {
        if output.json {
            return output.json_pretty(
                &json!({"kind": self.kind, "name": self.name, "file": file, "next": self.next}),
            );
        }
        let good = style::GOOD;
        output.line(&format!("{good}Created{good:#} {file}."))?;
        output.line(&self.next)
    }
}
