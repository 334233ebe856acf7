//! Maps the tools of other programs to the built-in tools, for prompts written for those programs.

/// An inventory with its tools: their names, the equivalent exports, and a test case as evidence.
pub(crate) type Inventory = (
    &'static str,
    &'static [(&'static str, &'static str, &'static str)],
);

pub(crate) const INVENTORIES: &[Inventory] = &[
    (
        "Goondan",
        &[
            (
                "agents__request",
                "agents__request",
                "agents-are-told-with-arguments-that-make-sense",
            ),
            (
                "agents__send",
                "agents__send",
                "messages-and-work-reach-others",
            ),
            (
                "agents__spawn",
                "agents__spawn",
                "agents-are-told-with-arguments-that-make-sense",
            ),
            (
                "agents__list",
                "agents__list",
                "agents-are-told-with-arguments-that-make-sense",
            ),
            (
                "agents__catalog",
                "agents__catalog",
                "agents-are-told-with-arguments-that-make-sense",
            ),
            (
                "bash__exec",
                "bash__exec",
                "programs-are-started-with-arguments-that-make-sense",
            ),
            (
                "bash__script",
                "bash__script",
                "programs-are-started-with-arguments-that-make-sense",
            ),
            (
                "file-system__read",
                "file-system__read",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "file-system__write",
                "file-system__write",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "file-system__list",
                "file-system__list",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "file-system__mkdir",
                "file-system__mkdir",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "http-fetch__get",
                "http-fetch__get",
                "pages-are-read-and-data-is-sent",
            ),
            (
                "http-fetch__post",
                "http-fetch__post",
                "pages-are-read-and-data-is-sent",
            ),
            (
                "json-query__query",
                "json-query__query",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "json-query__pick",
                "json-query__pick",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "json-query__count",
                "json-query__count",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "json-query__flatten",
                "json-query__flatten",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "self-restart__request",
                "self-restart__request",
                "a-turn-reloads-the-swarm-that-it-runs-in",
            ),
            (
                "text-transform__replace",
                "text-transform__replace",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "text-transform__slice",
                "text-transform__slice",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "text-transform__split",
                "text-transform__split",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "text-transform__join",
                "text-transform__join",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "text-transform__trim",
                "text-transform__trim",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "text-transform__case",
                "text-transform__case",
                "small-tools-refuse-what-makes-no-sense",
            ),
            (
                "wait__seconds",
                "wait__seconds",
                "small-tools-refuse-what-makes-no-sense",
            ),
        ],
    ),
    (
        "The twenty tools",
        &[
            (
                "read",
                "fs__read",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "write",
                "fs__write",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "edit",
                "fs__edit",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "apply_patch",
                "fs__apply_patch",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "grep",
                "fs__grep",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "glob",
                "fs__glob",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "ls",
                "fs__ls",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "exec",
                "runtime__exec",
                "programs-are-started-with-arguments-that-make-sense",
            ),
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
            (
                "agents_list",
                "introspection__agents_list",
                "agents-are-told-with-arguments-that-make-sense",
            ),
            (
                "sessions_list",
                "sessions__list",
                "agents-are-told-with-arguments-that-make-sense",
            ),
            (
                "sessions_history",
                "sessions__history",
                "a-spawned-session-may-only-read",
            ),
            (
                "sessions_send",
                "sessions__send",
                "a-spawned-session-may-only-read",
            ),
            (
                "sessions_spawn",
                "sessions__spawn",
                "messages-and-work-reach-others",
            ),
            (
                "subagents",
                "sessions__subagents",
                "a-spawned-session-may-only-read",
            ),
            (
                "sessions_status",
                "sessions__status",
                "a-session-tells-what-it-has-used-up",
            ),
            (
                "memory_search",
                "memory__search",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
            (
                "memory_get",
                "memory__get",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
        ],
    ),
    (
        "Tool.define",
        &[
            (
                "read",
                "fs__read",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "write",
                "fs__write",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "edit",
                "fs__edit",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "glob",
                "fs__glob",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "grep",
                "fs__grep",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "list",
                "fs__ls",
                "files-are-handled-with-arguments-that-make-sense",
            ),
            (
                "bash",
                "bash__exec",
                "programs-are-started-with-arguments-that-make-sense",
            ),
            ("task", "task__run", "messages-and-work-reach-others"),
            (
                "todowrite",
                "todo__write",
                "a-task-list-lasts-with-its-conversation",
            ),
            (
                "todoread",
                "todo__read",
                "a-task-list-lasts-with-its-conversation",
            ),
            ("webfetch", "web__fetch", "pages-are-read-and-data-is-sent"),
        ],
    ),
    (
        "Squad",
        &[
            (
                "squad_route",
                "squad__route",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
            (
                "squad_decide",
                "squad__decide",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
            (
                "squad_memory",
                "squad__memory",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
            (
                "squad_status",
                "squad__status",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
            (
                "squad_skill",
                "squad__skill",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
        ],
    ),
    (
        "Forge",
        &[
            (
                "create_custom_tool",
                "custom-tools__create",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
            (
                "run_custom_tool",
                "custom-tools__run",
                "what-is-kept-is-kept-under-names-that-make-sense",
            ),
        ],
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Tools for external platforms, which have no test cases but tests with a mock server.
    const PLATFORMS: [&str; 4] = ["discord__", "github__", "telegram__", "slack__"];
    const ON_PLATFORMS: &str = concat!(
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

    /// Counts the calls by case and export. A step is a line `- call: {tool: …}` followed by a line
    /// `expect: {status: …}`.
    fn tried() -> BTreeMap<(String, String), TestedCalls> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        let mut tried: BTreeMap<(String, String), TestedCalls> = BTreeMap::new();
        for file in files {
            let (mut case, mut tool) = (String::new(), None);
            for line in std::fs::read_to_string(file).unwrap().lines() {
                let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
                if let Some(name) = line.strip_prefix("case: ") {
                    name.clone_into(&mut case);
                } else if let Some(rest) = after("- call: {").and(after("tool: ")) {
                    // Two cases give a built-in tool another name.
                    let name = rest.split([',', '}']).next().unwrap_or_default();
                    tool = Some(
                        name.replace("outbox__", "messaging__")
                            .replace("wide__", "fs__"),
                    );
                } else if let Some((rest, tool)) = after("expect: {status: ").zip(tool.take()) {
                    let one = tried.entry((case.clone(), tool)).or_default();
                    one.ok += usize::from(rest.starts_with("ok"));
                    one.error += usize::from(rest.starts_with("error"));
                }
            }
        }
        tried
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
    fn every_tool_is_somewhere_and_its_case_shows_it() {
        let (exports, tried) = (exports(), tried());
        for (theirs, ours, case) in INVENTORIES.iter().flat_map(|(_, tools)| tools.iter()) {
            assert!(
                exports.iter().any(|export| export == ours),
                "{theirs} is {ours}, which is not there"
            );
            let shown = tried
                .get(&((*case).to_owned(), (*ours).to_owned()))
                .copied()
                .unwrap_or_default();
            assert!(shown.ok > 0, "{case} does not have {ours} succeed");
        }
    }

    #[test]
    fn every_export_succeeds_in_a_case_and_refuses_three_kinds_of_bad_input() {
        let tried = tried();
        for export in exports() {
            if PLATFORMS.iter().any(|tool| export.starts_with(tool)) {
                assert!(
                    ON_PLATFORMS.contains(&format!("\"{export}\"")),
                    "{export} is called by no test"
                );
                continue;
            }
            let of_export = tried
                .iter()
                .filter(|((_, tool), _)| *tool == export)
                .map(|(_, tried)| tried);
            let (ok, error) =
                of_export.fold((0, 0), |(ok, error), one| (ok + one.ok, error + one.error));
            assert!(ok > 0, "{export} succeeds in no case");
            assert!(error >= 3, "{export} refuses bad input {error} times");
        }
    }

    #[test]
    fn no_tool_of_an_inventory_stands_there_twice() {
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
