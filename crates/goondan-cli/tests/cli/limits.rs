//! `docs/limits.md` names the numbers of the program: each row is held against the schema or the source that says it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use goondan::internal::schemas;
use serde_json::Value;

/// Rows whose limit is a constant: the first cell, the end of the source's path, and the name of the constant or field.
const CONSTANTS: &[(&str, &str, &str)] = &[
    (
        "lines that `gdn serve` prints in 10 s about approvals, failed turns and answers",
        "serve/activity_lines.rs",
        "MAX_LINES",
    ),
    (
        "characters of such a line",
        "serve/activity_lines.rs",
        "MAX_LINE_CHARS",
    ),
    (
        "existing files that `gdn init` names in a warning",
        "init/mod.rs",
        "MAX_NAMED_FILES",
    ),
    (
        "tool calls that one answer of a model may ask for",
        "step.rs",
        "MAX_CALLS_PER_ANSWER",
    ),
    (
        "bytes of all recorded model calls",
        "goondan-core/src/model_calls.rs",
        "MAX_LOG_BYTES",
    ),
    (
        "bytes of a request body that the studio can show",
        "goondan-core/src/model_calls.rs",
        "MAX_RECORDED_BODY_BYTES",
    ),
    (
        "bytes of a response body that the studio can show",
        "goondan-core/src/model_calls.rs",
        "MAX_RECORDED_RESPONSE_BYTES",
    ),
    (
        "bytes of a line of a running command in an event",
        "tooling/live_output.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "bytes of the lines of a running command in an event",
        "tooling/live_output.rs",
        "MAX_UPDATE_BYTES",
    ),
    (
        "empty answers of a model in a row",
        "turn/mod.rs",
        "MAX_EMPTY_ANSWERS",
    ),
    (
        "bytes of the files that `prompt.instructions` finds, together",
        "kinds/instructions.rs",
        "MAX_INSTRUCTION_BYTES",
    ),
    (
        "folders that are looked into, from the working folder upwards",
        "kinds/instructions.rs",
        "MAX_SEARCHED_DIRECTORIES",
    ),
    (
        "bytes of such files below the working folder that one step tells",
        "turn/instructions.rs",
        "MAX_NESTED_INSTRUCTION_BYTES",
    ),
    ("skills of an agent", "kinds/skill.rs", "MAX_SKILLS"),
    (
        "process ends in a row during the same tool call, with no other unfinished turn",
        "turn/poison.rs",
        "MAX_ENDS_ALONE",
    ),
    (
        "process ends in a row at the same place of a turn",
        "turn/poison.rs",
        "MAX_ENDS",
    ),
    (
        "wait of such a turn after 4 ends (after 2 with no other unfinished turn)",
        "turn/poison.rs",
        "FIRST_WAIT",
    ),
    (
        "bytes of the archive of a package",
        "archive/mod.rs",
        "MAX_ARCHIVE_BYTES",
    ),
    (
        "bytes of a package, unpacked",
        "goondan-spec/src/content_hash.rs",
        "MAX_PACKAGE_BYTES",
    ),
    (
        "files and folders of a package",
        "goondan-spec/src/content_hash.rs",
        "MAX_PACKAGE_ENTRIES",
    ),
    (
        "depth of folders in a package",
        "goondan-spec/src/content_hash.rs",
        "MAX_PACKAGE_DEPTH",
    ),
    (
        "times its size that an archive may unpack to, beyond the first 16 MiB",
        "archive/unpack.rs",
        "MAX_COMPRESSION_RATIO",
    ),
    (
        "packages of a project",
        "goondan-packages/src/dependency_resolution.rs",
        "MAX_PACKAGES",
    ),
    (
        "bytes of an answer of a registry that is no archive",
        "goondan-packages/src/http.rs",
        "MAX_TEXT_RESPONSE_BYTES",
    ),
    (
        "attempts of a request that a registry defers (429 and 503)",
        "goondan-packages/src/http.rs",
        "MAX_ATTEMPTS",
    ),
    (
        "longest wait that a registry may request",
        "goondan-packages/src/http.rs",
        "MAX_WAIT",
    ),
    (
        "time to reach a registry",
        "goondan-packages/src/http.rs",
        "CONNECT_TIMEOUT",
    ),
    (
        "time that a registry may keep silent",
        "goondan-packages/src/http.rs",
        "READ_TIMEOUT",
    ),
    (
        "time of a request to a registry",
        "goondan-packages/src/http.rs",
        "REQUEST_TIMEOUT",
    ),
    (
        "time of a call of a credential helper",
        "credentials/credential_helper.rs",
        "HELPER_TIMEOUT",
    ),
    (
        "bytes that a credential helper answers",
        "credentials/credential_helper.rs",
        "MAX_HELPER_RESPONSE_BYTES",
    ),
    (
        "time of a call of git for a package",
        "sources/git.rs",
        "GIT_COMMAND_TIMEOUT",
    ),
    (
        "characters of a skill's `name`",
        "kinds/skill.rs",
        "MAX_SKILL_NAME_CHARS",
    ),
    (
        "characters of a skill's `description`",
        "kinds/skill.rs",
        "MAX_SKILL_DESCRIPTION_CHARS",
    ),
    (
        "characters of a skill's `compatibility`",
        "kinds/skill.rs",
        "MAX_SKILL_COMPATIBILITY_CHARS",
    ),
    (
        "bytes of a file that `skills__load` reads",
        "tooling/skills.rs",
        "MAX_SKILL_FILE_BYTES",
    ),
    (
        "files of a skill that `skills__load` names",
        "tooling/skills.rs",
        "MAX_LISTED_FILES",
    ),
    (
        "levels of folders in a skill in which it looks for them",
        "tooling/skills.rs",
        "MAX_LISTED_DEPTH",
    ),
    (
        "events that wait at one instance",
        "submit_error.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "bytes of all events that wait in a swarm",
        "pending.rs",
        "MAX_PENDING_BYTES",
    ),
    ("bytes of one event", "pending.rs", "MAX_EVENT_BYTES"),
    (
        "bytes of an event's metadata",
        "pending.rs",
        "MAX_METADATA_BYTES",
    ),
    (
        "bytes of an instance key",
        "submit_error.rs",
        "MAX_KEY_BYTES",
    ),
    (
        "bytes of an event's type",
        "reserved_names.rs",
        "MAX_EVENT_TYPE_BYTES",
    ),
    (
        "time that `agents__request` waits for an answer (`timeoutMs`)",
        "tooling/agents.rs",
        "DEFAULT_REQUEST_TIMEOUT",
    ),
    (
        "failed events that an instance keeps for `gdn conversation retry`",
        "failed_events.rs",
        "MAX_DEAD_LETTERS",
    ),
    (
        "pause before a turn that met a full disk is tried again",
        "stalled.rs",
        "FIRST_RETRY_DELAY",
    ),
    ("longest such pause", "stalled.rs", "MAX_RETRY_DELAY"),
    (
        "jobs of `automation__cron` in a conversation",
        "schedule/job_operations.rs",
        "MAX_JOBS",
    ),
    (
        "bytes of a line of `--input-format stream-json`",
        "serve/lines.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "lines of `stream-json` that are read ahead",
        "serve/lines.rs",
        "MAX_LINES_AHEAD",
    ),
    (
        "spans that wait for a receiver (`OTEL_BSP_MAX_QUEUE_SIZE`)",
        "goondan-telemetry/src/settings/mod.rs",
        "DEFAULT_QUEUE_SPANS",
    ),
    (
        "spans in one request (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`)",
        "goondan-telemetry/src/settings/mod.rs",
        "DEFAULT_BATCH_SPANS",
    ),
    (
        "time that a span waits for others (`OTEL_BSP_SCHEDULE_DELAY`)",
        "goondan-telemetry/src/settings/mod.rs",
        "DEFAULT_SCHEDULE_DELAY",
    ),
    (
        "pause before a receiver that takes nothing is tried again",
        "goondan-telemetry/src/exporter/mod.rs",
        "MIN_RETRY_DELAY",
    ),
    (
        "longest such pause for a receiver",
        "goondan-telemetry/src/exporter/mod.rs",
        "MAX_RETRY_DELAY",
    ),
    (
        "time for the last spans when the swarm ends",
        "goondan-telemetry/src/exporter/mod.rs",
        "FINAL_EXPORT_TIMEOUT",
    ),
    (
        "the same, if the receiver has not answered before",
        "goondan-telemetry/src/exporter/mod.rs",
        "FINAL_EXPORT_TIMEOUT_IF_DOWN",
    ),
    (
        "bytes of the messages of a question that a span holds, if contents are sent",
        "turn/prompt_excerpt.rs",
        "MAX_EXCERPT_BYTES",
    ),
    (
        "turns, steps and tool calls that have begun and not ended",
        "goondan-telemetry/src/spans/mod.rs",
        "MAX_OPEN_SPANS",
    ),
    (
        "time for the body of a request to a connection",
        "platforms/request_body.rs",
        "REQUEST_BODY_TIMEOUT",
    ),
    (
        "time in which the messages of an album arrive",
        "goondan-connect/src/albums.rs",
        "ALBUM_WAIT",
    ),
    (
        "characters of a message that is forwarded or replied to",
        "goondan-connect/src/event.rs",
        "MAX_QUOTED_CHARS",
    ),
    (
        "age of a signed request",
        "goondan-connect/src/signature.rs",
        "MAX_CLOCK_DIFFERENCE",
    ),
    (
        "questions of a library with a connector that wait for their answers",
        "goondan-dylib/src/tool_host.rs",
        "MAX_OPEN_REQUESTS",
    ),
    (
        "strangers that a connection lists",
        "goondan-connect/src/allowed_senders.rs",
        "MAX_PENDING_SENDERS",
    ),
    (
        "answers that a connection remembers after they were sent",
        "goondan-connect/src/outbox.rs",
        "MAX_REMEMBERED_REPLIES",
    ),
    (
        "tries to send a message that has not arrived",
        "goondan-connect/src/delivery.rs",
        "MAX_SEND_ATTEMPTS",
    ),
    (
        "time for answers to be sent when the command ends",
        "goondan-connect/src/connections.rs",
        "REPLY_DRAIN_TIMEOUT",
    ),
    (
        "longest pause before a connection that fails starts again",
        "goondan-connect/src/receive_supervisor.rs",
        "MAX_RESTART_WAIT",
    ),
    (
        "properties of an event in the metadata of its message",
        "goondan-connect/src/event.rs",
        "MAX_PROPERTIES",
    ),
    (
        "characters of such a property",
        "goondan-connect/src/event.rs",
        "MAX_PROPERTY_CHARS",
    ),
    (
        "files of an event that are fetched",
        "goondan-connect/src/event_files.rs",
        "MAX_EVENT_FILES",
    ),
    (
        "bytes of such a file",
        "goondan-connect/src/event_files.rs",
        "MAX_EVENT_FILE_BYTES",
    ),
    (
        "bytes of all files of an event",
        "goondan-connect/src/event_files.rs",
        "MAX_EVENT_FILES_BYTES",
    ),
    (
        "time to fetch the files of an event (`discord`: 2 s)",
        "goondan-connect/src/event_files.rs",
        "EVENT_FILES_TIMEOUT",
    ),
    (
        "files of an answer that are sent",
        "goondan-connect/src/answer_files.rs",
        "MAX_ANSWER_FILES",
    ),
    (
        "bytes of such a file of an answer",
        "goondan-connect/src/answer_files.rs",
        "MAX_ANSWER_FILE_BYTES",
    ),
    (
        "time to send such a file",
        "goondan-connect/src/http.rs",
        "UPLOAD_TIMEOUT",
    ),
    (
        "bytes of a file that `discord__sendFile`, `slack__sendFile` and `telegram__sendFile` send",
        "platforms/file_transfer.rs",
        "MAX_SENT_FILE_BYTES",
    ),
    (
        "questions of a connection whose messages are remembered",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_REMEMBERED_MESSAGES",
    ),
    (
        "characters of a question in one message of a channel",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_MESSAGE_CHARS",
    ),
    (
        "messages of a question in a channel",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_REQUEST_MESSAGES",
    ),
    (
        "tries to put a question in a channel",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_POST_ATTEMPTS",
    ),
    (
        "bytes of a message over a WebSocket",
        "slack/socket.rs",
        "MAX_SOCKET_MESSAGE_BYTES",
    ),
    (
        "silence on a WebSocket before the other side is asked whether it is there",
        "slack/socket.rs",
        "PING_AFTER_SILENCE",
    ),
    (
        "events that a file in JavaScript or a library in Rust hands in at the same time",
        "shim/connectors.mjs",
        "MOST_EMITTED",
    ),
    (
        "lines that wait for a connection that reads them",
        "goondan-connect/src/console.rs",
        "MAX_BUFFERED_LINES",
    ),
    (
        "answers that wait for a file",
        "platforms/script.rs",
        "MAX_QUEUED_REPLIES",
    ),
    (
        "time for a file to take an answer",
        "platforms/script.rs",
        "REPLY_PICKUP_TIMEOUT",
    ),
    (
        "time for a file to send an answer",
        "platforms/script.rs",
        "REPLY_SEND_TIMEOUT",
    ),
    (
        "bytes of the `origin` of an event of a file",
        "platforms/script.rs",
        "MAX_ORIGIN_BYTES",
    ),
    (
        "bytes of a request to a connection (`github`: 25 MiB)",
        "platforms/mod.rs",
        "MAX_REQUEST_BODY_BYTES",
    ),
    (
        "time without progress after which an MCP client receives a notification",
        "mcp/running_call.rs",
        "HEARTBEAT_INTERVAL",
    ),
    (
        "events that are held for slow streams",
        "goondan-serve/src/hub.rs",
        "MAX_BUFFERED_EVENTS",
    ),
    (
        "codes of the studio that are open",
        "goondan-serve/src/studio/sign_in.rs",
        "MAX_OPEN_CODES",
    ),
    (
        "time for which a code of the studio works",
        "goondan-serve/src/studio/sign_in.rs",
        "CODE_LIFETIME",
    ),
    (
        "sessions of the studio",
        "goondan-serve/src/studio/sign_in.rs",
        "MAX_SESSIONS",
    ),
    (
        "reloads that `/api/reloads` remembers",
        "goondan-serve/src/reloads.rs",
        "MAX_RELOAD_RECORDS",
    ),
    (
        "time for connections to end with the server",
        "goondan-serve/src/server.rs",
        "SHUTDOWN_TIMEOUT",
    ),
    (
        "bytes of a body (`gdn serve --max-body`)",
        "goondan-serve/src/server.rs",
        "DEFAULT_MAX_BODY_BYTES",
    ),
    (
        "connections",
        "goondan-serve/src/server.rs",
        "DEFAULT_MAX_CONNECTIONS",
    ),
    (
        "time for the head of a request, and for a code of the studio",
        "goondan-serve/src/server.rs",
        "DEFAULT_HEAD_TIMEOUT",
    ),
    (
        "bytes of a body with a code of the studio",
        "goondan-serve/src/studio/mod.rs",
        "MAX_CODE_BODY_BYTES",
    ),
    (
        "bytes of a schema that an OpenAI client wants answers to fit",
        "openai/format.rs",
        "MAX_SCHEMA_BYTES",
    ),
    (
        "sessions that `squad__status` remembers of each conversation after a restart",
        "squad/routed_sessions.rs",
        "MAX_STORED_SESSIONS",
    ),
    (
        "events of an A2A or AG-UI stream that wait for a client",
        "goondan-serve/src/turn_stream.rs",
        "STREAM_BUFFER_EVENTS",
    ),
    (
        "time that a question of a client of A2A, AG-UI or MCP waits for an answer",
        "goondan-serve/src/approvals.rs",
        "ANSWER_TIMEOUT",
    ),
    (
        "tasks on a page of an A2A list",
        "a2a/list.rs",
        "MAX_PAGE_SIZE",
    ),
    (
        "tasks on such a page, if the request does not say",
        "a2a/list.rs",
        "DEFAULT_PAGE_SIZE",
    ),
    (
        "conversations that an A2A list looks through",
        "a2a/list.rs",
        "MAX_LISTED_CONVERSATIONS",
    ),
    (
        "time that an A2A cancel waits for the end of a task",
        "goondan-serve/src/a2a/mod.rs",
        "CANCEL_TIMEOUT",
    ),
    (
        "time for which a card of an A2A agent counts",
        "a2a/agent.rs",
        "CARD_MAX_AGE",
    ),
    ("time to get a card", "a2a/agent.rs", "CARD_TIMEOUT"),
    ("bytes of a card", "a2a/agent.rs", "MAX_CARD_BYTES"),
    (
        "bytes that an A2A agent answers to one request",
        "a2a/agent.rs",
        "MAX_ANSWER_BYTES",
    ),
    (
        "pause between two looks at a task, at first",
        "a2a/call.rs",
        "MIN_POLL_INTERVAL",
    ),
    (
        "longest pause between two looks at a task",
        "a2a/call.rs",
        "MAX_POLL_INTERVAL",
    ),
    (
        "looks in a row that may fail",
        "a2a/call.rs",
        "MAX_POLL_FAILURES",
    ),
    ("attachments of an answer", "a2a/task.rs", "MAX_ATTACHMENTS"),
    (
        "time for a server to start and to list its tools (`connectTimeout`)",
        "kinds/mcp.rs",
        "DEFAULT_CONNECT_TIMEOUT_MS",
    ),
    (
        "time that a reload waits for new servers, for all together",
        "goondan-mcp/src/source.rs",
        "RELOAD_CONTACT_TIMEOUT",
    ),
    (
        "tools of a server",
        "goondan-mcp/src/catalog.rs",
        "MAX_TOOLS",
    ),
    (
        "pages of its list",
        "goondan-mcp/src/listing.rs",
        "MAX_PAGES",
    ),
    (
        "characters of a description",
        "goondan-mcp/src/catalog.rs",
        "MAX_DESCRIPTION_CHARS",
    ),
    (
        "bytes of a tool's schema",
        "goondan-mcp/src/catalog.rs",
        "MAX_SCHEMA_BYTES",
    ),
    (
        "levels of a tool's schema",
        "goondan-mcp/src/catalog.rs",
        "MAX_SCHEMA_DEPTH",
    ),
    (
        "bytes of a message",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "objects and lists in a message",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_MESSAGE_NODES",
    ),
    (
        "values in a message, including objects and lists",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_MESSAGE_VALUES",
    ),
    (
        "messages that a server has not read",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_UNREAD_MESSAGES",
    ),
    (
        "bytes that are no message, between two messages",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_SKIPPED_BYTES",
    ),
    (
        "attachments of a result",
        "goondan-mcp/src/result.rs",
        "MAX_ATTACHMENTS",
    ),
    (
        "bytes of an attachment",
        "goondan-mcp/src/result.rs",
        "MAX_ATTACHMENT_BYTES",
    ),
    (
        "prompts of a server",
        "goondan-mcp/src/prompts.rs",
        "MAX_PROMPTS",
    ),
    (
        "resources of a page that a model receives",
        "goondan-mcp/src/resources.rs",
        "MAX_LISTED_RESOURCES",
    ),
    (
        "times that a server may ask before it answers a call",
        "goondan-mcp/src/server.rs",
        "MAX_INPUT_ROUNDS",
    ),
    (
        "longest pause before a server that failed is started again",
        "goondan-mcp/src/server.rs",
        "MAX_RECONNECT_DELAY",
    ),
    ("nodes of a conformance case", "case/nodes.rs", "MAX_NODES"),
    (
        "time to tell an A2A agent that nobody waits",
        "a2a/call.rs",
        "CANCEL_TIMEOUT",
    ),
    (
        "bytes of a message to `gdn lsp`",
        "goondan-lsp/src/transport.rs",
        "MAX_MESSAGE_BYTES",
    ),
    (
        "bytes of a list of checksums",
        "commands/self_update/release.rs",
        "MAX_CHECKSUM_LIST_BYTES",
    ),
    (
        "bytes of an archive",
        "commands/self_update/release.rs",
        "MAX_ARCHIVE_BYTES",
    ),
    (
        "time to reach the place",
        "commands/self_update/release.rs",
        "CONNECT_TIMEOUT",
    ),
    (
        "time without a byte from it",
        "commands/self_update/release.rs",
        "READ_TIMEOUT",
    ),
    (
        "items that one completion offers",
        "goondan-lsp/src/completion/mod.rs",
        "MAX_COMPLETION_ITEMS",
    ),
    (
        "inputs that the history of a chat keeps",
        "goondan-cli/src/commands/run/chat/history.rs",
        "MAX_HISTORY_INPUTS",
    ),
    (
        "bytes of the inputs that the history of a chat keeps",
        "goondan-cli/src/commands/run/chat/history.rs",
        "MAX_HISTORY_BYTES",
    ),
    (
        "symbols that one search of a workspace finds",
        "goondan-lsp/src/symbols.rs",
        "MAX_WORKSPACE_SYMBOLS",
    ),
    (
        "rounds of `gdn validate --fix`",
        "goondan-spec/src/repair.rs",
        "MAX_REPAIR_ROUNDS",
    ),
    (
        "conversations that OpenAI clients continue by what was said in them",
        "openai/conversation_index.rs",
        "MAX_INDEXED_CONVERSATIONS",
    ),
    (
        "different requests of OpenAI clients that are recognized when they are repeated",
        "openai/conversation_index.rs",
        "MAX_RETRIABLE_REQUESTS",
    ),
    (
        "requests with the same bytes among them",
        "openai/conversation_index.rs",
        "MAX_ATTEMPTS_PER_REQUEST",
    ),
    (
        "time after the end of such a request",
        "openai/conversation_index.rs",
        "RETRY_WINDOW",
    ),
    (
        "`Model.spec.options.maxRetries`",
        "plan/mod.rs",
        "DEFAULT_MAX_RETRIES",
    ),
    (
        "pause before the first retry, unless the provider names one",
        "model_call.rs",
        "FIRST_RETRY_WAIT",
    ),
    (
        "longest pause between two retries",
        "model_call.rs",
        "MAX_RETRY_WAIT",
    ),
    (
        "`Model.spec.options.maxRetryWait`: longest wait that a provider may ask for",
        "plan/mod.rs",
        "DEFAULT_MAX_RETRY_WAIT",
    ),
    (
        "time in which a server that refuses connections or loads its model is retried",
        "model_call.rs",
        "SERVER_START_TIMEOUT",
    ),
    (
        "the same time, if the server ended during the call",
        "model_call.rs",
        "SERVER_RESTART_TIMEOUT",
    ),
    (
        "`Model.spec.options.timeout`: longest silence of a provider",
        "client/settings.rs",
        "DEFAULT_IDLE_TIMEOUT",
    ),
    ("time to connect", "transport/http.rs", "CONNECT_TIMEOUT"),
    ("bytes of an answer", "model_call.rs", "MAX_ANSWER_BYTES"),
    (
        "bytes of an answer that reports an error",
        "transport/limits.rs",
        "MAX_ERROR_BYTES",
    ),
    (
        "time for a batch of embeddings",
        "client/live.rs",
        "EMBEDDING_TIMEOUT",
    ),
    (
        "idle connections that are kept to a host",
        "transport/http.rs",
        "MAX_IDLE_CONNECTIONS",
    ),
    (
        "bytes of a script (`provider: scripted`)",
        "scripted/resource.rs",
        "MAX_SCRIPT_BYTES",
    ),
    (
        "bytes of a cassette (`provider: replay`)",
        "replay/cassette.rs",
        "MAX_CASSETTE_BYTES",
    ),
    ("the largest `timeout`", "kinds/tool.rs", "MAX_TIMEOUT_MS"),
    (
        "`Extension.spec.timeout`: longest work of an extension without a pause",
        "kinds/extension.rs",
        "DEFAULT_WORK_TIMEOUT_MS",
    ),
    (
        "extensions that stay registered in a host",
        "goondan-core/src/extension_protocol/sessions.rs",
        "MAX_SESSIONS",
    ),
    (
        "time that `ctx.agents.request` waits for an answer",
        "hosted/layer_requests.rs",
        "ANSWER_TIMEOUT_MS",
    ),
    (
        "time to stop, after a time-out or a cancel",
        "dispatch.rs",
        "CANCEL_GRACE",
    ),
    (
        "characters of a tool's name as the model sees it, `tool__export`",
        "kinds/export.rs",
        "MAX_TOOL_NAME_BYTES",
    ),
    (
        "progress updates of a call in a second",
        "reporter.rs",
        "MAX_UPDATES_PER_SECOND",
    ),
    (
        "paths that one call names",
        "resolved_paths.rs",
        "MAX_CALL_PATHS",
    ),
    (
        "time to make the preview of an approval question",
        "policy/approval_request.rs",
        "PREVIEW_TIMEOUT",
    ),
    (
        "bytes of a preview",
        "policy/approval_request.rs",
        "MAX_PREVIEW_BYTES",
    ),
    (
        "bytes of a program that is read to see whether an approval still holds",
        "goondan-core/src/content_hash.rs",
        "MAX_HASHED_FILE_BYTES",
    ),
    (
        "bytes of metadata in a runtime event",
        "limits.rs",
        "MAX_METADATA_BYTES",
    ),
    (
        "time for a host to say that it is there",
        "goondan-hosts/src/process.rs",
        "HELLO_TIMEOUT",
    ),
    (
        "bytes of a line from a host",
        "goondan-hosts/src/wire.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "time for a handler to end, once its call is cancelled",
        "goondan-hosts/src/running_call.rs",
        "CANCEL_GRACE",
    ),
    (
        "time for such a host to answer a ping",
        "goondan-hosts/src/process.rs",
        "PONG_TIMEOUT",
    ),
    (
        "time for a host to end by itself",
        "goondan-hosts/src/process.rs",
        "EXIT_TIMEOUT",
    ),
    (
        "log lines, progress and questions of a handler that wait",
        "goondan-hosts/src/calls.rs",
        "EVENT_QUEUE_LENGTH",
    ),
    (
        "events of the runtime that wait for a host",
        "goondan-hosts/src/process.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "events of the runtime that wait for the extensions of a library",
        "extension/event_queue.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "questions to agents that a handler may have open",
        "goondan-hosts/src/running_call.rs",
        "MAX_OPERATIONS",
    ),
    (
        "ends of a host in a row without an answer, before its restarts are delayed",
        "goondan-hosts/src/host.rs",
        "IMMEDIATE_RESTARTS",
    ),
    (
        "longest pause before a host is started again",
        "goondan-hosts/src/host.rs",
        "MAX_RESTART_DELAY",
    ),
    (
        "sandboxes of one package with a host each, before idle ones are ended",
        "goondan-hosts/src/host.rs",
        "MAX_IDLE_SCOPES",
    ),
    (
        "files that are followed from one module",
        "imports.rs",
        "MAX_FOLLOWED_FILES",
    ),
    (
        "background processes of an instance (`runtime__exec`)",
        "background_processes.rs",
        "MAX_RUNNING_PROCESSES",
    ),
    (
        "bytes of output that a background process keeps between two polls, of each stream",
        "background_processes.rs",
        "KEPT_POLL_BYTES",
    ),
    (
        "time from the request to end a process to its end",
        "src/process.rs",
        "TERMINATION_GRACE_PERIOD",
    ),
    (
        "parts of a text that `text-transform__split` makes",
        "goondan-tools/src/text_transform.rs",
        "MAX_SPLIT_PARTS",
    ),
    (
        "time that an approved call waits for sandboxed programs that could change its files",
        "goondan-tools/src/running_programs.rs",
        "WRITER_WAIT_TIMEOUT",
    ),
    (
        "time that an approved call waits for sandboxed programs of other `gdn` processes, and the other way around",
        "goondan-tools/src/running_programs.rs",
        "OTHER_PROCESS_TIMEOUT",
    ),
    (
        "time in which an approved call reads its files, while no such program starts",
        "goondan-tools/src/running_programs.rs",
        "FILE_READ_PERIOD",
    ),
    (
        "bytes of a command line that `gdn` reads",
        "command_line/parse.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "levels of nested commands in a command line",
        "command_line/parse.rs",
        "MAX_NESTING_DEPTH",
    ),
    (
        "bytes that a command may print for an argument (`\"$(…)\"`)",
        "command_runner/word_expansion.rs",
        "MAX_SUBSTITUTION_BYTES",
    ),
    (
        "names that a pattern of files may stand for",
        "command_runner/word_expansion.rs",
        "MAX_MATCHED_NAMES",
    ),
    (
        "bytes of a page of `fs__read`",
        "fs/read.rs",
        "DEFAULT_PAGE_BYTES",
    ),
    (
        "bytes of a page of `fs__read` with `limit`",
        "fs/read.rs",
        "MAX_PAGE_BYTES",
    ),
    (
        "bytes of an attached image",
        "fs/read.rs",
        "MAX_IMAGE_BYTES",
    ),
    (
        "bytes of a file that `fs__edit` and `fs__apply_patch` change",
        "src/file_changes/mod.rs",
        "MAX_TEXT_FILE_BYTES",
    ),
    (
        "attempts to change a file that another program changes at the same time",
        "src/file_changes/mod.rs",
        "MAX_CHANGE_ATTEMPTS",
    ),
    (
        "bytes of a file that `staleWrites` guards",
        "file_changes/versions.rs",
        "MAX_GUARDED_FILE_BYTES",
    ),
    (
        "pairs of a conversation and a file that `staleWrites` remembers",
        "file_changes/versions.rs",
        "MAX_SEEN_VERSIONS",
    ),
    (
        "bytes of a line of a file that `fs__grep` searches",
        "fs/search.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "bytes that `fs__grep` finds",
        "fs/grep.rs",
        "MAX_GREP_OUTPUT_BYTES",
    ),
    (
        "bytes of a line that `fs__grep` shows",
        "fs/search.rs",
        "MAX_SHOWN_LINE_BYTES",
    ),
    (
        "files that `fs__glob` names",
        "fs/glob.rs",
        "MAX_GLOB_FILES",
    ),
    (
        "entries that `fs__ls` lists",
        "fs/ls.rs",
        "MAX_LISTED_ENTRIES",
    ),
    (
        "entries that `file-system__list` lists",
        "file_system.rs",
        "MAX_DIRECTORY_ENTRIES",
    ),
    (
        "bytes of a page that `web__fetch` reads",
        "web/mod.rs",
        "MAX_PAGE_BYTES",
    ),
    (
        "characters of a page that `web__fetch` shows at once",
        "web/mod.rs",
        "MAX_SHOWN_CHARS",
    ),
    (
        "redirects that network tools follow",
        "goondan-tools/src/http.rs",
        "MAX_REDIRECTS",
    ),
    (
        "time of a webhook (`messaging__message`)",
        "messaging.rs",
        "WEBHOOK_TIMEOUT",
    ),
    (
        "bytes that `text-transform` makes",
        "text_transform.rs",
        "MAX_RESULT_BYTES",
    ),
    (
        "tasks in a list of `todo__write`",
        "todo.rs",
        "MAX_TODO_TASKS",
    ),
    (
        "bytes of a note",
        "file_changes/mod.rs",
        "MAX_TEXT_FILE_BYTES",
    ),
    (
        "notes that `memory__search` reads",
        "memory/mod.rs",
        "MAX_SEARCHED_NOTES",
    ),
    (
        "bytes of one payload, in either direction",
        "goondan-dylib/src/limits.rs",
        "max_payload",
    ),
    (
        "time to open a library",
        "goondan-dylib/src/limits.rs",
        "open_timeout",
    ),
    (
        "time to end a call that was cancelled",
        "goondan-dylib/src/limits.rs",
        "cancel_grace",
    ),
    (
        "time to close a library",
        "goondan-dylib/src/limits.rs",
        "close_grace",
    ),
    (
        "calls that never came back",
        "goondan-dylib/src/limits.rs",
        "max_written_off",
    ),
    (
        "log lines, progress and questions of a call that wait",
        "goondan-dylib/src/calls.rs",
        "EVENT_QUEUE_LENGTH",
    ),
    (
        "questions to agents that a call may have open",
        "goondan-dylib/src/handler.rs",
        "MAX_OPERATIONS",
    ),
    (
        "crashes in a row of a library with `isolation: process`, before its restarts are delayed",
        "hosted/backoff.rs",
        "QUICK_CRASHES",
    ),
    (
        "longest such delay",
        "hosted/backoff.rs",
        "MAX_RESTART_DELAY",
    ),
    (
        "reloaded libraries that stay in memory without a warning",
        "goondan-dylib/src/library_thread.rs",
        "RETIRED_WARNING_COUNT",
    ),
    (
        "bytes of a YAML or prompt file",
        "goondan-spec/src/paths.rs",
        "MAX_FILE_BYTES",
    ),
    (
        "documents in a file",
        "goondan-spec/src/parsed_file.rs",
        "MAX_DOCUMENTS_PER_FILE",
    ),
    (
        "depth of lists and maps",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_NESTING_DEPTH",
    ),
    (
        "values that the aliases of a document stand for",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_ALIASED_VALUES",
    ),
    (
        "bytes of strings and keys that the aliases of a document expand to",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_ALIASED_BYTES",
    ),
    (
        "characters of a key",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_KEY_CHARS",
    ),
    (
        "depth of folders that are searched for resources",
        "discover.rs",
        "MAX_DIRECTORY_DEPTH",
    ),
    (
        "bytes of a `.gitignore`",
        "discover.rs",
        "MAX_GITIGNORE_BYTES",
    ),
    (
        "characters of `metadata.name`",
        "envelope.rs",
        "MAX_NAME_CHARS",
    ),
    (
        "characters of a pattern in `permissions`",
        "kinds/permissions.rs",
        "MAX_PATTERN_BYTES",
    ),
    (
        "bytes of a file with a secret",
        "goondan/src/start/secrets.rs",
        "MAX_SECRET_FILE_BYTES",
    ),
    (
        "characters of a secret that is masked wherever it appears, at least",
        "goondan-spec/src/value.rs",
        "MIN_MASKED_ANYWHERE_CHARS",
    ),
    (
        "characters of a secret that is masked as a whole word, at least",
        "goondan-spec/src/value.rs",
        "MIN_MASKED_WORD_CHARS",
    ),
    (
        "bytes of a value that is masked for the name of its variable, at least",
        "redact/mod.rs",
        "MIN_GUESS_BYTES",
    ),
    (
        "results that are remembered, so that an event that comes twice runs once",
        "result_cache.rs",
        "MAX_CACHED_EVENTS",
    ),
    (
        "bytes of those results",
        "result_cache.rs",
        "MAX_CACHED_BYTES",
    ),
    (
        "idle conversations that stay in memory",
        "turn/conversation_cache.rs",
        "MAX_CACHED_CONVERSATIONS",
    ),
    (
        "messages that they have together",
        "turn/conversation_cache.rs",
        "MAX_CACHED_MESSAGES",
    ),
    (
        "instances with nothing to do that the leader remembers, with a database",
        "goondan-store-postgres/src/instances.rs",
        "MAX_REMEMBERED_INSTANCES",
    ),
    (
        "instances of which the leader remembers on which node their last turn ran",
        "cluster/placement/mod.rs",
        "MAX_REMEMBERED_HOMES",
    ),
    (
        "runtime events that wait for the disk",
        "jsonl/background_writer.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "bytes of `runtime-events.jsonl`",
        "jsonl/runtime_events.rs",
        "MAX_EVENT_FILE_BYTES",
    ),
    (
        "conversations that wait to be synced together",
        "jsonl/dirty_checkpoints.rs",
        "MAX_DIRTY_CONVERSATIONS",
    ),
    (
        "bytes of those conversations",
        "jsonl/dirty_checkpoints.rs",
        "MAX_DIRTY_BYTES",
    ),
    (
        "bytes of a turn that is written together with its result",
        "jsonl/conversation.rs",
        "OWN_SYNC_BYTES",
    ),
    (
        "time that a start waits for the lock of a process that died",
        "jsonl/lock.rs",
        "LOCK_TIMEOUT",
    ),
    (
        "bytes of a line that `gdn conversation import` reads",
        "goondan-store/src/instance_export.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "messages that `gdn conversation import` reads",
        "goondan-store/src/instance_export.rs",
        "MAX_EXPORT_MESSAGES",
    ),
    (
        "bytes that `gdn conversation import` reads",
        "goondan-store/src/instance_export.rs",
        "MAX_EXPORT_BYTES",
    ),
    (
        "quiet time after an edit that does not load or removes something, before a watched project is reloaded",
        "watch/mod.rs",
        "settle",
    ),
    ("the same for a library", "watch/mod.rs", "settle_library"),
    (
        "longest wait while files keep changing",
        "watch/mod.rs",
        "MAX_BURST_WAIT",
    ),
    (
        "longest wait while a library keeps changing",
        "watch/mod.rs",
        "MAX_LINK_WAIT",
    ),
    (
        "time between two looks at the files where the system sends no notices",
        "watch/mod.rs",
        "poll",
    ),
    (
        "time between two looks in any case",
        "watch/mod.rs",
        "quiet_check",
    ),
    (
        "time that `gdn reload` waits for the answer of the running process",
        "commands/reload.rs",
        "RELOAD_TIMEOUT",
    ),
    (
        "bytes of a build's output that are kept, of its beginning and of its end",
        "build/command.rs",
        "KEPT_OUTPUT_BYTES",
    ),
    (
        "time for libraries to end with the swarm",
        "goondan/src/adapters/mod.rs",
        "LIBRARY_SHUTDOWN_TIMEOUT",
    ),
    (
        "time that a second Ctrl-C leaves for the end",
        "run/signals.rs",
        "FORCED_EXIT_DELAY",
    ),
    (
        "bytes of an input or a file that a command reads at once",
        "src/input_files.rs",
        "MAX_INPUT_BYTES",
    ),
    (
        "time that a command waits for a process that holds the workspace to let it in, or to end",
        "remote/mod.rs",
        "CONTROL_ENDPOINT_TIMEOUT",
    ),
    (
        "time of a conformance case",
        "goondan-conformance/src/run.rs",
        "DEFAULT_TIME_LIMIT",
    ),
    (
        "time of a live run of a case",
        "goondan-conformance/src/run.rs",
        "LIVE_TIME_LIMIT",
    ),
    (
        "live runs of a case",
        "goondan-conformance/src/case/live.rs",
        "MAX_RUNS",
    ),
];

/// A row of a table: what, and the limit.
fn rows() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(repository().join("docs/limits.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| what |"));
    let cells = rows.map(|row| {
        row.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    });
    cells
        .map(|cells: Vec<String>| (cells[0].clone(), cells[1].clone()))
        .collect()
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}

/// Every source below `folder`.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let below = entries.flat_map(|path| {
        if path.is_dir() {
            sources(&path)
        } else {
            vec![path]
        }
    });
    below
        .filter(|path| {
            path.extension()
                .is_some_and(|suffix| suffix == "rs" || suffix == "mjs")
        })
        .collect()
}

/// A quantity in words: `10,000`, `512 MiB` (in bytes), `30 s` (in milliseconds). What follows a comma and a space is left
/// out.
fn quantity(words: &str) -> u64 {
    let words = words.split(", ").next().unwrap();
    let (number, unit) = words.split_once(' ').unwrap_or((words, ""));
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1_000,
        "min" => 60 * 1_000,
        "h" => 60 * 60 * 1_000,
        "d" | "days" => 24 * 60 * 60 * 1_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => panic!("`{unit}` is no unit"),
    };
    number.replace(',', "").parse::<u64>().unwrap() * factor
}

/// The value of a constant of a source, or of a field in a literal; times are in milliseconds.
fn value(source: &str, name: &str) -> Option<u64> {
    let constant = format!("const {name}: ");
    let field = format!("{name}: ");
    let untyped = format!("const {name} = ");
    let written = source
        .lines()
        .find_map(|line| line.strip_prefix(&untyped)?.strip_suffix(';'));
    let expression = written.or_else(|| {
        source
            .lines()
            .find_map(|line| match line.split_once(&constant) {
                Some((_, rest)) => Some(rest.split_once(" = ")?.1.trim_end_matches(';')),
                None => line
                    .trim()
                    .strip_prefix(&field)
                    .filter(|rest| rest.ends_with(','))
                    .map(|rest| rest.trim_end_matches(',')),
            })
    })?;
    let (factor, expression) = match expression.strip_prefix("Duration::from_") {
        Some(time) => time
            .trim_end_matches(')')
            .split_once('(')
            .map(|(unit, rest)| (unit.len().min(5), rest))?,
        None => (0, expression),
    };
    // `secs` has four letters, `millis` more.
    let factor = if factor == 4 { 1_000 } else { 1 };
    let shifted = |part: &str| match part.split_once(" << ") {
        Some((number, places)) => Some(plain(number)? << plain(places)?),
        None => plain(part),
    };
    expression
        .split(" * ")
        .map(shifted)
        .try_fold(factor, |product, part| Some(product * part?))
}

fn plain(number: &str) -> Option<u64> {
    number.trim().replace('_', "").parse().ok()
}

#[test]
fn fixed_limits_are_those_of_the_sources() {
    let (rows, all) = (rows(), sources(&repository().join("crates")));
    for (row, end, name) in CONSTANTS {
        let limit = rows
            .get(*row)
            .unwrap_or_else(|| panic!("docs/limits.md has no row `{row}`"));
        let files = all.iter().filter(|path| {
            path.ends_with(end) && !path.components().any(|part| part.as_os_str() == "tests")
        });
        let values: Vec<u64> = files
            .filter_map(|path| value(&std::fs::read_to_string(path).unwrap(), name))
            .collect();
        let [value] = values[..] else {
            panic!("`{name}` of {end}: {values:?}")
        };
        assert_eq!(
            quantity(limit),
            value,
            "docs/limits.md: `{row}`, and `{name}` of {end}"
        );
    }
}

#[test]
fn limits_that_can_be_set_are_those_of_the_schemas() {
    let mut seen = 0;
    for (row, limit) in rows() {
        let Some(field) = row.strip_prefix('`').and_then(|row| row.split('`').next()) else {
            continue;
        };
        let Some((kind, path)) = field.split_once('.').filter(|(kind, _)| *kind != "Model") else {
            continue;
        };
        let (_, root) = schemas()
            .into_iter()
            .find(|(_, schema)| schema["title"] == kind)
            .unwrap();
        let schema = path
            .split('.')
            .try_fold(root.clone(), |schema, name| property(&root, &schema, name));
        match &schema.unwrap_or_else(|| panic!("there is no field `{field}`"))["default"] {
            Value::Null => assert_eq!(limit, "none", "{row}"),
            default => assert_eq!(Some(quantity(&limit)), number(default), "{row}"),
        }
        seen += 1;
    }
    assert!(seen > 8, "{seen}");
}

/// Returns a default as a number. A duration such as `2m` is in milliseconds.
fn number(default: &Value) -> Option<u64> {
    let Some(text) = default.as_str() else {
        return default.as_u64();
    };
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let unit = if unit == "m" { "min" } else { unit };
    Some(quantity(&format!("{number} {unit}")))
}

/// The schema of a field, in whichever form of its map it is.
fn property(root: &Value, schema: &Value, name: &str) -> Option<Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        return property(root, root.pointer(reference.trim_start_matches('#'))?, name);
    }
    match schema["anyOf"].as_array() {
        Some(forms) => forms.iter().find_map(|form| property(root, form, name)),
        None => schema["properties"].get(name).cloned(),
    }
}

#[test]
fn no_row_is_left_unchecked() {
    for row in rows().keys() {
        let is_constant = CONSTANTS.iter().any(|(known, ..)| known == row);
        assert!(
            is_constant || row.starts_with('`'),
            "`{row}` is held against nothing"
        );
    }
}
