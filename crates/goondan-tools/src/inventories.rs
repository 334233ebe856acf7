//! Where the tools of other programs' inventories are here: for prompts that were written for those.

/// An inventory, and its tools with the exports that do their work.
pub(crate) type Inventory = (&'static str, &'static [(&'static str, &'static str)]);

/// All of them.
pub(crate) const INVENTORIES: &[Inventory] = &[
    (
        "The twenty tools",
        &[
            ("read", "fs__read"),
            ("write", "fs__write"),
            ("edit", "fs__edit"),
            ("apply_patch", "fs__apply_patch"),
            ("grep", "fs__grep"),
            ("glob", "fs__glob"),
            ("ls", "fs__ls"),
            ("exec", "runtime__exec"),
            ("process", "runtime__process"),
            ("cron", "automation__cron"),
            ("message", "messaging__message"),
            ("agents_list", "introspection__agents_list"),
            ("sessions_list", "sessions__list"),
            ("sessions_history", "sessions__history"),
            ("sessions_send", "sessions__send"),
            ("sessions_spawn", "sessions__spawn"),
            ("subagents", "sessions__subagents"),
            ("sessions_status", "sessions__status"),
            ("memory_search", "memory__search"),
            ("memory_get", "memory__get"),
        ],
    ),
    (
        "Tool.define",
        &[
            ("read", "fs__read"),
            ("write", "fs__write"),
            ("edit", "fs__edit"),
            ("glob", "fs__glob"),
            ("grep", "fs__grep"),
            ("list", "fs__ls"),
            ("bash", "bash__exec"),
            ("task", "task__run"),
            ("todowrite", "todo__write"),
            ("todoread", "todo__read"),
            ("webfetch", "web__fetch"),
        ],
    ),
    (
        "Squad",
        &[
            ("squad_route", "squad__route"),
            ("squad_decide", "squad__decide"),
            ("squad_memory", "squad__memory"),
            ("squad_status", "squad__status"),
            ("squad_skill", "squad__skill"),
        ],
    ),
    ("Forge", &[("create_custom_tool", "custom-tools__create"), ("run_custom_tool", "custom-tools__run")]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_somewhere() {
        let manifests = crate::base_tools();
        let exports: Vec<String> = manifests
            .iter()
            .flat_map(|tool| tool.exports.iter().map(|export| format!("{}__{}", tool.name, export.name)))
            .collect();
        for (theirs, ours) in INVENTORIES.iter().flat_map(|(_, tools)| tools.iter()) {
            assert!(exports.iter().any(|export| export == ours), "{theirs} is {ours}, which is not there");
        }
    }
}
