//! Runs the program of a custom tool.

use std::path::PathBuf;

use goondan_runtime::JsonObject;
use goondan_runtime::ports::tool::{ToolContext, ToolError};
use goondan_runtime::schema::ArgumentSchema;
use goondan_runtime::spec::CustomTool;
use serde_json::{Value, json};
use std::time::Duration;

use super::shelf::Ready;
use crate::confine::Launcher;
use crate::errors;
use crate::process;
use crate::shell;
use crate::text_transform::scalar;

/// How many bytes of standard output and of standard error are kept.
const KEEP: (usize, usize) = (75_000, 15_000);

/// Checks the arguments, runs the program with them as flags, and tells what came of it.
pub(crate) async fn run(
    ctx: &ToolContext,
    tool: &Ready,
    arguments: JsonObject,
    launcher: &Launcher,
    limit: Option<Duration>,
) -> Result<Value, ToolError> {
    let schema = ArgumentSchema::new(tool.manifest.schema());
    let arguments = schema
        .check(&Value::Object(arguments))
        .map_err(|invalid| errors::invalid(invalid.message).suggest(invalid.suggestion))?;
    let environment = shell::environment(&launcher.env, workspace(ctx))?;
    let mut command = process::command(&tool.program.to_string_lossy(), &ctx.workdir, environment);
    command.args(flags(&tool.manifest, &arguments));
    let command = launcher.confine(command, ctx, Some(&tool.program))?;
    let finished = process::run(command, limit, KEEP, &ctx.cancellation).await;
    let finished = finished.map_err(|failure| failure.into_error(&format!("`{}`", tool.manifest.entrypoint)))?;
    let finished = launcher.judge(finished)?;
    Ok(json!({
        "tool": tool.manifest.name,
        "exitCode": process::exit_code(finished.status),
        "stdout": finished.stdout,
        "stderr": finished.stderr,
        "signal": process::signal_name(finished.status),
        "timedOut": finished.timed_out,
        "durationMs": u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
    }))
}

/// What a program can know about where it runs, also under the name that tools of Forge look for.
fn workspace(ctx: &ToolContext) -> JsonObject {
    let path = |path: &PathBuf| json!(path.display().to_string());
    JsonObject::from_iter([
        ("GOONDAN_WORKSPACE".to_owned(), path(&ctx.workdir)),
        ("GOONDAN_PROJECT".to_owned(), path(&ctx.project_dir)),
        ("FORGE_WORKSPACE".to_owned(), path(&ctx.workdir)),
    ])
}

/// Arguments as `--key=value`, in the order in which the tool declares them.
fn flags(tool: &CustomTool, arguments: &JsonObject) -> Vec<String> {
    let flag = |name: &String| Some(format!("--{name}={}", scalar(arguments.get(name)?)?));
    tool.parameters.iter().filter_map(|parameter| flag(&parameter.name)).collect()
}
