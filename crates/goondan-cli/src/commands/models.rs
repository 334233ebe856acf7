//! `gdn models`: lists the models of a project, or tests them with one small request.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use goondan::internal::untrusted_text;
use goondan::ports::model::{ModelError, TokenUsage};
use goondan::spec::kinds::Model;
use goondan::spec::{Bundle, Environment, Resource};
use goondan::{StateRoot, model_obstacle, probe_model, project_variables};
use serde_json::{Value, json};

use crate::exit::{CliError, CommandExit};
use crate::output::{CommandOutput, TextTable, style};
use crate::project;
use crate::project_path::ProjectPathOption;
use crate::trust::TrustSettings;

const EXAMPLES: &str = "\
Examples:
  gdn models                 List the models of the project in this directory
  gdn models --test          Also send one small request to each model
  gdn models claude --test   Test one model";

/// Arguments of `gdn models`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModelsArgs {
    /// Show only these Models [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    project: ProjectPathOption,
    /// Send one small request to each model, which may cost a fraction of a cent
    #[arg(long)]
    test: bool,
    /// Read this env file, which overrides .env.local and .env
    #[arg(long, value_name = "FILE")]
    env_file: Option<PathBuf>,
    /// Trust the project for this run
    #[arg(long)]
    trust: bool,
}

/// A Model with its state.
struct ModelRow {
    model: Arc<Resource<Model>>,
    state: ModelState,
}

/// Result of looking at a Model.
enum ModelState {
    /// The Model has a key and valid settings, and was not called.
    Ready,
    /// The model answered the test request.
    Answered {
        after: Duration,
        usage: Option<TokenUsage>,
    },
    Failed(ModelError),
}

/// Lists the models. Fails if a tested model does not answer.
pub(crate) async fn run(
    args: &ModelsArgs,
    state_root: &StateRoot,
    output: &CommandOutput,
) -> Result<(), CliError> {
    let trust = TrustSettings::new(state_root, args.trust);
    let path = args.project.find(output)?;
    let (root, bundle, _) = if args.test {
        project::load_trusted(&path, &trust, output)?
    } else {
        project::load_valid(&path, output)?
    };
    let models = select_models(&bundle, &args.names)?;
    let is_trusted = args.test || trust.is_given(&root)?;
    let environment = project_variables(&bundle, args.env_file.as_deref(), is_trusted)
        .await
        .map_err(|problem| project::unusable_variables(&problem))?;
    let looks = models
        .into_iter()
        .map(|model| check_model(model, bundle.root(), &environment, args.test));
    let rows = futures::future::join_all(looks).await;
    print_rows(&rows, output)?;
    let is_failed = |row: &ModelRow| matches!(row.state, ModelState::Failed(_));
    if args.test && rows.iter().any(is_failed) {
        Err(CliError::already_printed(CommandExit::Failure))
    } else {
        Ok(())
    }
}

/// Returns the Models with these names, or all.
fn select_models(bundle: &Bundle, names: &[String]) -> Result<Vec<Arc<Resource<Model>>>, CliError> {
    let models = bundle.models();
    let is_model = |name: &str| models.values().any(|model| model.id.name == name);
    if let Some(unknown) = names.iter().find(|name| !is_model(name)) {
        let choices: Vec<&str> = models
            .values()
            .map(|model| model.id.name.as_str())
            .collect();
        let error = CliError::usage(format!("The project has no Model `{unknown}`."));
        return Err(if choices.is_empty() {
            error
        } else {
            error.suggest(format!("Use one of: {}.", choices.join(", ")))
        });
    }
    let is_wanted =
        |model: &&Arc<Resource<Model>>| names.is_empty() || names.contains(&model.id.name);
    Ok(models.values().filter(is_wanted).cloned().collect())
}

/// Checks whether a Model can be called. With `is_test`, also sends it one request.
async fn check_model(
    model: Arc<Resource<Model>>,
    root: &Path,
    environment: &Environment,
    is_test: bool,
) -> ModelRow {
    let begin = Instant::now();
    let state = match (model_obstacle(&model, root, environment), is_test) {
        (Some(error), _) => ModelState::Failed(error),
        (None, false) => ModelState::Ready,
        (None, true) => match probe_model(&model, root, environment).await {
            Ok(usage) => ModelState::Answered {
                after: begin.elapsed(),
                usage,
            },
            Err(error) => ModelState::Failed(error),
        },
    };
    ModelRow { model, state }
}

/// Prints a table of the models, then the errors with their fixes.
fn print_rows(rows: &[ModelRow], output: &CommandOutput) -> Result<(), CliError> {
    if output.json {
        return output.json_pretty(&rows.iter().map(ModelRow::to_json).collect::<Vec<Value>>());
    }
    if rows.is_empty() {
        return output.note("The project has no models. Add a resource with `kind: Model`.");
    }
    let mut table = TextTable::new(&["NAME", "PROVIDER", "MODEL", "STATE"]);
    for row in rows {
        table.row([
            row.model.id.name.clone(),
            row.model.spec.provider.clone(),
            row.model.spec.model.clone(),
            row.state.summary(),
        ]);
    }
    table
        .lines()
        .iter()
        .try_for_each(|line| output.line(line))?;
    let color = style::ERROR;
    for row in rows {
        if let ModelState::Failed(error) = &row.state {
            let text = untrusted_text::line(&error.message);
            output.line(&format!("{color}{}{color:#}: {text}", row.model.id.name))?;
            if let Some(fix) = &error.suggestion {
                output.line(&format!("  {}", untrusted_text::line(fix)))?;
            }
        }
    }
    Ok(())
}

impl ModelState {
    fn summary(&self) -> String {
        match self {
            ModelState::Ready => "not tested".to_owned(),
            ModelState::Answered { after, .. } => {
                format!("answered after {:.1} s", after.as_secs_f64())
            }
            ModelState::Failed(_) => "failed".to_owned(),
        }
    }
}

impl ModelRow {
    /// Returns the row as JSON, with the outcome of the test request.
    fn to_json(&self) -> Value {
        let spec = &self.model.spec;
        let mut row = json!({
            "name": self.model.id.name,
            "provider": spec.provider,
            "model": spec.model,
            "endpoint": spec.endpoint,
        });
        match &self.state {
            ModelState::Ready => row["state"] = json!("untested"),
            ModelState::Answered { after, usage } => {
                row["state"] = json!("answered");
                row["durationMs"] = json!(after.as_millis() as u64);
                row["tokenUsage"] = json!(usage);
            }
            ModelState::Failed(error) => {
                row["state"] = json!("failed");
                row["error"] = json!({
                    "code": error.kind.code().as_str(),
                    "message": error.message,
                    "suggestion": error.suggestion,
                });
            }
        }
        row
    }
}
