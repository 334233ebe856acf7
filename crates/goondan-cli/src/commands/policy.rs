//! `gdn policy`: what the rules of a project say about a call, and why; and what people have allowed.

mod approvals;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use goondan::StateRoot;
use goondan::inside::ArgumentSchema;
use goondan::inside::shown;
use goondan::policy::What;
use goondan::policy::{self, AskedAbout, Because, Decision, Ground, PartDecision, Places, PolicyQuestion};
use goondan::policy::{Containment, Direct, RunMode};
use goondan::spec::kinds::{Action, Agent, Entry, ExportSpec, Workdir, Written};
use goondan::spec::{Bundle, Resource};
use serde_json::{Map, Value, json};

use self::approvals::ApprovalsArgs;
use crate::complete;
use crate::exit::CliError;
use crate::output::Output;
use crate::place::ProjectOption;
use crate::project;

const EXAMPLES: &str = "\
Examples:
  gdn policy explain --agent assistant --tool bash__exec --args '{\"command\": \"git log; rm x\"}'
  gdn policy explain --agent worker --tool fs__write --caller lead   As a callee of `lead`";

/// Arguments of `gdn policy`.
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Explain what happens to a tool call, and which rule decides
    Explain(ExplainArgs),
    /// List the approvals that are remembered, or take them back
    Approvals(ApprovalsArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
struct ExplainArgs {
    /// The agent that makes the call
    #[arg(short, long, value_name = "NAME", add = complete::agents())]
    agent: String,
    /// The tool, written `resource__export`
    #[arg(short, long, value_name = "NAME", add = complete::exports())]
    tool: String,
    /// The arguments of the call
    #[arg(long, value_name = "JSON", default_value = "{}")]
    args: String,
    /// An agent that called the agent, directly or through others; may be repeated
    #[arg(short, long, value_name = "NAME")]
    caller: Vec<String>,
    /// Follow paths from this folder, as a run would [default: the agent's `workdir`, where that is in the project]
    #[arg(short, long, value_name = "PATH")]
    workdir: Option<PathBuf>,
    #[command(flatten)]
    project: ProjectOption,
}

/// Explains, or looks at approvals.
pub(crate) async fn run(args: &PolicyArgs, state_root: &StateRoot, output: &Output) -> Result<(), CliError> {
    match &args.command {
        PolicyCommand::Explain(args) => explain(args, output),
        PolicyCommand::Approvals(args) => approvals::run(args, state_root, output).await,
    }
}

fn explain(args: &ExplainArgs, output: &Output) -> Result<(), CliError> {
    let bundle = project::load_valid(&args.project.find(output)?, output)?.1;
    let arguments = arguments(&args.args)?;
    let agent = find_agent(&bundle, &args.agent)?;
    let (export, is_builtin) = find_export(&bundle, agent, &args.tool)?;
    let (arguments, refusal) =
        match ArgumentSchema::new(export.parameters.clone()).check(&Value::Object(arguments.clone())) {
            Ok(whole) => (whole, None),
            Err(invalid) => (arguments, Some(invalid.message)),
        };
    let marked = export.marked_arguments();
    let folder = args.workdir.clone().or_else(|| known_folder(&bundle, agent));
    let places = match &folder {
        Some(folder) => {
            let workdir = &std::path::absolute(folder)?;
            let ground = Ground { bundle: &bundle, workdir, own_folder: Path::new(OF_NOBODY), is_builtin };
            Places::of(&ground, &marked, &arguments)
        }
        None => Places::by_text(&marked, &arguments),
    };
    let paths = places.arguments();
    let question = PolicyQuestion {
        tool_name: &args.tool,
        needs: &export.permissions,
        arguments: &arguments,
        marked: &marked,
        paths,
    };
    let mut chain = vec![agent];
    for caller in &args.caller {
        chain.push(find_agent(&bundle, caller)?);
    }
    let says = |agent| Verdict::of(agent, question, &places);
    let verdicts: Vec<Verdict<'_>> = chain.iter().copied().map(says).collect();
    let action = verdicts.iter().fold(Action::Allow, |action, one| policy::stricter(action, one.action()));
    let notes = notes(refusal, folder.is_none() && !paths.is_empty());
    let callers = match args.caller.as_slice() {
        [] => goondan::chain::callers(&bundle, &agent.id),
        _ => Vec::new(),
    };
    let callers: Vec<Verdict<'_>> = callers.iter().copied().map(says).collect();
    let has_line = marked.commands.iter().any(|name| arguments.contains_key(name));
    let mode = mode(has_line, action, &verdicts);
    if output.json {
        let mut value = as_json(&args.tool, action, &verdicts, &notes);
        let by = |one: &Verdict<'_>| {
            let action = policy::stricter(action, one.action());
            json!({"agent": one.agent, "action": word(action), "because": one.because_json()})
        };
        value["callers"] = callers.iter().map(by).collect();
        if let Some(mode) = &mode {
            value["mode"] = mode_json(mode);
        }
        return output.json_pretty(&value);
    }
    let mut text = as_text(&args.tool, action, &verdicts);
    text.push_str(&for_callers(action, &callers));
    if let Some(mode) = &mode {
        text.push_str(&format!("\nMode: {}\n", mode_text(mode, action, &verdicts)));
    }
    notes.iter().for_each(|note| text.push_str(&format!("\nNote: {}\n", shown::line(note))));
    output.line(text.trim_end())
}

/// The folder that a conversation has for itself, where no conversation is asked about.
const OF_NOBODY: &str = "/.gdn/workspace/conversations/nobody";

/// What the policy of one agent says.
struct Verdict<'a> {
    agent: &'a str,
    decision: Decision,
    /// Why it is asked about although the rules allow it.
    asked: Option<AskedAbout>,
}

impl<'a> Verdict<'a> {
    fn of(agent: &'a Resource<Agent>, question: PolicyQuestion<'_>, places: &Places) -> Self {
        let permissions = agent.spec.permissions.as_ref();
        let decision = policy::decide(permissions, question);
        let asked = places.asked_about(permissions, question, &decision);
        Verdict { agent: &agent.id.name, decision, asked }
    }

    fn action(&self) -> Action {
        if self.asked.is_some() { Action::Ask } else { self.decision.action }
    }

    fn reason(&self) -> String {
        self.asked.as_ref().map_or_else(|| reason(&self.decision.because), |asked| asked.why.clone())
    }

    fn because_json(&self) -> Value {
        match &self.asked {
            Some(asked) => json!({"kind": "protected", "text": asked.why, "allowedBy": asked.rule}),
            None => because_json(&self.decision.because),
        }
    }

    /// How a command line runs. What is asked about runs as somebody answers.
    fn run_mode(&self) -> RunMode {
        if self.asked.is_some() { RunMode::Shell } else { self.decision.run_mode() }
    }
}

/// Where the agent works, if that is the same for all of its conversations.
fn known_folder(bundle: &Bundle, agent: &Resource<Agent>) -> Option<PathBuf> {
    match &agent.spec.workdir {
        Workdir::Instance => None,
        Workdir::Project => Some(bundle.root().to_owned()),
        Workdir::Path(path) => Some(bundle.root().join(path)),
        Workdir::Repository(folder) => Some(folder.clone()),
    }
}

/// What else there is to know.
fn notes(refusal: Option<String>, by_text: bool) -> Vec<String> {
    let refused =
        refusal.map(|message| format!("A call with these arguments is refused before any rule is asked: {message}"));
    let by_text = by_text.then(|| {
        "Paths are compared by their text here: each conversation of this agent has a folder of its own. A run follows \
         links, so where a part of the path is a link it may decide differently; `--workdir FOLDER` does the same."
            .to_owned()
    });
    refused.into_iter().chain(by_text).collect()
}

fn arguments(text: &str) -> Result<Map<String, Value>, CliError> {
    serde_json::from_str(text).map_err(|error| {
        CliError::usage(format!("`--args` is not a JSON object: {error}."))
            .suggest(r#"Quote the object for the shell: --args '{"command": "ls"}'"#)
    })
}

fn find_agent<'b>(bundle: &'b Bundle, name: &str) -> Result<&'b Resource<Agent>, CliError> {
    let agent = bundle.agents().values().find(|agent| agent.id.name == name);
    agent.map(AsRef::as_ref).ok_or_else(|| {
        let known: Vec<&str> = bundle.agents().keys().map(|id| id.name.as_str()).collect();
        CliError::usage(format!("The project has no agent `{name}`."))
            .suggest(format!("Its agents are: {}.", known.join(", ")))
    })
}

/// The export, and whether its tool is built in.
fn find_export<'b>(
    bundle: &'b Bundle,
    agent: &Resource<Agent>,
    tool: &str,
) -> Result<(&'b ExportSpec, bool), CliError> {
    let mut known = Vec::new();
    for used in &agent.spec.tools {
        let resource = &bundle.tools()[&used.tool];
        let is_chosen = |export: &&ExportSpec| used.exports.as_ref().is_none_or(|names| names.contains(&export.name));
        for export in resource.spec.exports.iter().filter(is_chosen) {
            let name = format!("{}__{}", used.tool.name, export.name);
            if name == tool {
                return Ok((export, matches!(resource.spec.entry, Entry::Builtin(_))));
            }
            known.push(name);
        }
    }
    let error = CliError::usage(format!("The agent `{}` has no tool `{tool}` that the YAML describes.", agent.id.name));
    Err(error.suggest(match known.is_empty() {
        true => NONE_KNOWN.to_owned(),
        false => format!("Known before the swarm starts: {}. {LATER}", known.join(", ")),
    }))
}

const LATER: &str = "A library tells its exports later; name them in `spec.exports` of the Tool.";
const NONE_KNOWN: &str = "It has none in `spec.tools` whose exports are known before the swarm starts. A library tells its \
                          exports later; name them in `spec.exports` of the Tool.";

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

fn as_text(tool: &str, action: Action, verdicts: &[Verdict<'_>]) -> String {
    let mut text = format!("{}: {}\n", shown::line(tool), word(action));
    for (index, verdict) in verdicts.iter().enumerate() {
        let role = if index == 0 { "Agent" } else { "called by Agent" };
        let decision = &verdict.decision;
        text.push_str(&format!("\n{role}/{}: {}\n", shown::line(verdict.agent), word(verdict.action())));
        if decision.parts.is_empty() {
            let so = if verdict.asked.is_some() { ": allow" } else { "" };
            text.push_str(&format!("  {}{so}\n", shown::line(reason(&decision.because))));
        }
        let width = decision.parts.iter().map(|part| part.part.shown.chars().count()).max().unwrap_or(0).min(48);
        for part in &decision.parts {
            let part_shown = shown::line(part.part.shown.replace('\n', "⏎")).to_string();
            let reason = shown::line(part_reason(part));
            text.push_str(&format!("  {part_shown:width$}  {:5}  {reason}\n", word(part.action)));
        }
        if let Some(asked) = &verdict.asked {
            text.push_str(&format!("  {}\n", shown::line(format!("{}, so somebody is asked", asked.why))));
            let rule = asked.rule.iter();
            rule.for_each(|rule| text.push_str(&format!("  This rule would allow it: {}\n", shown::line(rule))));
        }
    }
    text
}

/// What the call comes to where another agent has it made. A chain of several is bounded by each of them.
fn for_callers(action: Action, callers: &[Verdict<'_>]) -> String {
    let mut text = if callers.is_empty() { String::new() } else { "\nMade for another agent, it is\n".to_owned() };
    let name = |caller: &str| shown::line(format!("Agent/{caller}")).to_string();
    let width = callers.iter().map(|one| name(one.agent).chars().count()).max().unwrap_or(0);
    for one in callers {
        let both = word(policy::stricter(action, one.action()));
        let why = match one.action() {
            Action::Allow => String::new(),
            Action::Ask | Action::Deny => format!("  {}", shown::line(one.reason())),
        };
        text.push_str(format!("  {:width$}  {both:5}{why}", name(one.agent)).trim_end());
        text.push('\n');
    }
    text
}

fn part_reason(part: &PartDecision) -> String {
    match &part.part.what {
        What::Hidden { why } => format!("{why}; {}", reason(&part.because)),
        What::Read { inside: false } | What::Write { inside: false } => {
            format!("a file outside of the working folder, or a protected one; {}", reason(&part.because))
        }
        What::Read { .. } | What::Write { .. } | What::Command | What::Variable | What::Program | What::Path => {
            reason(&part.because)
        }
    }
}

/// How a command line runs, if it does; nothing where the call has none.
fn mode(has_line: bool, action: Action, verdicts: &[Verdict<'_>]) -> Option<RunMode> {
    let all = verdicts.iter().map(Verdict::run_mode);
    (has_line && action != Action::Deny).then(|| all.fold(RunMode::Shell, RunMode::and))
}

/// The mode in words.
fn mode_text(mode: &RunMode, action: Action, verdicts: &[Verdict<'_>]) -> String {
    let RunMode::Direct(Direct { commands, .. }) = mode else {
        return match action {
            Action::Allow => "shell. /bin/sh runs the line: the policy allows it whatever it does.".to_owned(),
            Action::Ask | Action::Deny => "shell. /bin/sh runs the line if somebody approves it.".to_owned(),
        };
    };
    let mut text = "direct. gdn starts the commands itself, without a shell.".to_owned();
    if !goondan::has_sandbox() {
        text.push_str("\n  This system has no sandbox, so nothing restricts them.");
        return text;
    }
    for (number, containments) in commands.iter().enumerate() {
        let shown = verdicts.iter().flat_map(|one| &one.decision.parts);
        let shown = shown.filter(|part| part.part.command == Some(number)).map(|part| part.part.shown.as_str());
        let name = shown.take(1).collect::<String>();
        for containment in containments {
            let name = shown::line(&name);
            text.push_str(&format!("\n  {name}: in a sandbox; {}", sandbox_text(containment)));
        }
        if containments.is_empty() {
            text.push_str(&format!("\n  {}: without a sandbox of its own", shown::line(&name)));
        }
    }
    text
}

fn sandbox_text(containment: &Containment) -> String {
    let sandbox = &containment.sandbox;
    let writes = if containment.writes { "it writes in the working folder" } else { "it writes nothing" };
    let network = if sandbox.network { "uses the network" } else { "has no network" };
    let starts = match sandbox.programs.as_deref().unwrap_or_default() {
        [] => "starts no other program unless it is made for that, as `make` is".to_owned(),
        programs if programs.iter().any(|one| one == "*") => "starts any program".to_owned(),
        programs => format!("starts {}", programs.join(", ")),
    };
    let more = [("reads", &sandbox.read), ("writes", &sandbox.write)].map(|(what, folders)| match folders.as_slice() {
        [] => String::new(),
        folders => format!(", {what} {}", folders.join(", ")),
    });
    format!("{writes}, {network}, {starts}{}", more.concat())
}

fn mode_json(mode: &RunMode) -> Value {
    let RunMode::Direct(Direct { commands, .. }) = mode else { return json!({"kind": "shell"}) };
    let sandbox = |one: &Containment| {
        let mut value = json!(one.sandbox);
        value["writesWorkdir"] = json!(one.writes);
        value
    };
    let commands = commands.iter().map(|all| all.iter().map(sandbox).collect::<Vec<_>>());
    json!({"kind": "direct", "sandboxes": commands.collect::<Vec<_>>()})
}

fn reason(because: &Because) -> String {
    match because {
        Because::Unstated => {
            "the agent states no permissions: it asks before it executes or uses the network".to_owned()
        }
        Because::Default => "no rule matches; `default` decides".to_owned(),
        Because::Rule { number: None, .. } => {
            "without a `default`, the agent asks before it executes or uses the network".to_owned()
        }
        Because::Rule { written, .. } => format!("the rule at {}", place(written)),
        Because::Doubt { written } => format!("the rule at {} may match, and gdn cannot tell", place(written)),
    }
}

fn place(written: &Written) -> String {
    let place = written.0.as_ref().map(|(file, at)| format!("{file}:{}", at.line));
    place.unwrap_or_else(|| "no file".to_owned())
}

fn as_json(tool: &str, action: Action, verdicts: &[Verdict<'_>], notes: &[String]) -> Value {
    let verdicts = verdicts.iter().map(|one| {
        let parts = one.decision.parts.iter().map(part_json);
        json!({
            "agent": one.agent,
            "action": word(one.action()),
            "because": one.because_json(),
            "parts": parts.collect::<Vec<_>>(),
        })
    });
    json!({"tool": tool, "action": word(action), "agents": verdicts.collect::<Vec<_>>(), "notes": notes})
}

fn part_json(part: &PartDecision) -> Value {
    let (kind, why) = match &part.part.what {
        What::Command => ("command", None),
        What::Variable => ("variable", None),
        What::Program => ("program", None),
        What::Path => ("path", None),
        What::Read { .. } => ("read", None),
        What::Write { .. } => ("write", None),
        What::Hidden { why } => ("hidden", Some(why)),
    };
    let mut value = json!({
        "text": part.part.shown,
        "kind": kind,
        "action": word(part.action),
        "because": because_json(&part.because),
    });
    if let Some(why) = why {
        value["why"] = json!(why);
    }
    value
}

fn because_json(because: &Because) -> Value {
    let (kind, written) = match because {
        Because::Unstated => ("unstated", None),
        Because::Default => ("default", None),
        Because::Rule { number: None, .. } => ("builtin", None),
        Because::Rule { written, .. } => ("rule", Some(written)),
        Because::Doubt { written } => ("doubt", Some(written)),
    };
    let mut value = json!({"kind": kind, "text": reason(because)});
    if let Some((file, at)) = written.and_then(|written| written.0.as_ref()) {
        value["file"] = json!(file);
        value["line"] = json!(at.line);
        value["column"] = json!(at.column);
    }
    value
}
