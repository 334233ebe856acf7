//! How far an answer may reach beyond the call that was asked about: to commands of the same form, or to all calls of the tool.
//!
//! It never reaches further than the policy's own question does. A policy that asks about `git push --force*` asks about a
//! narrower kind of call than `git push *` is, so no answer about the latter counts for it. One that asks because it can't tell
//! what runs gets an answer about the very line alone.

use goondan_core::ports::approval::{Covers, Grant, Offer};
use goondan_core::run_mode::RunMode;
use goondan_core::shell::{self, Form, Part, What};
use goondan_spec::kinds::{Action, Permissions, Sandbox};
use goondan_spec::pattern;

use super::decide::containment;
use super::{Because, Decision, PolicyQuestion};

/// What an answer to the question of one policy may cover.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reach {
    /// It asks whatever the arguments are.
    asks_by_tool: bool,
    /// The commands that it asks about. None where it asks about anything else, too.
    commands: Vec<AskedCommand>,
    /// The argument that they stand in.
    argument: String,
    /// The arguments beside it that say what runs.
    telling: Vec<String>,
    /// How the line runs where the commands were allowed by their form.
    contained: RunMode,
}

/// A command that a policy asks about.
#[derive(Debug, Clone)]
struct AskedCommand {
    part: Part,
    /// The rule that asks is about these commands alone.
    only: Option<String>,
}

impl AskedCommand {
    /// Whether the policy would ask about all commands of a form.
    fn is_about(&self, form: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|only| pattern::always_matches(only, &pattern::pattern_atoms(form)))
    }

    fn form(&self, has_sandbox: bool) -> Option<Form> {
        shell::form(&self.part)
            .filter(|form| (has_sandbox || !form.needs_sandbox) && self.is_about(&form.pattern))
    }
}

impl Reach {
    /// Of a policy that asks. `runs_lines` where what contains commands is known to hold for the tool.
    pub(crate) fn of(
        permissions: Option<&Permissions>,
        question: PolicyQuestion<'_>,
        decision: &Decision,
        runs_lines: bool,
    ) -> Self {
        let whys = || match decision.parts.as_slice() {
            [] => vec![&decision.because],
            parts => parts
                .iter()
                .filter(|part| part.action == Action::Ask)
                .map(|part| &part.because)
                .collect(),
        };
        let asks_by_tool =
            !decision.in_doubt && whys().into_iter().all(|why| by_tool(permissions, why));
        let [argument] = question.marked.commands.as_slice() else {
            return Reach {
                asks_by_tool,
                ..Reach::default()
            };
        };
        let asked = decision
            .parts
            .iter()
            .filter(|part| part.action == Action::Ask);
        let asked: Option<Vec<AskedCommand>> = asked
            .map(|part| {
                let is_simple = part.part.what == What::Command
                    && part.part.command.is_some()
                    && !part.in_doubt;
                let only = only(permissions, &part.because, argument).filter(|_| is_simple)?;
                Some(AskedCommand {
                    part: part.part.clone(),
                    only,
                })
            })
            .collect();
        let commands = asked.filter(|_| runs_lines).unwrap_or_default();
        let mut allowed = decision.clone();
        allowed.action = Action::Allow;
        for part in allowed
            .parts
            .iter_mut()
            .filter(|part| part.action == Action::Ask)
        {
            part.contained = Some(containment(permissions, question, Sandbox::default()));
        }
        Reach {
            asks_by_tool,
            commands,
            argument: argument.clone(),
            telling: [
                &question.marked.folders,
                &question.marked.environments,
                &question.marked.programs,
            ]
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
            contained: allowed.run_mode(),
        }
    }

    /// The forms of the commands; `None` where one of them has none.
    fn forms(&self, has_sandbox: bool) -> Option<Vec<String>> {
        let forms = self
            .commands
            .iter()
            .map(|command| Some(command.form(has_sandbox)?.pattern));
        let mut forms = forms
            .collect::<Option<Vec<String>>>()
            .filter(|forms| !forms.is_empty())?;
        forms.sort_unstable();
        forms.dedup();
        Some(forms)
    }

    /// What `covers` comes to: the grants that it needs, made of the one for the call. `None` where it is not on offer.
    pub(crate) fn grants(
        &self,
        covers: Covers,
        call: &Grant,
        has_sandbox: bool,
    ) -> Option<Vec<Grant>> {
        match covers {
            Covers::Call => Some(vec![call.clone()]),
            Covers::Program => {
                let forms = self.forms(has_sandbox)?.into_iter();
                Some(forms.map(|form| self.of_form(call, &form)).collect())
            }
            Covers::Tool if self.asks_by_tool => {
                let args = serde_json::Map::new();
                Some(vec![Grant {
                    covers: Covers::Tool,
                    args,
                    files: Default::default(),
                    ..call.clone()
                }])
            }
            Covers::Tool => None,
        }
    }

    /// The widest cover of the grants that are `held` that answers the question; `None` where none does.
    pub(crate) fn answered_by(
        &self,
        held: &[Grant],
        call: &Grant,
        has_sandbox: bool,
    ) -> Option<Covers> {
        let is_held = |wanted: &Grant| held.iter().any(|held| holds(held, wanted));
        let all = |covers| {
            self.grants(covers, call, has_sandbox)
                .is_some_and(|grants| grants.iter().all(is_held))
        };
        // What is allowed as it stands runs as it stands.
        if held.contains(call) {
            return Some(Covers::Call);
        }
        if all(Covers::Tool) {
            return Some(Covers::Tool);
        }
        all(Covers::Program).then_some(Covers::Program)
    }

    /// How a command line runs that is allowed with that cover.
    pub(crate) fn mode(&self, covers: Covers) -> RunMode {
        if covers == Covers::Program {
            self.contained.clone()
        } else {
            RunMode::Shell
        }
    }

    fn of_form(&self, call: &Grant, form: &str) -> Grant {
        let mut args = call.args.clone();
        args.retain(|name, _| self.telling.contains(name));
        args.insert(self.argument.clone(), form.into());
        Grant {
            covers: Covers::Program,
            args,
            files: Default::default(),
            ..call.clone()
        }
    }
}

/// What answers to several policies may cover: what each of them asks about.
pub(crate) fn offers(reaches: &[&Reach], has_sandbox: bool) -> Vec<Offer> {
    let mut offers = vec![Offer {
        covers: Covers::Call,
        commands: Vec::new(),
    }];
    let forms: Option<Vec<Vec<String>>> = reaches
        .iter()
        .map(|reach| reach.forms(has_sandbox))
        .collect();
    if let Some(forms) = forms {
        let mut commands = forms.concat();
        commands.sort_unstable();
        commands.dedup();
        offers.push(Offer {
            covers: Covers::Program,
            commands,
        });
    }
    if reaches.iter().all(|reach| reach.asks_by_tool) {
        offers.push(Offer {
            covers: Covers::Tool,
            commands: Vec::new(),
        });
    }
    offers
}

/// Whether what is held is what is wanted. What the call runs now has to be among what was allowed, as it was then.
fn holds(held: &Grant, wanted: &Grant) -> bool {
    let same = |grant: &Grant| Grant {
        programs: Default::default(),
        ..grant.clone()
    };
    let known = wanted
        .programs
        .iter()
        .all(|(path, content)| held.programs.get(path) == Some(content));
    known && same(held) == same(wanted)
}

/// The policy asks for the sake of the tool or of what it needs, whatever the arguments are.
fn by_tool(permissions: Option<&Permissions>, because: &Because) -> bool {
    only_of(permissions, because).is_some_and(|args| args.is_none())
}

/// The pattern of the commands that the policy asks about, if it asks about certain ones alone; `None` where what it asks about
/// can't be told by commands.
fn only(
    permissions: Option<&Permissions>,
    because: &Because,
    argument: &str,
) -> Option<Option<String>> {
    match only_of(permissions, because)? {
        None => Some(None),
        Some(args) if args.len() == 1 => Some(Some(args.get(argument)?.clone())),
        Some(_) => None,
    }
}

type Arguments = std::collections::BTreeMap<String, String>;

/// The arguments that the rule that asks is about; `None` where nobody can tell.
fn only_of<'p>(
    permissions: Option<&'p Permissions>,
    because: &Because,
) -> Option<Option<&'p Arguments>> {
    match because {
        Because::Unstated | Because::Default | Because::Rule { number: None, .. } => Some(None),
        Because::Rule {
            number: Some(number),
            ..
        } => {
            let args = &permissions?.rules.get(*number)?.args;
            Some(Some(args).filter(|args| !args.is_empty()))
        }
        Because::Doubt { .. } => None,
    }
}
