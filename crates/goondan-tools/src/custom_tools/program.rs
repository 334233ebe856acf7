//! Runs the program of a custom tool.

use std::path::PathBuf;

use goondan_core::JsonObject;
use goondan_core::ports::tool::{HandlerError, ToolContext};
use goondan_core::schema::ArgumentSchema;
use goondan_spec::CustomTool;
use serde_json::{Value, json};
use std::time::Duration;

use super::tool_catalog::UsableCustomTool;
use crate::command_runner::PreparedCommand;
use crate::errors;
use crate::process;
use crate::sandbox::ProgramLauncher;
use crate::scalar_text::scalar_to_string;
use crate::shell;

/// Number of bytes kept of standard output and of standard error.
const KEPT_OUTPUT_BYTES: (usize, usize) = (75_000, 15_000);

/// Runs the program of a custom tool with the arguments as flags. Fails if the arguments do not
/// match the manifest.
pub(crate) async fn run(
    ctx: &ToolContext,
    tool: &UsableCustomTool,
    arguments: JsonObject,
    launcher: &ProgramLauncher,
    limit: Option<Duration>,
) -> Result<Value, HandlerError> {
    let schema = ArgumentSchema::new(tool.manifest.schema());
    let arguments = schema
        .check(&Value::Object(arguments))
        .map_err(|invalid| errors::invalid_argument(invalid.message).suggest(invalid.suggestion))?;
    let environment = shell::environment(&launcher.env, workspace(ctx))?;
    let mut command = process::command(&tool.program, &ctx.workdir, environment);
    command.args(format_flags(&tool.manifest, &arguments));
    let work = PreparedCommand::Program(Box::new(launcher.confine(
        command,
        ctx,
        Some(&tool.program),
    )?));
    let finished = process::run(work, limit, KEPT_OUTPUT_BYTES, ctx).await;
    let finished = finished
        .map_err(|failure| failure.into_error(&format!("`{}`", tool.manifest.entrypoint)))?;
    let finished = launcher.check_helper_result(finished)?;
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

/// Returns environment variables about the call, also with the names for tools of Forge.
fn workspace(ctx: &ToolContext) -> JsonObject {
    let path = |path: &PathBuf| json!(path.display().to_string());
    // Names and order are those of the YAML.
    let granted: Vec<String> = ctx
        .granted
        .iter()
        .filter_map(|one| Some(json!(one).as_str()?.to_owned()))
        .collect();
    JsonObject::from_iter([
        ("GOONDAN_PERMISSIONS".to_owned(), json!(granted.join(","))),
        ("GOONDAN_WORKSPACE".to_owned(), path(&ctx.workdir)),
        ("GOONDAN_PROJECT".to_owned(), path(&ctx.project_dir)),
        ("FORGE_WORKSPACE".to_owned(), path(&ctx.workdir)),
    ])
}

/// Returns the arguments as `--key=value`, in declaration order.
fn format_flags(tool: &CustomTool, arguments: &JsonObject) -> Vec<String> {
    let flag = |name: &String| {
        Some(format!(
            "--{name}={}",
            scalar_to_string(arguments.get(name)?)?
        ))
    };
    tool.parameters
        .iter()
        .filter_map(|parameter| flag(&parameter.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tool(parameters: &[String]) -> CustomTool {
        let parameters: Vec<Value> = parameters
            .iter()
            .map(|name| json!({"name": name, "type": "string", "required": false}))
            .collect();
        let manifest =
            json!({"name": "t", "description": "d", "entrypoint": "t", "parameters": parameters});
        CustomTool::parse(&manifest.to_string(), "tool.yaml")
            .unwrap_or_else(|problems| panic!("{problems:?}"))
    }

    proptest! {
        /// Each argument becomes one flag, in declaration order, for any value. A program that
        /// splits a flag at the first `=` gets the value.
        #[test]
        fn each_argument_becomes_one_flag(
            names in proptest::collection::btree_set("[a-z][a-z0-9_]{0,8}", 1..6),
            values in proptest::collection::vec("\\PC{0,20}|[ \\n'\";$`=-]{0,10}", 6),
            given in proptest::collection::vec(any::<bool>(), 6),
        ) {
            let names: Vec<String> = names.into_iter().collect();
            let chosen = names.iter().zip(&values).zip(&given).filter(|(_, given)| **given).map(|(pair, _)| pair);
            let expected: Vec<(String, String)> = chosen.map(|(name, value)| (name.clone(), value.clone())).collect();
            let arguments: JsonObject = expected.iter().rev().map(|(name, value)| (name.clone(), json!(value))).collect();
            let flags = format_flags(&tool(&names), &arguments);
            let read = flags.iter().map(|flag| {
                let (name, value) = flag.strip_prefix("--").unwrap().split_once('=').unwrap();
                (name.to_owned(), value.to_owned())
            });
            prop_assert_eq!(read.collect::<Vec<_>>(), expected);
        }

        #[test]
        fn numbers_and_booleans_become_plain_flag_values(number in -1_000_000i64..1_000_000, truth: bool) {
            let arguments = JsonObject::from_iter([("a".to_owned(), json!(number)), ("b".to_owned(), json!(truth))]);
            let flags = format_flags(&tool(&["a".to_owned(), "b".to_owned()]), &arguments);
            prop_assert_eq!(flags, [format!("--a={number}"), format!("--b={truth}")]);
        }
    }
}
