//! May this call run? The policies of the agent and of everybody who called it, approvals that hold, somebody's word.

use std::borrow::Cow;
use std::collections::BTreeSet;

use goondan_spec::Code;
use goondan_spec::kinds::{Action, Permission, Sandbox, Workdir};

use crate::engine::Engine;
use crate::plan::AgentPlan;
use crate::policy::asking::{self, Asked};
use crate::policy::grants::{self, Seen};
use crate::policy::places::{AskedAbout, MOST_PATHS, Places};
use crate::policy::protected::{Ground, Redirections};
use crate::policy::reach::{self, Reach};
use crate::policy::taint;
use crate::policy::{self, Because, Decision, PathArguments, PolicyQuestion};
use crate::tooling::dispatch::{ToolCallContext, TurnFacts};
use crate::tooling::registry::RegisteredTool;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::{ApprovalAnswer, Covers, Grant, Scope};
use goondan_core::ports::tool::ToolError;
use goondan_core::real_path::real_path;
use goondan_core::run_mode::RunMode;

/// What a call that may run may do.
pub(crate) struct Permit {
    /// All that it needs, and of what is optional to it what is allowed.
    pub(crate) granted: BTreeSet<Permission>,
    /// How its command lines run.
    pub(crate) run_mode: RunMode,
}

/// Lets the call pass and says what it may do, or why it is refused.
pub(crate) async fn permit(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Result<Permit, ToolError> {
    let places = places(context, tool, arguments).await?;
    let needs = &tool.spec.permissions;
    let mut judged = verdicts(context, tool, needs, arguments, &places).await;
    let modes = judged
        .iter_mut()
        .map(|verdict| std::mem::take(&mut verdict.run_mode));
    let run_mode = modes.fold(RunMode::Shell, RunMode::and);
    let run_mode = run_mode.and(permit_needed(context, tool, arguments, judged).await?);
    let mut granted = needs.clone();
    for &optional in tool.spec.optional_permissions.difference(needs) {
        let with = needs.iter().copied().chain([optional]).collect();
        let verdicts = verdicts(context, tool, &with, arguments, &places).await;
        if verdicts
            .iter()
            .all(|verdict| verdict.action == Action::Allow)
        {
            granted.insert(optional);
        }
    }
    Ok(Permit { granted, run_mode })
}

/// Lets the call pass with what it needs, and says how its command lines run where an approval bounds that.
async fn permit_needed(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
    verdicts: Vec<Verdict>,
) -> Result<RunMode, ToolError> {
    if let Some(denying) = verdicts
        .iter()
        .find(|verdict| verdict.action == Action::Deny)
    {
        let why = format!(
            "the policy of Agent/{} denies it ({})",
            denying.agent, denying.why
        );
        return Err(denied(context, tool, &why, Way::Rule, None));
    }
    let asking: Vec<&Verdict> = verdicts
        .iter()
        .filter(|verdict| verdict.action == Action::Ask)
        .collect();
    if asking.is_empty() {
        return Ok(RunMode::Shell);
    }
    let seen = Seen::of(context, tool, arguments).await;
    let held = if seen.is_known() {
        grants::held(context).await
    } else {
        Vec::new()
    };
    let has_sandbox = context.engine.has_sandbox;
    let (mut run_mode, mut wanted) = (RunMode::Shell, Vec::new());
    for verdict in asking {
        let grant = seen.grant(&verdict.agent, verdict.is_untrusted);
        match verdict.reach.answered_by(&held, &grant, has_sandbox) {
            Some(covers) => run_mode = run_mode.and(verdict.reach.mode(covers)),
            None => wanted.push((verdict, grant)),
        }
    }
    let Some(&(first, _)) = wanted.first() else {
        return Ok(run_mode);
    };
    let reaches: Vec<&Reach> = wanted.iter().map(|(verdict, _)| &verdict.reach).collect();
    let offers = if seen.is_known() {
        reach::offers(&reaches, has_sandbox)
    } else {
        Vec::new()
    };
    let asked = Asked {
        agent: &first.agent,
        why: &first.why,
        offers: &offers,
    };
    match asking::answer(context, tool, arguments, asked).await? {
        ApprovalAnswer::Allow { .. } if Seen::of(context, tool, arguments).await != seen => {
            Err(denied(
                context,
                tool,
                "the files that it runs were changed while it was asked about",
                Way::Ask,
                None,
            ))
        }
        ApprovalAnswer::Allow { scope, covers } => {
            let is_offered = offers.iter().any(|offer| offer.covers == covers);
            let covers = if is_offered && scope != Scope::Once {
                covers
            } else {
                Covers::Call
            };
            let grants = wanted
                .iter()
                .filter_map(|(verdict, call)| verdict.reach.grants(covers, call, has_sandbox));
            let grants: Vec<Grant> = grants.flatten().collect();
            if seen.is_known() {
                grants::remember(context, scope, grants).await;
            }
            Ok(wanted.iter().fold(run_mode, |mode, (verdict, _)| {
                mode.and(verdict.reach.mode(covers))
            }))
        }
        ApprovalAnswer::Deny if context.cancel.is_cancelled() => {
            let message = format!(
                "{} was cancelled while somebody was asked about it",
                tool.name
            );
            Err(ToolError::new(message).code(Code::TOOL_CANCELLED))
        }
        ApprovalAnswer::Deny => Err(denied(
            context,
            tool,
            "it was refused when asked",
            Way::Ask,
            None,
        )),
        ApprovalAnswer::NobodyThere => {
            let why = format!(
                "it needs an approval and nobody is there to ask (Agent/{}: {})",
                first.agent, first.why
            );
            Err(denied(
                context,
                tool,
                &why,
                Way::Approve,
                first.rule.as_deref(),
            ))
        }
    }
}

fn too_many_paths() -> ToolError {
    ToolError::new(format!("the call names more than {MOST_PATHS} paths"))
        .code(Code::TOOL_INVALID_ARGS)
        .suggest("Make several calls of it.")
}

/// What the policy of one agent says.
struct Verdict {
    agent: String,
    action: Action,
    /// Empty where it allows.
    why: String,
    /// The mode that it asks for.
    run_mode: RunMode,
    /// The rule that would allow it, where it has to say more than which tool.
    rule: Option<String>,
    /// It is asked because of what the conversation has read.
    is_untrusted: bool,
    /// What an answer may cover beside the call.
    reach: Reach,
}

/// Of the agent, then of its callers, the nearest last (rule S1b). The agent's own policy is the one that its turn began
/// with; its callers' are those of now.
async fn verdicts(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    needs: &BTreeSet<Permission>,
    arguments: &JsonObject,
    places: &Places,
) -> Vec<Verdict> {
    let marked = &tool.marked_arguments;
    let own_paths = places.arguments();
    let question = PolicyQuestion {
        tool_name: tool.name.as_str(),
        needs,
        arguments,
        marked,
        paths: own_paths,
    };
    let verdict = |agent: &AgentPlan, paths: &PathArguments| {
        let (question, permissions) = (
            PolicyQuestion { paths, ..question },
            agent.permissions.as_ref(),
        );
        let decision = policy::decide(permissions, question);
        let asked = places.asked_about(permissions, question, &decision);
        asked
            .map(|asked| of_place(&agent.name, asked))
            .unwrap_or_else(|| {
                let asks = decision.action == Action::Ask;
                let reach = asks
                    .then(|| Reach::of(permissions, question, &decision, tool.builtin.is_some()));
                Verdict {
                    reach: reach.unwrap_or_default(),
                    ..verdict(&agent.name, &decision)
                }
            })
    };
    let mut verdicts = vec![verdict(&context.facts.agent, own_paths)];
    let generation = context.engine.generation.load();
    for (caller, instance) in context.facts.narrowing_agents() {
        verdicts.push(match generation.agent(caller) {
            Some(caller) => verdict(caller, &seen_by(own_paths, context, caller, instance)),
            // Nobody knows any more what it was allowed.
            None => Verdict {
                agent: caller.to_owned(),
                action: if needs.is_empty() {
                    Action::Allow
                } else {
                    Action::Ask
                },
                why: "the agent is no longer part of the swarm".to_owned(),
                run_mode: RunMode::Shell,
                rule: None,
                is_untrusted: false,
                reach: Reach::default(),
            },
        });
    }
    drop(generation);
    let acts = [Permission::Execute, Permission::Write, Permission::Network];
    if acts.iter().any(|one| needs.contains(one))
        && let Some(origin) = taint::of(&context.engine, &context.facts.instance).await
    {
        verdicts.push(Verdict {
            agent: context.facts.instance.agent.clone(),
            action: Action::Ask,
            why: format!("the conversation has read untrusted output of {origin}"),
            run_mode: RunMode::Shell,
            rule: None,
            is_untrusted: true,
            reach: Reach::default(),
        });
    }
    verdicts
}

/// Where the paths of a call lead. The file system is asked where it may block.
async fn places(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Result<Places, ToolError> {
    let marked = &tool.marked_arguments;
    let redirections = Redirections::of(marked, arguments, MOST_PATHS);
    let has_paths =
        !marked.paths.is_empty() || !marked.trees.is_empty() || !marked.patches.is_empty();
    if !has_paths && redirections.is_empty() {
        return Ok(Places::default());
    }
    if PathArguments::count(marked, arguments) > MOST_PATHS {
        return Err(too_many_paths());
    }
    let (folder, known, owned) = (
        context.facts.workdir.clone(),
        marked.clone(),
        arguments.clone(),
    );
    let own_folder = context.engine.store.workdir(&context.facts.instance);
    let (generation, is_builtin) = (
        context.engine.generation.load_full(),
        tool.builtin.is_some(),
    );
    let asked = tokio::task::spawn_blocking(move || {
        let ground = Ground {
            bundle: &generation.bundle,
            workdir: &folder,
            own_folder: &own_folder,
            is_builtin,
        };
        Places::with(&ground, &known, &owned, &redirections)
    });
    Ok(asked
        .await
        .unwrap_or_else(|_| Places::by_text(marked, arguments)))
}

/// The paths as the rules of an agent above the turn see them: from its own folder. `out/*` allows what is there, and
/// not what lies in an `out` of the folder in which somebody works for it. Where both have a folder for each of their
/// conversations, that is the same folder by its role.
fn seen_by<'p>(
    paths: &'p PathArguments,
    context: &ToolCallContext,
    agent: &AgentPlan,
    instance: Option<&InstanceId>,
) -> Cow<'p, PathArguments> {
    let (engine, facts) = (&context.engine, &context.facts);
    let is_own = facts.workdir == engine.workdir(&facts.agent, &facts.instance, None);
    if paths.is_empty() || (is_own && agent.workdir == facts.agent.workdir) {
        return Cow::Borrowed(paths);
    }
    let folder = match (&agent.workdir, instance) {
        (Workdir::Instance, None) => None,
        (_, instance) => Some(engine.workdir(agent, instance.unwrap_or(&facts.instance), None)),
    };
    if folder.as_ref() == Some(&facts.workdir) {
        return Cow::Borrowed(paths);
    }
    let folder = folder.map(|folder| real_path(&folder).unwrap_or(folder));
    Cow::Owned(paths.seen_from(folder.as_deref()))
}

/// What an agent's policy says of a call that its rules allow, and that is asked about all the same.
fn of_place(agent: &str, asked: AskedAbout) -> Verdict {
    Verdict {
        agent: agent.to_owned(),
        action: Action::Ask,
        why: asked.why,
        rule: asked.rule,
        is_untrusted: false,
        run_mode: RunMode::Shell,
        reach: Reach::default(),
    }
}

/// What contains the programs of a call: the sandboxes of the agent and of its callers.
pub(crate) fn sandboxes(context: &ToolCallContext) -> Vec<Sandbox> {
    sandboxes_of(&context.engine, &context.facts)
}

/// As [`sandboxes`], of a whole turn.
pub(crate) fn sandboxes_of(engine: &Engine, facts: &TurnFacts) -> Vec<Sandbox> {
    let generation = engine.generation.load();
    let callers = facts
        .narrowing_agents()
        .filter_map(|(caller, _)| generation.agent(caller));
    let all = std::iter::once(&facts.agent).chain(callers);
    let mut sandboxes: Vec<Sandbox> = Vec::new();
    for sandbox in all.filter_map(|agent| agent.permissions.as_ref()?.sandbox.as_ref()) {
        if !sandboxes.contains(sandbox) {
            sandboxes.push(sandbox.clone());
        }
    }
    sandboxes
}

fn verdict(agent: &str, decision: &Decision) -> Verdict {
    let why = if decision.action == Action::Allow {
        String::new()
    } else {
        why(decision)
    };
    Verdict {
        agent: agent.to_owned(),
        action: decision.action,
        why,
        run_mode: decision.run_mode(),
        rule: None,
        is_untrusted: false,
        reach: Reach::default(),
    }
}

/// What restricts the call.
fn why(decision: &Decision) -> String {
    let about = decision
        .parts
        .iter()
        .find(|part| part.action == decision.action && part.action != Action::Allow);
    let rule = match &decision.because {
        Because::Unstated => "it states no permissions".to_owned(),
        Because::Default => "no rule matches, so its `default` decides".to_owned(),
        Because::Rule { written, .. } | Because::Doubt { written } => match &written.0 {
            Some((file, at)) => format!("by the rule at {file}:{}", at.line),
            None => "without a `default`, execute and network are asked for".to_owned(),
        },
    };
    about.map_or(rule.clone(), |part| {
        format!("`{}`: {rule}", part.part.shown)
    })
}

/// How a refused call could run after all.
#[derive(Clone, Copy)]
enum Way {
    /// Only by another policy.
    Rule,
    /// By another answer.
    Ask,
    /// By an answer, or a policy that does not ask.
    Approve,
}

fn denied(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    why: &str,
    way: Way,
    rule: Option<&str>,
) -> ToolError {
    let agent = &context.facts.instance.agent;
    let rule = format!(
        "add `{}` to `spec.permissions.rules` of Agent/{agent}{}",
        rule.map_or_else(
            || format!("{{tool: \"{}\", action: allow}}", tool.name),
            str::to_owned
        ),
        if context.facts.callers.is_empty() {
            ""
        } else {
            " and of the agents that call it"
        }
    );
    let suggestion = match way {
        Way::Rule => {
            format!(
                "Whoever runs the swarm can allow it: {rule}. `gdn policy explain` says which rule decides."
            )
        }
        Way::Ask => "Do it another way, or say why it is needed and try again.".to_owned(),
        Way::Approve => format!(
            "Whoever runs the swarm can allow it: {rule}, run it where somebody can be asked (`gdn run` in a terminal; an \
             approval there can be permanent), or answer every ask of a run with `--yes`."
        ),
    };
    ToolError::new(format!("{} was not run: {why}", tool.name))
        .code(Code::TOOL_DENIED)
        .suggest(suggestion)
}
