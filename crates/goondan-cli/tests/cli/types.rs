//! The types in `packages/` declare exactly the members of the runtime objects.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::projects::manifest;
use crate::sandbox::Sandbox;

/// Members by interface.
type Shapes = BTreeMap<String, BTreeSet<String>>;

/// Writes the members of the objects that a JavaScript handler file receives.
const JAVASCRIPT: &str = r#"
import fs from 'node:fs';
const names = (thing) => [...new Set([...Object.keys(thing),
  ...(Object.getPrototypeOf(thing) === Object.prototype ? [] : Object.getOwnPropertyNames(Object.getPrototypeOf(thing)))])]
  .filter((name) => name !== 'constructor');
const shapes = {};
export function register(api) {
  Object.assign(shapes, { ExtensionApi: names(api), Pipeline: names(api.pipeline), ExtensionTools: names(api.tools),
    ExtensionState: names(api.state), ExtensionEvents: names(api.events), Logger: names(api.logger) });
  api.pipeline.register('turn', async (ctx) => {
    Object.assign(shapes, { TurnLayerContext: names(ctx), ConversationState: names(ctx.conversationState),
      LayerAgents: names(ctx.agents), InputEvent: names(ctx.inputEvent), Runtime: names(ctx.runtime) });
    const result = await ctx.next();
    shapes.TurnResult = names(result);
    shapes.Message = names(ctx.conversationState.nextMessages[0]);
    fs.writeFileSync(`${api.projectDir}/shapes.json`, JSON.stringify(shapes));
    return result;
  });
  api.pipeline.register('step', async (ctx) => {
    Object.assign(shapes, { StepLayerContext: names(ctx), Turn: names(ctx.turn), CatalogItem: names(ctx.toolCatalog[0]) });
    const result = await ctx.next();
    shapes.StepResult = names(result);
    return result;
  });
  api.pipeline.register('toolCall', async (ctx) => {
    shapes.ToolCallLayerContext = names(ctx);
    const result = await ctx.next();
    shapes.ToolCallResult = names(result);
    return result;
  });
  api.tools.register({ name: 'shapes__look' }, (ctx) => {
    shapes.ToolContext = names(ctx);
    shapes.AgentRuntime = names(ctx.runtime);
    return ctx.output('seen', { title: 'seen' });
  });
}
"#;

/// Writes the members of the objects that a Python handler file receives.
const PYTHON: &str = r#"
import json

shapes = {}


def names(thing):
    return [name for name in dir(thing) if not name.startswith("_")]


def register(api):
    shapes.update(ExtensionApi=names(api), Pipeline=names(api.pipeline), ExtensionTools=names(api.tools),
                  ExtensionState=names(api.state), ExtensionEvents=names(api.events))

    @api.pipeline.register("turn")
    async def turn(ctx):
        shapes.update(TurnLayerContext=names(ctx), ConversationState=names(ctx.conversation_state),
                      Agents=names(ctx.agents), Logger=names(ctx.logger))
        result = await ctx.next()
        with open(api.project_dir + "/shapes.json", "w") as file:
            json.dump(shapes, file)
        return result

    @api.pipeline.register("step")
    async def step(ctx):
        shapes.update(StepLayerContext=names(ctx))
        return await ctx.next()

    @api.pipeline.register("toolCall")
    async def call(ctx):
        # It is there to say that it may not be used here.
        shapes.update(ToolCallLayerContext=[name for name in names(ctx) if name != "emit_message_event"])
        return await ctx.next()

    def look(ctx, input):
        seen = ctx.output("seen", title="seen")
        shapes.update(ToolContext=names(ctx), ToolRuntime=names(ctx.runtime), Output=names(seen))
        return seen

    api.tools.register({"name": "shapes__look"}, look)
"#;

/// Types of JSON data, whose fields may be missing.
const DATA: [&str; 8] = [
    "InputEvent",
    "Runtime",
    "Turn",
    "CatalogItem",
    "TurnResult",
    "StepResult",
    "ToolCallResult",
    "Message",
];

/// Runs an extension that writes the members of its objects. Returns these members.
fn runtime_shapes(file: &str, text: &str) -> Shapes {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let bundle = manifest(
        model,
        "extensions: [{ref: Extension/shapes}]\n  permissions: {default: allow}",
    );
    let extension = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {{name: shapes}}\nspec: {{entry: ./{file}}}\n"
    );
    sandbox.write("p/goondan.yaml", &format!("{bundle}{extension}"));
    let script = "rules:\n  - when: {role: user}\n    reply: {calls: [{id: c, tool: shapes__look, args: {}}]}\n\
                  default: {text: '{{ results.c.output }}'}\n";
    sandbox.write("p/script.yaml", script);
    sandbox.write(&format!("p/{file}"), text);
    assert_eq!(
        sandbox.gdn(&["run", "p", "--input", "hello"]).ok(),
        "seen\n"
    );
    let shapes = std::fs::read_to_string(sandbox.dir().join("p/shapes.json")).unwrap();
    serde_json::from_str(&shapes).unwrap()
}

/// Name and base of an interface.
type Head<'l> = (&'l str, Option<&'l str>);

/// Returns the interfaces of a file. `head` parses the first line of an interface, `member` a line
/// of a member.
fn declared(
    text: &str,
    head: fn(&str) -> Option<Head<'_>>,
    member: fn(&str) -> Option<&str>,
) -> Shapes {
    let mut shapes = Shapes::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        if let Some((name, base)) = head(line) {
            let inherited = base
                .and_then(|base| shapes.get(base).cloned())
                .unwrap_or_default();
            shapes.insert(name.to_owned(), inherited);
            current = Some(name.to_owned());
        } else if let (Some(current), Some(name)) = (&current, member(line)) {
            shapes.get_mut(current).unwrap().insert(name.to_owned());
        } else if !line.is_empty() && !line.starts_with([' ', '#', '}']) {
            current = None;
        }
    }
    shapes
}

fn word(text: &str) -> &str {
    text.split(|character: char| !character.is_alphanumeric() && character != '_')
        .next()
        .unwrap()
}

fn in_typescript(text: &str) -> Shapes {
    fn head(line: &str) -> Option<Head<'_>> {
        let rest = line.strip_prefix("export interface ")?;
        Some((
            word(rest),
            rest.split_once(" extends ").map(|(_, base)| word(base)),
        ))
    }
    fn member(line: &str) -> Option<&str> {
        let rest = line.strip_prefix("  ")?.trim_start_matches("readonly ");
        let name = word(rest);
        (!name.is_empty() && rest[name.len()..].starts_with([':', '?', '(', '<'])).then_some(name)
    }
    declared(text, head, member)
}

fn in_python(text: &str) -> Shapes {
    fn head(line: &str) -> Option<Head<'_>> {
        let rest = line.strip_prefix("class ")?;
        Some((word(rest), rest.split_once('(').map(|(_, base)| word(base))))
    }
    fn member(line: &str) -> Option<&str> {
        let rest = line.strip_prefix("    ")?;
        let function = rest.strip_prefix("def ");
        let name = word(function.unwrap_or(rest));
        let is_member =
            !name.is_empty() && (function.is_some() || rest[name.len()..].starts_with(": "));
        is_member.then_some(name)
    }
    declared(text, head, member)
}

fn compare(runtime_shapes: &Shapes, declared: &Shapes) {
    assert!(runtime_shapes.len() > 10, "{runtime_shapes:?}");
    for (name, members) in runtime_shapes {
        let known = declared
            .get(name)
            .unwrap_or_else(|| panic!("`{name}` is not declared"));
        let undeclared: Vec<&String> = members.difference(known).collect();
        assert!(
            undeclared.is_empty(),
            "the types lack {undeclared:?} of `{name}`"
        );
        let unused: Vec<&String> = known.difference(members).collect();
        assert!(
            DATA.contains(&name.as_str()) || unused.is_empty(),
            "the runtime has no {unused:?} in `{name}`"
        );
    }
}

fn package(path: &str) -> String {
    std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../packages")
            .join(path),
    )
    .unwrap()
}

/// Returns true if `program --version` can be run. Otherwise prints why the test is skipped.
#[allow(clippy::print_stderr, reason = "reports why a test is skipped")]
pub(crate) fn is_installed(program: &str) -> bool {
    let is_installed = Command::new(program).arg("--version").output().is_ok();
    if !is_installed {
        eprintln!("skipped: there is no {program}");
    }
    is_installed
}

#[test]
fn typescript_types_match_the_javascript_runtime_objects() {
    if is_installed("node") {
        compare(
            &runtime_shapes("shapes.mjs", JAVASCRIPT),
            &in_typescript(&package("types/index.d.ts")),
        );
    }
}

#[test]
fn python_types_match_the_python_runtime_objects() {
    if is_installed("python3") {
        compare(
            &runtime_shapes("shapes.py", PYTHON),
            &in_python(&package("python/goondan_types/__init__.py")),
        );
    }
}

/// Checks the comparison itself, which would otherwise hide differences.
#[test]
fn the_type_comparison_detects_differences() {
    let declared = in_typescript(&package("types/index.d.ts"));
    let mut runtime_shapes: Shapes = declared.clone();
    runtime_shapes
        .get_mut("Logger")
        .unwrap()
        .insert("shout".to_owned());
    assert!(std::panic::catch_unwind(|| compare(&runtime_shapes, &declared)).is_err());
    let declared = in_python(&package("python/goondan_types/__init__.py"));
    let mut runtime_shapes = declared.clone();
    runtime_shapes
        .get_mut("TurnLayerContext")
        .unwrap()
        .remove("emit_message_event");
    assert!(std::panic::catch_unwind(|| compare(&runtime_shapes, &declared)).is_err());
}
