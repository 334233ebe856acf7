//! What `gdn policy explain` says: for people, and as JSON.

use goondan::inside::shown;
use goondan::policy::{
    self, AskedAbout, Because, Containment, Decision, Direct, PartDecision, Places, PolicyQuestion,
    RunMode, What,
};
use goondan::spec::Resource;
use goondan::spec::kinds::{Action, Agent, Written};
use serde_json::{Value, json};

/// What a call comes to.
pub(super) struct Explanation<'a> {
    pub(super) tool: &'a str,
    /// Whether the call has a command line.
    pub(super) has_line: bool,
    /// Of the agent, and of those that called it.
    pub(super) verdicts: Vec<Verdict<'a>>,
    /// Of each agent that may call it.
    pub(super) callers: Vec<Verdict<'a>>,
    pub(super) notes: Vec<String>,
}

impl Explanation<'_> {
    fn action(&self) -> Action {
        self.verdicts.iter().fold(Action::Allow, |action, one| {
            policy::stricter(action, one.action())
        })
    }

    /// How a command line runs, if it does; nothing where the call has none.
    fn mode(&self) -> Option<RunMode> {
        let all = self.verdicts.iter().map(Verdict::run_mode);
        (self.has_line && self.action() != Action::Deny)
            .then(|| all.fold(RunMode::Shell, RunMode::and))
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let action = self.action();
        let mut text = format!("{}: {}\n", shown::line(self.tool), word(action));
        text.push_str(&of_chain(&self.verdicts));
        text.push_str(&for_callers(action, &self.callers));
        if let Some(mode) = self.mode() {
            text.push_str(&format!(
                "\nMode: {}\n",
                mode_text(&mode, action, &self.verdicts)
            ));
        }
        self.notes
            .iter()
            .for_each(|note| text.push_str(&format!("\nNote: {}\n", shown::line(note))));
        text
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let action = self.action();
        let by = |one: &Verdict<'_>| {
            let action = policy::stricter(action, one.action());
            json!({"agent": one.agent, "action": word(action), "because": one.because_json()})
        };
        let mut value = json!({
            "tool": self.tool,
            "action": word(action),
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

/// What the policy of one agent says.
pub(super) struct Verdict<'a> {
    agent: &'a str,
    decision: Decision,
    /// Why it is asked about although the rules allow it.
    asked: Option<AskedAbout>,
}

impl<'a> Verdict<'a> {
    pub(super) fn of(
        agent: &'a Resource<Agent>,
        question: PolicyQuestion<'_>,
        places: &Places,
    ) -> Self {
        let permissions = agent.spec.permissions.as_ref();
        let decision = policy::decide(permissions, question);
        let asked = places.asked_about(permissions, question, &decision);
        Verdict {
            agent: &agent.id.name,
            decision,
            asked,
        }
    }

    fn action(&self) -> Action {
        if self.asked.is_some() {
            Action::Ask
        } else {
            self.decision.action
        }
    }

    fn reason(&self) -> String {
        self.asked
            .as_ref()
            .map_or_else(|| reason(&self.decision.because), |asked| asked.why.clone())
    }

    fn because_json(&self) -> Value {
        match &self.asked {
            Some(asked) => json!({"kind": "protected", "text": asked.why, "allowedBy": asked.rule}),
            None => because_json(&self.decision.because),
        }
    }

    /// How a command line runs. What is asked about runs as somebody answers.
    fn run_mode(&self) -> RunMode {
        if self.asked.is_some() {
            RunMode::Shell
        } else {
            self.decision.run_mode()
        }
    }
}

fn word(action: Action) -> &'static str {
    match action {
        Action::Allow => "allow",
        Action::Ask => "ask",
        Action::Deny => "deny",
    }
}

fn of_chain(verdicts: &[Verdict<'_>]) -> String {
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
            shown::line(verdict.agent),
            word(verdict.action())
        ));
        if decision.parts.is_empty() {
            let so = if verdict.asked.is_some() {
                ": allow"
            } else {
                ""
            };
            text.push_str(&format!(
                "  {}{so}\n",
                shown::line(reason(&decision.because))
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
            let part_shown = shown::line(part.part.shown.replace('\n', "⏎")).to_string();
            let reason = shown::line(part_reason(part));
            text.push_str(&format!(
                "  {part_shown:width$}  {:5}  {reason}\n",
                word(part.action)
            ));
        }
        if let Some(asked) = &verdict.asked {
            text.push_str(&format!(
                "  {}\n",
                shown::line(format!("{}, so somebody is asked", asked.why))
            ));
            let rule = asked.rule.iter();
            rule.for_each(|rule| {
                text.push_str(&format!(
                    "  This rule would allow it: {}\n",
                    shown::line(rule)
                ))
            });
        }
    }
    text
}

/// What the call comes to where another agent has it made. A chain of several is bounded by each of them.
fn for_callers(action: Action, callers: &[Verdict<'_>]) -> String {
    let mut text = if callers.is_empty() {
        String::new()
    } else {
        "\nMade for another agent, it is\n".to_owned()
    };
    let name = |caller: &str| shown::line(format!("Agent/{caller}")).to_string();
    let width = callers
        .iter()
        .map(|one| name(one.agent).chars().count())
        .max()
        .unwrap_or(0);
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
            format!(
                "a file outside of the working folder, or a protected one; {}",
                reason(&part.because)
            )
        }
        What::Read { .. }
        | What::Write { .. }
        | What::Command
        | What::Variable
        | What::Program
        | What::Path => reason(&part.because),
    }
}

/// The mode in words.
fn mode_text(mode: &RunMode, action: Action, verdicts: &[Verdict<'_>]) -> String {
    let RunMode::Direct(Direct { commands, .. }) = mode else {
        return match action {
            Action::Allow => {
                "shell. /bin/sh runs the line: the policy allows it whatever it does.".to_owned()
            }
            Action::Ask | Action::Deny => {
                "shell. /bin/sh runs the line if somebody approves it.".to_owned()
            }
        };
    };
    let mut text = "direct. gdn starts the commands itself, without a shell.".to_owned();
    if !goondan::has_sandbox() {
        text.push_str("\n  This system has no sandbox, so nothing restricts them.");
        return text;
    }
    for (number, containments) in commands.iter().enumerate() {
        let shown = verdicts.iter().flat_map(|one| &one.decision.parts);
        let shown = shown
            .filter(|part| part.part.command == Some(number))
            .map(|part| part.part.shown.as_str());
        let name = shown.take(1).collect::<String>();
        for containment in containments {
            let name = shown::line(&name);
            text.push_str(&format!(
                "\n  {name}: in a sandbox; {}",
                sandbox_text(containment)
            ));
        }
        if containments.is_empty() {
            text.push_str(&format!(
                "\n  {}: without a sandbox of its own",
                shown::line(&name)
            ));
        }
    }
    text
}

fn sandbox_text(containment: &Containment) -> String {
    let sandbox = &containment.sandbox;
    let writes = if containment.writes {
        "it writes in the working folder"
    } else {
        "it writes nothing"
    };
    let network = if sandbox.network {
        "uses the network"
    } else {
        "has no network"
    };
    let starts = match sandbox.programs.as_deref().unwrap_or_default() {
        [] => "starts no other program unless it is made for that, as `make` is".to_owned(),
        programs if programs.iter().any(|one| one == "*") => "starts any program".to_owned(),
        programs => format!("starts {}", programs.join(", ")),
    };
    let more =
        [("reads", &sandbox.read), ("writes", &sandbox.write)].map(|(what, folders)| match folders
            .as_slice()
        {
            [] => String::new(),
            folders => format!(", {what} {}", folders.join(", ")),
        });
    format!("{writes}, {network}, {starts}{}", more.concat())
}

fn mode_json(mode: &RunMode) -> Value {
    let RunMode::Direct(Direct { commands, .. }) = mode else {
        return json!({"kind": "shell"});
    };
    let sandbox = |one: &Containment| {
        let mut value = json!(one.sandbox);
        value["writesWorkdir"] = json!(one.writes);
        value
    };
    let commands = commands
        .iter()
        .map(|all| all.iter().map(sandbox).collect::<Vec<_>>());
    json!({"kind": "direct", "sandboxes": commands.collect::<Vec<_>>()})
}

fn reason(because: &Because) -> String {
    match because {
        Because::Unstated => {
            "the agent states no permissions: it asks before it executes or uses the network"
                .to_owned()
        }
        Because::Default => "no rule matches; `default` decides".to_owned(),
        Because::Rule { number: None, .. } => {
            "without a `default`, the agent asks before it executes or uses the network".to_owned()
        }
        Because::Rule { written, .. } => format!("the rule at {}", place(written)),
        Because::Doubt { written } => format!(
            "the rule at {} may match, and gdn cannot tell",
            place(written)
        ),
    }
}

fn place(written: &Written) -> String {
    let place = written
        .0
        .as_ref()
        .map(|(file, at)| format!("{file}:{}", at.line));
    place.unwrap_or_else(|| "no file".to_owned())
}

fn chain_json(verdicts: &[Verdict<'_>]) -> Value {
    let verdicts = verdicts.iter().map(|one| {
        let parts = one.decision.parts.iter().map(part_json);
        json!({
            "agent": one.agent,
            "action": word(one.action()),
            "because": one.because_json(),
            "parts": parts.collect::<Vec<_>>(),
        })
    });
    verdicts.collect()
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
