//! Output of `gdn policy explain`, as text and as JSON.

use goondan::internal::untrusted_text;
use goondan::policy::{
    self, ApprovalReason, CommandContainment, CommandPartKind, DecisionReason, DirectExecution,
    PartDecision, PolicyDecision, PolicyQuestion, ResolvedPaths, RunMode,
};
use goondan::spec::Resource;
use goondan::spec::kinds::{Agent, PermissionAction, SourceLocation};
use serde_json::{Value, json};

/// Decision on a call, with its reasons.
pub(super) struct PolicyExplanation<'a> {
    pub(super) tool: &'a str,
    /// The call has a command line.
    pub(super) has_line: bool,
    /// Verdict of the agent, then the verdicts of the agents that called it.
    pub(super) verdicts: Vec<AgentVerdict<'a>>,
    /// Verdicts of all agents that may call the agent.
    pub(super) callers: Vec<AgentVerdict<'a>>,
    pub(super) notes: Vec<String>,
}

impl PolicyExplanation<'_> {
    /// Returns the strictest action of the agent and its callers.
    fn action(&self) -> PermissionAction {
        self.verdicts
            .iter()
            .fold(PermissionAction::Allow, |action, one| {
                policy::stricter(action, one.action())
            })
    }

    /// Returns how the command line runs; `None` without one, or if the call is denied.
    fn mode(&self) -> Option<RunMode> {
        let modes = self.verdicts.iter().map(AgentVerdict::run_mode);
        (self.has_line && self.action() != PermissionAction::Deny)
            .then(|| modes.fold(RunMode::Shell, RunMode::and))
    }

    /// Formats the explanation for the terminal.
    pub(super) fn text(&self) -> String {
        let action = self.action();
        let mut text = format!(
            "{}: {}\n",
            untrusted_text::line(self.tool),
            action_word(action)
        );
        text.push_str(&chain_text(&self.verdicts));
        text.push_str(&for_callers(action, &self.callers));
        if let Some(mode) = self.mode() {
            text.push_str(&format!(
                "\nMode: {}\n",
                mode_text(&mode, action, &self.verdicts)
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("\nNote: {}\n", untrusted_text::line(note)));
        }
        text
    }

    /// Returns the explanation as JSON.
    pub(super) fn json(&self) -> Value {
        let action = self.action();
        let by = |one: &AgentVerdict<'_>| {
            let action = policy::stricter(action, one.action());
            json!({"agent": one.agent, "action": action_word(action), "because": one.because_json()})
        };
        let mut value = json!({
            "tool": self.tool,
            "action": action_word(action),
            "agents": chain_json(&self.verdicts),
            "notes": self.notes,
            "callers": self.callers.iter().map(by).collect::<Vec<_>>(),
        });
        if let Some(mode) = self.mode() {
            value["mode"] = mode_json(&mode);
        }
        value
    }
}

/// Decision of one agent's policy.
pub(super) struct AgentVerdict<'a> {
    agent: &'a str,
    decision: PolicyDecision,
    /// Reason for an approval request although the rules allow the call.
    asked: Option<ApprovalReason>,
}

impl<'a> AgentVerdict<'a> {
    /// Decides on the call with the policy of `agent`.
    pub(super) fn of(
        agent: &'a Resource<Agent>,
        question: PolicyQuestion<'_>,
        resolved_paths: &ResolvedPaths,
    ) -> Self {
        let permissions = agent.spec.permissions.as_ref();
        let decision = policy::decide(permissions, question);
        let approval_reason = resolved_paths.approval_reason(permissions, question, &decision);
        AgentVerdict {
            agent: &agent.id.name,
            decision,
            asked: approval_reason,
        }
    }

    /// Returns the action of this agent: a call that the rules allow may still need approval.
    fn action(&self) -> PermissionAction {
        if self.asked.is_some() {
            PermissionAction::Ask
        } else {
            self.decision.action
        }
    }

    /// Returns the reason for the action as text.
    fn reason(&self) -> String {
        self.asked
            .as_ref()
            .map_or_else(|| reason(&self.decision.because), |asked| asked.why.clone())
    }

    /// Returns the reason for the action as JSON.
    fn because_json(&self) -> Value {
        match &self.asked {
            Some(asked) => json!({"kind": "protected", "text": asked.why, "allowedBy": asked.rule}),
            None => because_json(&self.decision.because),
        }
    }

    /// Returns how the command line runs. A call that needs approval runs in a shell.
    fn run_mode(&self) -> RunMode {
        if self.asked.is_some() {
            RunMode::Shell
        } else {
            self.decision.run_mode()
        }
    }
}

/// Returns the action as it is written in YAML.
fn action_word(action: PermissionAction) -> &'static str {
    match action {
        PermissionAction::Allow => "allow",
        PermissionAction::Ask => "ask",
        PermissionAction::Deny => "deny",
    }
}

/// Lists the decision of the agent and of each caller, with the part of a command line that each
/// rule matched.
fn chain_text(verdicts: &[AgentVerdict<'_>]) -> String {
    let mut text = String::new();
    for (index, verdict) in verdicts.iter().enumerate() {
        let role = if index == 0 {
            "Agent"
        } else {
            "called by Agent"
        };
        let decision = &verdict.decision;
        text.push_str(&format!(
            "\n{role}/{}: {}\n",
            untrusted_text::line(verdict.agent),
            action_word(verdict.action())
        ));
        if decision.parts.is_empty() {
            let so = if verdict.asked.is_some() {
                ": allow"
            } else {
                ""
            };
            text.push_str(&format!(
                "  {}{so}\n",
                untrusted_text::line(reason(&decision.because))
            ));
        }
        let width = decision
            .parts
            .iter()
            .map(|part| part.part.shown.chars().count())
            .max()
            .unwrap_or(0)
            .min(48);
        for part in &decision.parts {
            let part_shown = untrusted_text::line(part.part.shown.replace('\n', "⏎")).to_string();
            let reason = untrusted_text::line(part_reason(part));
            text.push_str(&format!(
                "  {part_shown:width$}  {:5}  {reason}\n",
                action_word(part.action)
            ));
        }
        if let Some(asked) = &verdict.asked {
            text.push_str(&format!(
                "  {}\n",
                untrusted_text::line(format!("{}, so gdn asks for approval", asked.why))
            ));
            if let Some(rule) = &asked.rule {
                text.push_str(&format!(
                    "  This rule would allow it: {}\n",
                    untrusted_text::line(rule)
                ));
            }
        }
    }
    text
}

/// Lists the decision for each possible caller. In a chain of calls, every caller restricts it.
fn for_callers(action: PermissionAction, callers: &[AgentVerdict<'_>]) -> String {
    let mut text = if callers.is_empty() {
        String::new()
    } else {
        "\nMade for another agent, it is\n".to_owned()
    };
    let name = |caller: &str| untrusted_text::line(format!("Agent/{caller}")).to_string();
    let width = callers
        .iter()
        .map(|one| name(one.agent).chars().count())
        .max()
        .unwrap_or(0);
    for one in callers {
        let stricter_action = action_word(policy::stricter(action, one.action()));
        let reason = match one.action() {
            PermissionAction::Allow => String::new(),
            PermissionAction::Ask | PermissionAction::Deny => {
                format!("  {}", untrusted_text::line(one.reason()))
            }
        };
        text.push_str(
            format!("  {:width$}  {stricter_action:5}{reason}", name(one.agent)).trim_end(),
        );
        text.push('\n');
    }
    text
}

/// Returns why a part of the command line gets its action.
fn part_reason(part: &PartDecision) -> String {
    match &part.part.what {
        CommandPartKind::Hidden { why } => format!("{why}; {}", reason(&part.because)),
        // A write to a protected file in the working directory also counts as not `inside`.
        CommandPartKind::Read { inside: false } | CommandPartKind::Write { inside: false } => {
            format!(
                "a file outside of the working directory, or a protected file; {}",
                reason(&part.because)
            )
        }
        CommandPartKind::Read { .. }
        | CommandPartKind::Write { .. }
        | CommandPartKind::Command
        | CommandPartKind::Variable
        | CommandPartKind::Program
        | CommandPartKind::Path => reason(&part.because),
    }
}

/// Describes how the command line runs: in a shell, or directly in sandboxes.
fn mode_text(mode: &RunMode, action: PermissionAction, verdicts: &[AgentVerdict<'_>]) -> String {
    let RunMode::Direct(DirectExecution { commands, .. }) = mode else {
        return match action {
            PermissionAction::Allow => {
                "shell. /bin/sh runs the line: the policy allows every command.".to_owned()
            }
            PermissionAction::Ask | PermissionAction::Deny => {
                "shell. /bin/sh runs the line after approval.".to_owned()
            }
        };
    };
    let mut text = "direct. gdn starts the commands itself, without a shell.".to_owned();
    if !goondan::has_sandbox() {
        text.push_str("\n  This system has no sandbox, so the commands run unrestricted.");
        return text;
    }
    for (number, containments) in commands.iter().enumerate() {
        let parts = verdicts.iter().flat_map(|verdict| &verdict.decision.parts);
        let parts = parts
            .filter(|part| part.part.command == Some(number))
            .map(|part| part.part.shown.as_str());
        let name = parts.take(1).collect::<String>();
        for containment in containments {
            let name = untrusted_text::line(&name);
            text.push_str(&format!(
                "\n  {name}: in a sandbox; {}",
                sandbox_text(containment)
            ));
        }
        if containments.is_empty() {
            text.push_str(&format!(
                "\n  {}: without a separate sandbox",
                untrusted_text::line(&name)
            ));
        }
    }
    text
}

/// Describes what a sandboxed command may do.
fn sandbox_text(containment: &CommandContainment) -> String {
    let sandbox = &containment.sandbox;
    let writes = if containment.writes {
        "writes in the working directory"
    } else {
        "writes nothing"
    };
    let network = if sandbox.network {
        "uses the network"
    } else {
        "has no network"
    };
    let starts = match sandbox.programs.as_deref().unwrap_or_default() {
        [] => "starts no other program, except programs such as `make`".to_owned(),
        programs if programs.iter().any(|one| one == "*") => "starts any program".to_owned(),
        programs => format!("starts {}", programs.join(", ")),
    };
    let extra_access =
        [("reads", &sandbox.read), ("writes", &sandbox.write)].map(|(what, folders)| match folders
            .as_slice()
        {
            [] => String::new(),
            folders => format!(", {what} {}", folders.join(", ")),
        });
    format!("{writes}, {network}, {starts}{}", extra_access.concat())
}

fn mode_json(mode: &RunMode) -> Value {
    let RunMode::Direct(DirectExecution { commands, .. }) = mode else {
        return json!({"kind": "shell"});
    };
    let sandbox = |one: &CommandContainment| {
        let mut value = json!(one.sandbox);
        value["writesWorkdir"] = json!(one.writes);
        value
    };
    let commands = commands
        .iter()
        .map(|all| all.iter().map(sandbox).collect::<Vec<_>>());
    json!({"kind": "direct", "sandboxes": commands.collect::<Vec<_>>()})
}

/// Describes the reason for a decision.
fn reason(because: &DecisionReason) -> String {
    match because {
        DecisionReason::Unstated => {
            "the agent has no `permissions`: execution and network use require approval".to_owned()
        }
        DecisionReason::Default => "no rule matches; `default` decides".to_owned(),
        DecisionReason::Rule { number: None, .. } => {
            "without a `default`, execution and network use require approval".to_owned()
        }
        DecisionReason::Rule { written, .. } => format!("the rule at {}", rule_location(written)),
        DecisionReason::Doubt { written } => {
            format!(
                "the rule at {} may match; gdn can't decide",
                rule_location(written)
            )
        }
    }
}

/// Returns the location of a rule as `FILE:LINE`.
fn rule_location(written: &SourceLocation) -> String {
    let location = written
        .0
        .as_ref()
        .map(|(file, at)| format!("{file}:{}", at.line));
    location.unwrap_or_else(|| "no file".to_owned())
}

/// Returns the verdict of the agent and of each caller as JSON.
fn chain_json(verdicts: &[AgentVerdict<'_>]) -> Value {
    let verdicts = verdicts.iter().map(|one| {
        let parts = one.decision.parts.iter().map(part_json);
        json!({
            "agent": one.agent,
            "action": action_word(one.action()),
            "because": one.because_json(),
            "parts": parts.collect::<Vec<_>>(),
        })
    });
    verdicts.collect()
}

/// Returns the decision on a part of the command line as JSON.
fn part_json(part: &PartDecision) -> Value {
    let (kind, why) = match &part.part.what {
        CommandPartKind::Command => ("command", None),
        CommandPartKind::Variable => ("variable", None),
        CommandPartKind::Program => ("program", None),
        CommandPartKind::Path => ("path", None),
        CommandPartKind::Read { .. } => ("read", None),
        CommandPartKind::Write { .. } => ("write", None),
        CommandPartKind::Hidden { why } => ("hidden", Some(why)),
    };
    let mut value = json!({
        "text": part.part.shown,
        "kind": kind,
        "action": action_word(part.action),
        "because": because_json(&part.because),
    });
    if let Some(why) = why {
        value["why"] = json!(why);
    }
    value
}

fn because_json(because: &DecisionReason) -> Value {
    let (kind, written) = match because {
        DecisionReason::Unstated => ("unstated", None),
        DecisionReason::Default => ("default", None),
        DecisionReason::Rule { number: None, .. } => ("builtin", None),
        DecisionReason::Rule { written, .. } => ("rule", Some(written)),
        DecisionReason::Doubt { written } => ("doubt", Some(written)),
    };
    let mut value = json!({"kind": kind, "text": reason(because)});
    if let Some((file, at)) = written.and_then(|written| written.0.as_ref()) {
        value["file"] = json!(file);
        value["line"] = json!(at.line);
        value["column"] = json!(at.column);
    }
    value
}
