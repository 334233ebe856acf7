//! Maps the tools of other programs to the built-in tools, for prompts written for those programs.

/// An inventory with its tools: their names, the equivalent exports, and a test case as evidence.
pub(crate) type Inventory = (
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

// Test cases that are the evidence of several tools.
const FILE_CASE: &str = "files-are-handled-with-arguments-that-make-sense";
const SMALL_TOOLS_CASE: &str = "small-tools-refuse-what-makes-no-sense";
const KEPT_NAMES_CASE: &str = "what-is-kept-is-kept-under-names-that-make-sense";
const AGENT_CASE: &str = "agents-are-told-with-arguments-that-make-sense";
const PROGRAM_CASE: &str = "programs-are-started-with-arguments-that-make-sense";
const READ_ONLY_SESSION_CASE: &str = "a-spawned-session-may-only-read";
const WEB_PAGE_CASE: &str = "pages-are-read-and-data-is-sent";
const MESSAGE_CASE: &str = "messages-and-work-reach-others";
const TASK_LIST_CASE: &str = "a-task-list-lasts-with-its-conversation";

pub(crate) const INVENTORIES: &[Inventory] = &[
    (
        "Goondan",
        &[
            ("agents__request", "agents__request", AGENT_CASE),
            ("agents__send", "agents__send", MESSAGE_CASE),
            ("agents__spawn", "agents__spawn", AGENT_CASE),
            ("agents__list", "agents__list", AGENT_CASE),
            ("agents__catalog", "agents__catalog", AGENT_CASE),
            ("bash__exec", "bash__exec", PROGRAM_CASE),
            ("bash__script", "bash__script", PROGRAM_CASE),
            ("file-system__read", "file-system__read", FILE_CASE),
            ("file-system__write", "file-system__write", FILE_CASE),
            ("file-system__list", "file-system__list", FILE_CASE),
            ("file-system__mkdir", "file-system__mkdir", FILE_CASE),
            ("http-fetch__get", "http-fetch__get", WEB_PAGE_CASE),
            ("http-fetch__post", "http-fetch__post", WEB_PAGE_CASE),
            ("json-query__query", "json-query__query", SMALL_TOOLS_CASE),
            ("json-query__pick", "json-query__pick", SMALL_TOOLS_CASE),
            ("json-query__count", "json-query__count", SMALL_TOOLS_CASE),
            (
                "json-query__flatten",
                "json-query__flatten",
                SMALL_TOOLS_CASE,
            ),
            (
                "self-restart__request",
                "self-restart__request",
                "a-turn-reloads-the-swarm-that-it-runs-in",
            ),
            (
                "text-transform__replace",
                "text-transform__replace",
                SMALL_TOOLS_CASE,
            ),
            (
                "text-transform__slice",
                "text-transform__slice",
                SMALL_TOOLS_CASE,
            ),
            (
                "text-transform__split",
                "text-transform__split",
                SMALL_TOOLS_CASE,
            ),
            (
                "text-transform__join",
                "text-transform__join",
                SMALL_TOOLS_CASE,
            ),
            (
                "text-transform__trim",
                "text-transform__trim",
                SMALL_TOOLS_CASE,
            ),
            (
                "text-transform__case",
                "text-transform__case",
                SMALL_TOOLS_CASE,
            ),
            ("wait__seconds", "wait__seconds", SMALL_TOOLS_CASE),
        ],
    ),
    (
        "The twenty tools",
        &[
            ("read", "fs__read", FILE_CASE),
            ("write", "fs__write", FILE_CASE),
            ("edit", "fs__edit", FILE_CASE),
            ("apply_patch", "fs__apply_patch", FILE_CASE),
            ("grep", "fs__grep", FILE_CASE),
            ("glob", "fs__glob", FILE_CASE),
            ("ls", "fs__ls", FILE_CASE),
            ("exec", "runtime__exec", PROGRAM_CASE),
            (
                "process",
                "runtime__process",
                "a-background-process-is-looked-after",
            ),
            (
                "cron",
                "automation__cron",
                "jobs-have-schedules-that-can-be-met",
            ),
            (
                "message",
                "messaging__message",
                "messages-go-over-channels-that-are-set-up",
            ),
            ("agents_list", "introspection__agents_list", AGENT_CASE),
            ("sessions_list", "sessions__list", AGENT_CASE),
            (
                "sessions_history",
                "sessions__history",
                READ_ONLY_SESSION_CASE,
            ),
            ("sessions_send", "sessions__send", READ_ONLY_SESSION_CASE),
            ("sessions_spawn", "sessions__spawn", MESSAGE_CASE),
            ("subagents", "sessions__subagents", READ_ONLY_SESSION_CASE),
            (
                "sessions_status",
                "sessions__status",
                "a-session-tells-what-it-has-used-up",
            ),
            ("memory_search", "memory__search", KEPT_NAMES_CASE),
            ("memory_get", "memory__get", KEPT_NAMES_CASE),
        ],
    ),
    (
        "Tool.define",
        &[
            ("read", "fs__read", FILE_CASE),
            ("write", "fs__write", FILE_CASE),
            ("edit", "fs__edit", FILE_CASE),
            ("glob", "fs__glob", FILE_CASE),
            ("grep", "fs__grep", FILE_CASE),
            ("list", "fs__ls", FILE_CASE),
            ("bash", "bash__exec", PROGRAM_CASE),
            ("task", "task__run", MESSAGE_CASE),
            ("todowrite", "todo__write", TASK_LIST_CASE),
            ("todoread", "todo__read", TASK_LIST_CASE),
            ("webfetch", "web__fetch", WEB_PAGE_CASE),
        ],
    ),
    (
        "Squad",
        &[
            ("squad_route", "squad__route", KEPT_NAMES_CASE),
            ("squad_decide", "squad__decide", KEPT_NAMES_CASE),
            ("squad_memory", "squad__memory", KEPT_NAMES_CASE),
            ("squad_status", "squad__status", KEPT_NAMES_CASE),
            ("squad_skill", "squad__skill", KEPT_NAMES_CASE),
        ],
    ),
    (
        "Forge",
        &[
            (
                "create_custom_tool",
                "custom-tools__create",
                KEPT_NAMES_CASE,
            ),
            ("run_custom_tool", "custom-tools__run", KEPT_NAMES_CASE),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Tools for external platforms, which have no test cases but tests with a mock server.
    const PLATFORMS: [&str; 4] = ["discord__", "github__", "telegram__", "slack__"];
    const PLATFORM_TESTS: &str = concat!(
        include_str!("../tests/tools/chat.rs"),
        include_str!("../tests/tools/discord.rs"),
        include_str!("../tests/tools/github.rs"),
    );

    /// The number of successful and failed calls of an export in test cases.
    #[derive(Default, Clone, Copy)]
    struct TestedCalls {
        ok: usize,
        error: usize,
    }

    /// Counts the calls by test case and export. A step is a line `- call: {tool: …}` followed by a
    /// line `expect: {status: …}`.
    fn tested_calls() -> BTreeMap<(String, String), TestedCalls> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let mut tested_calls: BTreeMap<(String, String), TestedCalls> = BTreeMap::new();
        for file in files {
            let mut case = String::new();
            let mut tool = None;
            for line in std::fs::read_to_string(file).unwrap().lines() {
                let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
                if let Some(name) = line.strip_prefix("case: ") {
                    name.clone_into(&mut case);
                } else if let Some(rest) = after("- call: {").and(after("tool: ")) {
                    // Two test cases register a built-in tool under another name.
                    let name = rest.split([',', '}']).next().unwrap_or_default();
                    tool = Some(
                        name.replace("outbox__", "messaging__")
                            .replace("wide__", "fs__"),
                    );
                } else if let Some((rest, tool)) = after("expect: {status: ").zip(tool.take()) {
                    let calls = tested_calls.entry((case.clone(), tool)).or_default();
                    calls.ok += usize::from(rest.starts_with("ok"));
                    calls.error += usize::from(rest.starts_with("error"));
                }
            }
        }
        tested_calls
    }

    fn exports() -> Vec<String> {
        let manifests = crate::base_tools();
        let name = |tool: &str, export: &str| format!("{tool}__{export}");
        manifests
            .iter()
            .flat_map(|tool| {
                tool.exports
                    .iter()
                    .map(|export| name(&tool.name, &export.name))
            })
            .collect()
    }

    #[test]
    fn each_mapped_export_exists_and_succeeds_in_its_test_case() {
        let (exports, tested_calls) = (exports(), tested_calls());
        for (theirs, ours, case) in INVENTORIES.iter().flat_map(|(_, tools)| tools.iter()) {
            assert!(
                exports.iter().any(|export| export == ours),
                "{theirs} maps to {ours}, which does not exist"
            );
            let shown = tested_calls
                .get(&((*case).to_owned(), (*ours).to_owned()))
                .copied()
                .unwrap_or_default();
            assert!(
                shown.ok > 0,
                "the test case {case} has no successful call of {ours}"
            );
        }
    }

    #[test]
    fn every_export_has_a_success_and_three_errors_in_the_test_cases() {
        let tested_calls = tested_calls();
        for export in exports() {
            if PLATFORMS.iter().any(|tool| export.starts_with(tool)) {
                assert!(
                    PLATFORM_TESTS.contains(&format!("\"{export}\"")),
                    "no test calls {export}"
                );
                continue;
            }
            let of_export = tested_calls
                .iter()
                .filter(|((_, tool), _)| *tool == export)
                .map(|(_, calls)| calls);
            let (ok, error) =
                of_export.fold((0, 0), |(ok, error), one| (ok + one.ok, error + one.error));
            assert!(ok > 0, "no test case has a successful call of {export}");
            assert!(error >= 3, "only {error} test case calls of {export} fail");
        }
    }

    #[test]
    fn inventories_contain_no_duplicate_tools() {
        for (inventory, tools) in INVENTORIES {
            let mut names: Vec<_> = tools.iter().map(|(theirs, ..)| theirs).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), tools.len(), "{inventory}");
        }
        assert_eq!(
            INVENTORIES
                .iter()
                .map(|(_, tools)| tools.len())
                .collect::<Vec<_>>(),
            [25, 20, 11, 5, 2]
        );
    }
}
