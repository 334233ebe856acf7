//! Permission check of a tool call: policies of the agent and its callers, remembered approvals,
//! and approval requests.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use goondan_spec::Code;
use goondan_spec::kinds::{AgentWorkdir, Permission, PermissionAction, SandboxSettings};

use crate::engine::Engine;
use crate::plan::AgentPlan;
use crate::policy::approval_request::{self, ApprovalPrompt};
use crate::policy::grant_scope::{self, GrantScope};
use crate::policy::grants::{self, CallSnapshot};
use crate::policy::protected_paths::{PathEnvironment, RedirectionTargets};
use crate::policy::resolved_paths::{ApprovalReason, MAX_CALL_PATHS, ResolvedPaths};
use crate::policy::untrusted_content;
use crate::policy::{self, DecisionReason, PathArguments, PolicyDecision, PolicyQuestion};
use crate::tooling::dispatch::{ToolCallContext, TurnScope, tool_context};
use crate::tooling::registry::RegisteredTool;
use crate::tooling::reporter::ToolCallReporter;
use goondan_core::JsonObject;
use goondan_core::ids::InstanceId;
use goondan_core::ports::approval::{
    ApprovalAnswer, ApprovalCoverage, ApprovalDuration, ApprovalGrant,
};
use goondan_core::ports::tool::{ApprovedFile, HandlerError};
use goondan_core::real_path::real_path;
use goondan_core::run_mode::RunMode;

/// Permissions of an allowed call.
pub(crate) struct CallPermit {
    /// Required permissions, and the optional ones that are allowed.
    pub(crate) granted: BTreeSet<Permission>,
    /// Run mode of the call's command lines.
    pub(crate) run_mode: RunMode,
    /// Files whose content an approval of the call covers; empty if it needed no approval.
    pub(crate) approved_files: Arc<[ApprovedFile]>,
    /// Code of the tool that an approval of the call covers; `None` if it needed no approval.
    pub(crate) approved_code: Option<String>,
}

/// Effect of the approvals of a call.
#[derive(Default)]
struct GivenApprovals {
    run_mode: RunMode,
    approved_files: Arc<[ApprovedFile]>,
    approved_code: Option<String>,
}

/// Checks a call. Returns its permissions, or an error if it is denied.
pub(crate) async fn check_call(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Result<CallPermit, HandlerError> {
    let paths = resolve_paths(context, tool, arguments).await?;
    let needs = &tool.spec.permissions;
    let mut verdicts_of_call = collect_verdicts(context, tool, needs, arguments, &paths).await;
    let modes = verdicts_of_call
        .iter_mut()
        .map(|verdict| std::mem::take(&mut verdict.run_mode));
    let run_mode = modes.fold(RunMode::Shell, RunMode::and);
    let permit = request_permit(context, tool, arguments, &paths, verdicts_of_call).await?;
    let mut granted = needs.clone();
    for &optional in tool.spec.optional_permissions.difference(needs) {
        let more_needs = needs.iter().copied().chain([optional]).collect();
        let verdicts = collect_verdicts(context, tool, &more_needs, arguments, &paths).await;
        if verdicts
            .iter()
            .all(|verdict| verdict.action == PermissionAction::Allow)
        {
            granted.insert(optional);
        }
    }
    let run_mode = run_mode.and(permit.run_mode);
    // Without a shell, a command is sandboxed, or its files are data.
    let approved_files = match run_mode {
        RunMode::Shell => permit.approved_files,
        RunMode::Direct(_) => Arc::default(),
    };
    Ok(CallPermit {
        granted,
        run_mode,
        approved_files,
        approved_code: permit.approved_code,
    })
}

/// Checks the required permissions, and requests the missing approvals.
async fn request_permit(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
    paths: &ResolvedPaths,
    verdicts: Vec<PermissionVerdict>,
) -> Result<GivenApprovals, HandlerError> {
    if let Some(denying) = verdicts
        .iter()
        .find(|verdict| verdict.action == PermissionAction::Deny)
    {
        let reason = format!(
            "the policy of Agent/{} denies it ({})",
            denying.agent, denying.why
        );
        return Err(denied_error(
            context,
            tool,
            &reason,
            DenialRemedy::Rule,
            None,
        ));
    }
    let asking: Vec<&PermissionVerdict> = verdicts
        .iter()
        .filter(|verdict| verdict.action == PermissionAction::Ask)
        .collect();
    if asking.is_empty() {
        return Ok(GivenApprovals::default());
    }
    let snapshot = CallSnapshot::capture(context, tool, arguments, paths).await;
    if let Some(path) = snapshot.path_of_process() {
        return Err(path_of_process_error(tool, path));
    }
    if let Some(folder) = snapshot.too_large_directory() {
        return Err(too_large_error(tool, folder));
    }
    let mut held_grants = grants::remembered_grants(context).await;
    held_grants.retain(|grant| snapshot.permits(grant.covers));
    let has_sandbox = context.engine.has_sandbox;
    let mut run_mode = RunMode::Shell;
    let mut wanted = Vec::new();
    for verdict in asking {
        let grant = snapshot.to_grant(&verdict.agent, verdict.is_untrusted);
        match verdict.reach.answered_by(&held_grants, &grant, has_sandbox) {
            Some(covers) => run_mode = run_mode.and(verdict.reach.run_mode(covers)),
            None => wanted.push((verdict, grant)),
        }
    }
    let approved_files = snapshot.approved_files(&context.facts.workdir);
    let approved_code = snapshot.code();
    let Some(&(first, _)) = wanted.first() else {
        return Ok(GivenApprovals {
            run_mode,
            approved_files,
            approved_code,
        });
    };
    let reaches: Vec<&GrantScope> = wanted.iter().map(|(verdict, _)| &verdict.reach).collect();
    let mut offers = grant_scope::approval_offers(&reaches, has_sandbox);
    offers.retain(|offer| snapshot.permits(offer.covers));
    let preview = approval_request::preview(context, tool, arguments).await;
    let changed: BTreeSet<String> = wanted
        .iter()
        .flat_map(|(verdict, call)| verdict.reach.changed_files(&held_grants, call, has_sandbox))
        .collect();
    let reason = match grants::change_description(&changed) {
        Some(change) => format!("{}; {change}", first.why),
        None => first.why.clone(),
    };
    let default_arguments = tool.default_arguments(arguments);
    let asked = ApprovalPrompt {
        agent: &first.agent,
        why: &reason,
        default_arguments: &default_arguments,
        offers: &offers,
        preview: preview.as_deref(),
    };
    match approval_request::answer(context, tool, arguments, asked).await? {
        ApprovalAnswer::Allow { scope, covers } => {
            let paths_now = resolve_paths(context, tool, arguments).await?;
            let is_changed = paths_now != *paths
                || CallSnapshot::capture(context, tool, arguments, &paths_now).await != snapshot
                || approval_request::preview(context, tool, arguments).await != preview;
            if is_changed {
                return Err(changed_during_request_error(context, tool));
            }
            let is_offered = offers.iter().any(|offer| offer.covers == covers);
            let covers = if is_offered && scope != ApprovalDuration::Once {
                covers
            } else {
                ApprovalCoverage::Call
            };
            let grants = wanted
                .iter()
                .filter_map(|(verdict, call)| verdict.reach.grants_for(covers, call, has_sandbox));
            let grants: Vec<ApprovalGrant> = grants.flatten().collect();
            if snapshot.permits(covers) {
                grants::remember(context, scope, grants).await;
            }
            Ok(GivenApprovals {
                run_mode: wanted.iter().fold(run_mode, |mode, (verdict, _)| {
                    mode.and(verdict.reach.run_mode(covers))
                }),
                approved_files,
                approved_code,
            })
        }
        ApprovalAnswer::Deny if context.cancel.is_cancelled() => {
            let message = format!("{} was cancelled during its approval request", tool.name);
            Err(HandlerError::new(message).code(Code::TOOL_CANCELLED))
        }
        ApprovalAnswer::Deny => Err(denied_error(
            context,
            tool,
            "the approval request was refused",
            DenialRemedy::Ask,
            None,
        )),
        ApprovalAnswer::NobodyThere => {
            let reason = format!(
                "it needs an approval and no user can answer (Agent/{}: {reason})",
                first.agent
            );
            Err(denied_error(
                context,
                tool,
                &reason,
                DenialRemedy::Approve,
                first.rule.as_deref(),
            ))
        }
    }
}

/// Returns the error for an approved call that is no longer the shown one.
fn changed_during_request_error(context: &ToolCallContext, tool: &RegisteredTool) -> HandlerError {
    let reason = "the files or directories that it uses changed during the approval request";
    denied_error(context, tool, reason, DenialRemedy::Ask, None)
}

/// Returns the error for a call that needs an approval and names a file through a link of a process.
fn path_of_process_error(tool: &RegisteredTool, path: &str) -> HandlerError {
    HandlerError::new(format!(
        "no approval can cover {}, because `{path}` leads to another file in each process",
        tool.name
    ))
    .code(Code::TOOL_DENIED)
    .suggest("Name the file by its plain path, without `/proc` and `/dev/fd`.")
}

/// Returns the error for a call that can run any file of a directory with too many files.
fn too_large_error(tool: &RegisteredTool, folder: &Path) -> HandlerError {
    HandlerError::new(format!(
        "no approval can cover {}, because the call does not name the files that it runs, and \
        `{}` has too many files to compare them",
        tool.name,
        folder.display()
    ))
    .code(Code::TOOL_DENIED)
    .suggest("Name the files by their plain paths, without variables and patterns.")
}

/// Returns the error for a call with too many paths.
fn too_many_paths() -> HandlerError {
    HandlerError::new(format!("the call names more than {MAX_CALL_PATHS} paths"))
        .code(Code::TOOL_INVALID_ARGS)
        .suggest("Split the call into several calls.")
}

/// Decision of one agent's policy.
struct PermissionVerdict {
    agent: String,
    action: PermissionAction,
    /// Empty if the call is allowed.
    why: String,
    /// Run mode that the policy requires.
    run_mode: RunMode,
    /// Rule that would allow the call; `None` if a rule with the tool name is enough.
    rule: Option<String>,
    /// The approval is required because of untrusted content.
    is_untrusted: bool,
    /// Scopes that an approval may have.
    reach: GrantScope,
}

/// Returns the decisions of the agent and its callers, nearest caller last (rule S1b). The agent's
/// own policy is from the generation of the turn; policies of callers are current.
async fn collect_verdicts(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    needs: &BTreeSet<Permission>,
    arguments: &JsonObject,
    places: &ResolvedPaths,
) -> Vec<PermissionVerdict> {
    let marked = &tool.marked_arguments;
    let own_paths = places.arguments();
    let is_answer = context
        .facts
        .answer_call
        .as_ref()
        .is_some_and(|call| call.covers(tool.builtin.as_deref(), arguments));
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
        let mut decision = policy::decide(permissions, question);
        if is_answer && decision.asks_without_rule() {
            decision.action = PermissionAction::Allow;
        }
        let asked = places.approval_reason(permissions, question, &decision);
        asked
            .map(|asked| path_verdict(&agent.name, asked))
            .unwrap_or_else(|| {
                let asks = decision.action == PermissionAction::Ask;
                let reach = asks.then(|| {
                    let scope = GrantScope::for_decision(
                        permissions,
                        question,
                        &decision,
                        tool.builtin.is_some(),
                    );
                    places.limit(scope, permissions, question, &decision)
                });
                PermissionVerdict {
                    reach: reach.unwrap_or_default(),
                    ..verdict_for(&agent.name, &decision)
                }
            })
    };
    let mut verdicts = vec![verdict(&context.facts.agent, own_paths)];
    let generation = context.engine.generation.load();
    for (caller, instance) in context.facts.narrowing_agents() {
        verdicts.push(match generation.agent(caller) {
            Some(caller) => verdict(
                caller,
                &paths_for_caller(own_paths, context, caller, instance),
            ),
            // The policy of a removed agent is no longer known.
            None => PermissionVerdict {
                agent: caller.to_owned(),
                action: if needs.is_empty() {
                    PermissionAction::Allow
                } else {
                    PermissionAction::Ask
                },
                why: "the agent is no longer part of the swarm".to_owned(),
                run_mode: RunMode::Shell,
                rule: None,
                is_untrusted: false,
                reach: GrantScope::default(),
            },
        });
    }
    drop(generation);
    let acts = [Permission::Execute, Permission::Write, Permission::Network];
    // An automatic answer also contains what the conversation has read.
    if !is_answer
        && acts.iter().any(|one| needs.contains(one))
        && let Some(origin) =
            untrusted_content::find_origin(&context.engine, &context.facts.instance).await
    {
        verdicts.push(PermissionVerdict {
            agent: context.facts.instance.agent.clone(),
            action: PermissionAction::Ask,
            why: format!("the conversation has read untrusted output of {origin}"),
            run_mode: RunMode::Shell,
            rule: None,
            is_untrusted: true,
            reach: GrantScope::default(),
        });
    }
    verdicts
}

/// Resolves the paths of a call on a blocking thread.
async fn resolve_paths(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    arguments: &JsonObject,
) -> Result<ResolvedPaths, HandlerError> {
    let marked = &tool.marked_arguments;
    let redirections = RedirectionTargets::from_arguments(marked, arguments, MAX_CALL_PATHS);
    let has_paths =
        !marked.paths.is_empty() || !marked.trees.is_empty() || !marked.patches.is_empty();
    let reporter = Arc::new(ToolCallReporter::for_call(context, tool));
    let tool_context = tool_context(context, tool, context.cancel.child_token(), reporter);
    let written = tool.handler.written_files(&tool_context, arguments).await;
    if !has_paths && redirections.is_empty() && written.is_empty() {
        return Ok(ResolvedPaths::default());
    }
    if PathArguments::count(marked, arguments) > MAX_CALL_PATHS {
        return Err(too_many_paths());
    }
    let (folder, owned_marked, owned_arguments) = (
        context.facts.workdir.clone(),
        marked.clone(),
        arguments.clone(),
    );
    let own_folder = context.engine.store.workdir(&context.facts.instance);
    let spec = &tool.spec;
    let mut permissions = spec.permissions.iter().chain(&spec.optional_permissions);
    let can_write = permissions.any(|permission| *permission == Permission::Write)
        || !redirections.is_empty()
        || !written.is_empty();
    let (generation, is_builtin) = (
        context.engine.generation.load_full(),
        tool.builtin.is_some(),
    );
    let resolving = tokio::task::spawn_blocking(move || {
        let environment = PathEnvironment {
            bundle: &generation.bundle,
            workdir: &folder,
            own_folder: &own_folder,
            is_builtin,
            can_write,
        };
        ResolvedPaths::with(
            &environment,
            &owned_marked,
            &owned_arguments,
            &redirections,
            &written,
        )
    });
    Ok(resolving
        .await
        .unwrap_or_else(|_| ResolvedPaths::by_text(marked, arguments)))
}

/// Returns the paths relative to the working directory of a calling agent. Its rule `out/*` does
/// not allow an `out` directory of the called agent.
///
/// If both agents use a separate directory per conversation, these count as the same directory.
fn paths_for_caller<'p>(
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
        (AgentWorkdir::Instance, None) => None,
        (_, instance) => Some(engine.workdir(agent, instance.unwrap_or(&facts.instance), None)),
    };
    if folder.as_ref() == Some(&facts.workdir) {
        return Cow::Borrowed(paths);
    }
    let folder = folder.map(|folder| real_path(&folder).unwrap_or(folder));
    Cow::Owned(paths.seen_from(folder.as_deref()))
}

/// Returns the decision for a call that the rules allow, but that names a protected path.
fn path_verdict(agent: &str, reason: ApprovalReason) -> PermissionVerdict {
    PermissionVerdict {
        agent: agent.to_owned(),
        action: PermissionAction::Ask,
        why: reason.why,
        rule: reason.rule,
        is_untrusted: false,
        run_mode: RunMode::Shell,
        reach: GrantScope::default(),
    }
}

/// Returns the sandboxes of the agent and its callers.
pub(crate) fn sandboxes(context: &ToolCallContext) -> Vec<SandboxSettings> {
    sandboxes_of(&context.engine, &context.facts)
}

/// Returns the sandboxes for all calls of a turn.
pub(crate) fn sandboxes_of(engine: &Engine, facts: &TurnScope) -> Vec<SandboxSettings> {
    let generation = engine.generation.load();
    let callers = facts
        .narrowing_agents()
        .filter_map(|(caller, _)| generation.agent(caller));
    let agents = std::iter::once(&facts.agent).chain(callers);
    let mut sandboxes: Vec<SandboxSettings> = Vec::new();
    for sandbox in agents.filter_map(|agent| agent.permissions.as_ref()?.sandbox.as_ref()) {
        if !sandboxes.contains(sandbox) {
            sandboxes.push(sandbox.clone());
        }
    }
    sandboxes
}

/// Returns the verdict for the decision of a policy.
fn verdict_for(agent: &str, decision: &PolicyDecision) -> PermissionVerdict {
    let reason = if decision.action == PermissionAction::Allow {
        String::new()
    } else {
        restriction_reason(decision)
    };
    PermissionVerdict {
        agent: agent.to_owned(),
        action: decision.action,
        why: reason,
        run_mode: decision.run_mode(),
        rule: None,
        is_untrusted: false,
        reach: GrantScope::default(),
    }
}

fn restriction_reason(decision: &PolicyDecision) -> String {
    let about = decision
        .parts
        .iter()
        .find(|part| part.action == decision.action && part.action != PermissionAction::Allow);
    let rule = match &decision.because {
        DecisionReason::Unstated => "it states no permissions".to_owned(),
        DecisionReason::Default => "no rule matches, so its `default` applies".to_owned(),
        DecisionReason::Rule { written, .. } | DecisionReason::Doubt { written } => {
            match &written.0 {
                Some((file, at)) => format!("by the rule at {file}:{}", at.line),
                None => "without a `default`, execute and network need approval".to_owned(),
            }
        }
    };
    about.map_or(rule.clone(), |part| {
        format!("`{}`: {rule}", part.part.shown)
    })
}

/// Possible ways to get a denied call allowed.
#[derive(Clone, Copy)]
enum DenialRemedy {
    /// Only a policy change.
    Rule,
    /// Another answer.
    Ask,
    /// An answer, or a policy that allows the call.
    Approve,
}

/// Returns the error for a denied call. `remedy`: the remedy in the suggestion; `rule`: the rule that
/// would allow the call.
fn denied_error(
    context: &ToolCallContext,
    tool: &RegisteredTool,
    why: &str,
    remedy: DenialRemedy,
    rule: Option<&str>,
) -> HandlerError {
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
    let suggestion = match remedy {
        DenialRemedy::Rule => {
            format!("The user can allow it: {rule}. `gdn policy explain` shows which rule decides.")
        }
        DenialRemedy::Ask => "Use another way, or explain the need and try again.".to_owned(),
        DenialRemedy::Approve => format!(
            "The user can allow it: {rule}, run it where a user can answer (`gdn run` in a \
                terminal; an approval there can be permanent), or approve every request of a run \
                with `--yes`."
        ),
    };
    HandlerError::new(format!("{} was not run: {why}", tool.name))
        .code(Code::TOOL_DENIED)
        .suggest(suggestion)
}
