//! Table of all built-in tools.

use crate::builtin_tool::BuiltinTool;
use crate::platforms::{discord, github, slack, telegram};
use crate::{
    agents, automation, bash, custom_tools, file_system, fs, http_fetch, introspection, json_query,
    memory, messaging, runtime, self_restart, sessions, squad, task, text_transform, todo,
    wait_tool, web,
};

/// All built-in tools in alphabetical order.
pub(crate) const BUILTINS: &[BuiltinTool] = &[
    agents::BUILTIN,
    automation::BUILTIN,
    bash::BUILTIN,
    custom_tools::BUILTIN,
    discord::BUILTIN,
    file_system::BUILTIN,
    fs::BUILTIN,
    github::BUILTIN,
    http_fetch::BUILTIN,
    introspection::BUILTIN,
    json_query::BUILTIN,
    memory::BUILTIN,
    messaging::BUILTIN,
    runtime::BUILTIN,
    self_restart::BUILTIN,
    sessions::BUILTIN,
    slack::BUILTIN,
    squad::BUILTIN,
    task::BUILTIN,
    telegram::BUILTIN,
    text_transform::BUILTIN,
    todo::BUILTIN,
    wait_tool::BUILTIN,
    web::BUILTIN,
];
