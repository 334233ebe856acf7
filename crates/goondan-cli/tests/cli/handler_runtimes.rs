//! Handler files in each installed runtime: misbehaving handlers, titles and logs of results, and
//! missing runtimes.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::projects::manifest;
use crate::sandbox::Sandbox;

const RUNTIMES: [&str; 4] = ["node", "bun", "deno", "python"];

fn fixture(file: &str) -> String {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/hostile-handlers");
    std::fs::read_to_string(folder.join(file)).unwrap()
}

/// Returns the installed runtimes. Prints a message about each missing runtime.
#[allow(clippy::print_stderr, reason = "reports why a runtime is skipped")]
fn runtimes() -> impl Iterator<Item = &'static str> {
    RUNTIMES.into_iter().filter(|runtime| {
        let program = if *runtime == "python" {
            "python3"
        } else {
            runtime
        };
        let is_installed = Command::new(program).arg("--version").output().is_ok();
        if !is_installed {
            eprintln!("skipped: there is no {program}");
        }
        is_installed
    })
}

/// Returns the name of the handler file for the runtime.
fn handler_file(runtime: &str) -> &'static str {
    if runtime == "python" {
        "handlers.py"
    } else {
        "handlers.mjs"
    }
}

#[test]
fn a_misbehaving_handler_fails_only_its_call() {
    for runtime in runtimes() {
        let sandbox = Sandbox::new();
        let bundle =
            fixture("goondan.yaml").replace("runtime: node", &format!("runtime: {runtime}"));
        sandbox.write(
            "p/goondan.yaml",
            &bundle.replace("handlers.mjs", handler_file(runtime)),
        );
        sandbox.write(
            &format!("p/{}", handler_file(runtime)),
            &fixture(handler_file(runtime)),
        );
        let mut cases = String::new();
        for line in fixture("steps.yaml")
            .lines()
            .filter_map(|line| line.strip_prefix("- ["))
        {
            let (tool, line) = line.strip_suffix(']').unwrap().split_once(", ").unwrap();
            let (how, expected) = line.split_once(", ").unwrap();
            write!(
                cases,
                "---\ncase: {how}\nabout: A handler that {how}.\nrules: [T6]\nproject: p\nmodels: {{a: []}}\nsteps:\n  - call: \
                 {{tool: {tool}__act, args: {{how: {how}}}}}\n    expect: {expected}\n  - call: {{tool: t__greet, args: {{}}}}\n    \
                 expect: {{status: ok, output: hello}}\n"
            )
            .unwrap();
        }
        sandbox.write("hostile.case.yaml", &cases);
        let outcome = sandbox.gdn(&["test", "hostile.case.yaml"]);
        let passed = format!(
            "{} passed, 0 failed\n",
            fixture("steps.yaml").matches("\n- [").count()
        );
        assert!(
            outcome.stdout.ends_with(&passed),
            "{runtime}: {}\n{}",
            outcome.stdout,
            outcome.stderr
        );
    }
}

/// Programs run in another directory, so that a path relative to the directory of `gdn` would be
/// wrong.
#[test]
fn custom_tool_programs_receive_absolute_project_paths() {
    let sandbox = Sandbox::new();
    let more = "
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: custom-tools}
spec: {entry: \"builtin:custom-tools\"}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: a}
spec: {modelConfig: {modelRef: Model/m}, permissions: {default: allow}, workdir: project, tools: [{ref: Tool/custom-tools}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/a, agents: [{ref: Agent/a}]}
";
    let model = "apiVersion: goondan.ai/v1\nkind: Model\nmetadata: {name: m}\nspec: {provider: scripted, model: any}\n";
    sandbox.write("p/goondan.yaml", &format!("{model}{}", more.trim_start()));
    let manifest = "name: where\ndescription: Says where it is.\nversion: 1.0.0\nentrypoint: where\nparameters: []\n";
    sandbox.write("p/tools/where/tool.yaml", manifest);
    sandbox.write(
        "p/tools/where/where",
        "#!/bin/sh\nprintf '%s %s' \"$GOONDAN_PROJECT\" \"$GOONDAN_WORKSPACE\"\n",
    );
    let program = sandbox.dir().join("p/tools/where/where");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let arguments = [
        "tool",
        "call",
        "custom-tools__run",
        "-p",
        "p",
        "--args",
        r#"{"tool_name": "where"}"#,
    ];
    let outcome = sandbox.gdn(&arguments);
    let output: Value = serde_json::from_str(outcome.ok()).unwrap();
    let folder = sandbox.dir().join("p").display().to_string();
    assert_eq!(
        output["stdout"],
        format!("{folder} {folder}"),
        "{outcome:?}"
    );
}

const REPORTING_TOOL_JS: &str = "
export const handlers = {
  tell(ctx) {
    ctx.logger.info('a line of the log', { number: 7 });
    ctx.progress({ title: 'half of it', metadata: { done: 0.5 } });
    ctx.progress({ title: 'more of it', metadata: null });
    return ctx.output('told', { title: 'Told all of it', metadata: { count: 3 } });
  },
};
";

const REPORTING_TOOL_PYTHON: &str = "
def tell(ctx, input):
    ctx.logger.info('a line of the log', number=7)
    ctx.progress({'title': 'half of it', 'metadata': {'done': 0.5}})
    ctx.progress({'title': 'more of it', 'metadata': None})
    return ctx.output('told', title='Told all of it', metadata={'count': 3})


handlers = {'tell': tell}
";

const REPORTING_SCRIPT: &str = "\
rules:
  - when: {role: user}
    reply: {calls: [{id: c, tool: t__tell, args: {}}]}
  - when: {role: tool}
    reply: {text: done}
";

/// Creates a project whose tool sends logs, progress, titles and metadata.
fn project_with_reporting_tool(runtime: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any, options: {script: script.yaml}}";
    let project = manifest(model, "permissions: {default: allow}")
        .replace("{ref: Tool/bash}", "{ref: Tool/t}");
    let tool = format!(
        "---\napiVersion: goondan.ai/v1\nkind: Tool\nmetadata: {{name: t}}\nspec:\n  entry: ./{}\n  runtime: {runtime}\n  \
         exports: [{{name: tell, description: Tells., parameters: {{type: object}}}}]\n",
        handler_file(runtime)
    );
    sandbox.write("p/goondan.yaml", &(project + &tool));
    sandbox.write("p/script.yaml", REPORTING_SCRIPT);
    sandbox.write("p/handlers.mjs", REPORTING_TOOL_JS);
    sandbox.write("p/handlers.py", REPORTING_TOOL_PYTHON);
    sandbox
}

#[test]
fn titles_metadata_and_logs_are_equal_in_every_runtime() {
    for runtime in runtimes() {
        let sandbox = project_with_reporting_tool(runtime);
        let run = sandbox.gdn(&[
            "run",
            "p",
            "--input",
            "go",
            "--output-format",
            "stream-json",
        ]);
        let events: Vec<Value> = run
            .stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind: &str| {
            let found = events.iter().find(|event| event["type"] == kind);
            found.unwrap_or_else(|| panic!("{runtime}: no {kind}: {run:#?}"))
        };
        let progress = of("tool.progress");
        assert!(
            progress["title"] == "half of it" && progress["metadata"]["done"] == 0.5,
            "{runtime}: {progress}"
        );
        let completed = of("tool.completed");
        assert!(
            completed["title"] == "Told all of it"
                && completed["metadata"]["count"] == 3
                && completed["output"] == "told",
            "{runtime}: {completed}"
        );
        // The title and the log line are also in the verbose output and in `gdn logs`.
        let shown = sandbox.gdn(&["run", "p", "--input", "go", "-v"]);
        assert!(
            shown.stderr.contains("Told all of it"),
            "{runtime}: {shown:#?}"
        );
        let logged = sandbox.gdn(&["run", "p", "--input", "go", "-vv"]);
        assert!(
            logged.stderr.contains("a line of the log") && logged.stderr.contains("\"number\":7"),
            "{runtime}: {logged:#?}"
        );
        let logs = sandbox.gdn(&["logs", "--project", "p"]);
        assert!(
            logs.stdout.contains("Told all of it"),
            "{runtime}: {logs:#?}"
        );
    }
}

/// Writes a program that creates the file `trace` when it is started.
fn write_tracing_program(folder: &Path, name: &str) {
    let program = folder.join(name);
    std::fs::write(
        &program,
        format!("#!/bin/sh\necho started > '{}/trace'\n", folder.display()),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn validate_reports_missing_runtimes_without_starting_programs() {
    for (runtime, display_name) in RUNTIMES
        .into_iter()
        .zip(["Node.js", "Bun", "Deno", "Python 3"])
    {
        let sandbox = project_with_reporting_tool(runtime);
        let extension = format!(
            "---\napiVersion: goondan.ai/v1\nkind: Extension\nmetadata: {{name: e}}\nspec: {{entry: ./{}, runtime: {runtime}}}\n",
            handler_file(runtime)
        );
        let bundle = std::fs::read_to_string(sandbox.dir().join("p/goondan.yaml")).unwrap();
        sandbox.write(
            "p/goondan.yaml",
            &(bundle.replace(
                "permissions:",
                "extensions: [{ref: Extension/e}]\n  permissions:",
            ) + &extension),
        );
        let bin = sandbox.dir().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let validate = || {
            let mut command = sandbox.command(&["validate", "p"]);
            command.env("PATH", &bin);
            sandbox.run_command(command)
        };
        let missing = validate();
        let output = format!("{missing:?}");
        assert!(
            output
                .matches(&format!("needs {display_name}, which is not installed"))
                .count()
                >= 2,
            "{missing:#?}"
        );
        for name in ["node", "bun", "deno", "python3", "python", "sh"] {
            write_tracing_program(&bin, name);
        }
        validate().ok();
        assert!(
            !bin.join("trace").exists(),
            "`gdn validate` started a program"
        );
    }
}

#[test]
fn a_library_imports_a_python_module_of_the_project_only_by_a_name_in_quotes() {
    if !runtimes().any(|runtime| runtime == "python") {
        return;
    }
    let sandbox = Sandbox::new();
    let model = "{provider: scripted, model: any}";
    let agents = manifest(model, "permissions: {default: allow}");
    let agents = agents.replace("tools: [", "tools: [{ref: Tool/load}, ");
    let tool = "\
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: load}
spec: {entry: ./tools/load.py, exports: [{name: modules, description: Lists modules., parameters: {type: object}}]}
";
    sandbox.write("p/goondan.yaml", &(agents + tool));
    sandbox.write(
        "p/tools/load.py",
        "import logging.config\nimport os\nimport pickle\nimport sys\nimport helper\nimport shared.parts\n\n\
         logging.config.dictConfig({'version': 1, 'handlers': {'h': {'class': 'handler_log.LogHandler'}}})\n\n\n\
         def modules(ctx, arguments):\n    \
         root = os.path.dirname(os.path.dirname(__file__))\n    \
         files = {name: getattr(module, '__file__', None) for name, module in sys.modules.items()}\n    \
         return sorted(name for name, file in files.items() if file and file.startswith(root))\n\n\n\
         handlers = {'modules': modules}\n",
    );
    sandbox.write("p/tools/helper.py", "");
    sandbox.write("p/shared/parts.py", "import org_of_the_project\n");
    sandbox.write("p/org_of_the_project.py", "");
    sandbox.write(
        "p/handler_log.py",
        "import logging\n\n\nclass LogHandler(logging.NullHandler):\n    pass\n",
    );
    // `pickle` imports this module if it exists.
    sandbox.write("p/org/python/core.py", "PyStringMap = None\n");
    let arguments = ["tool", "call", "load__modules", "-p", "p", "--trust"];
    let called = sandbox.gdn(&arguments);
    let loaded: Value = serde_json::from_str(called.ok()).unwrap();
    let expected = [
        "handler_log",
        "helper",
        "org_of_the_project",
        "shared.parts",
        "tools.load",
    ];
    assert_eq!(loaded, json!(expected));
    assert!(called.stderr.contains("module `org`"), "{}", called.stderr);
}
