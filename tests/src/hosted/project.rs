//! The project that is reloaded: three tools and two extensions that say which edit they are of.

use std::path::PathBuf;
use std::process::Command;

use anyhow::ensure;

use crate::reloads::project::{Library, name, replace};

/// Calls in a turn.
pub(super) const CALLS: u32 = 3;

const BUNDLE: &str = r#"
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: m}
spec:
  provider: scripted
  model: script
  options:
    rules:
      - when: {role: user}
        reply: {calls: [{id: t, tool: typescript__which, args: {}}, {id: p, tool: python__which, args: {}}, {id: l, tool: library__generation, args: {}}]}
      - when: {role: tool}
        reply: {text: "{{ results.t.output.edit }} {{ results.t.output.typescript }} {{ results.t.output.python }} {{ results.p.output.edit }} {{ results.p.output.typescript }} {{ results.p.output.python }} {{ results.l.output.typescript }} {{ results.l.output.python }} {{ results.l.output.marker }}"}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: typescript}
spec:
  entry: ./tool.ts
  runtime: RUNTIME
  exports: [{name: which, description: Which edit., parameters: {type: object}}]
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: python}
spec:
  entry: ./tool.py
  exports: [{name: which, description: Which edit., parameters: {type: object}}]
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: library}
spec: {entry: ./subject}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: typescript}
spec: {entry: ./extension.ts, runtime: RUNTIME}
---
apiVersion: goondan.ai/v1
kind: Extension
metadata: {name: python}
spec: {entry: ./extension.py}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec:
  modelConfig: {modelRef: Model/m}
  permissions: {default: allow}
  tools: [{ref: Tool/typescript}, {ref: Tool/python}, {ref: Tool/library, exports: [generation]}]
  extensions: [{ref: Extension/typescript}, {ref: Extension/python}]
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: hosted}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}], policy: {maxInstances: 100000}}
"#;

/// The project on disk.
pub(super) struct Project {
    pub(super) folder: PathBuf,
    pub(super) runtime: &'static str,
    library: Library,
}

/// The first that reads TypeScript.
fn runtime() -> anyhow::Result<&'static str> {
    let reads = |program: &str, arguments: &[&str]| {
        Command::new(program)
            .args(arguments)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    match () {
        () if reads("bun", &["--version"]) => Ok("bun"),
        () if reads(
            "node",
            &["-e", "process.exit(process.features.typescript ? 0 : 1)"],
        ) =>
        {
            Ok("node")
        }
        () if reads("deno", &["--version"]) => Ok("deno"),
        () => {
            anyhow::bail!("there is no runtime for TypeScript: install Bun, Node.js 22.18 or Deno")
        }
    }
}

impl Project {
    /// Builds the library and writes edit 0 into `folder`.
    pub(super) fn write(folder: PathBuf) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let runtime = runtime()?;
        std::fs::write(
            folder.join("goondan.yaml"),
            BUNDLE.replace("RUNTIME", runtime),
        )?;
        let mut project = Project {
            folder,
            runtime,
            library: Library::build()?,
        };
        project.turn_into(0)?;
        Ok(project)
    }

    /// Puts an edit of all files in the place of what is there. The library has two versions that take turns.
    pub(super) fn turn_into(&mut self, edit: u32) -> anyhow::Result<()> {
        let files = [
            (
                "tool.ts",
                format!(
                    "export const handlers = {{ which: (): object => ({{ edit: {edit} }}) }};\n"
                ),
            ),
            (
                "tool.py",
                format!("handlers = {{\"which\": lambda ctx, input: {{\"edit\": {edit}}}}}\n"),
            ),
            (
                "extension.ts",
                format!(
                    "export function register(api: any): void {{\n  api.pipeline.register('toolCall', async (ctx: any) => \
                     {{\n    const result = await ctx.next();\n    return {{ ...result, output: {{ ...result.output, \
                     typescript: {edit} }} }};\n  }});\n}}\n"
                ),
            ),
            (
                "extension.py",
                format!(
                    "def register(api):\n    @api.pipeline.register(\"toolCall\")\n    async def mark(ctx):\n        \
                     result = await ctx.next()\n        return {{**result, \"output\": {{**result[\"output\"], \
                     \"python\": {edit}}}}}\n"
                ),
            ),
        ];
        for (file, text) in files {
            replace(&self.folder.join(file), text.as_bytes())?;
        }
        self.library.put(&self.folder, edit % 2)
    }
}

/// Looks whether an answer is what all of an edit from `first` to `last` have said.
pub(super) fn check(answer: &str, first: u32, last: u32) -> anyhow::Result<()> {
    let mut words: Vec<&str> = answer.split(' ').collect();
    let marker = words.pop().unwrap_or_default();
    ensure!(
        [name(0), name(1)].iter().any(|known| known == marker),
        "the library says {marker:?} in {answer:?}"
    );
    ensure!(words.len() == 8, "something is missing in {answer:?}");
    for word in words {
        let edit: u32 = word.parse()?;
        ensure!(
            (first..=last).contains(&edit),
            "{answer:?} in a turn between the edits {first} and {last}"
        );
    }
    Ok(())
}
