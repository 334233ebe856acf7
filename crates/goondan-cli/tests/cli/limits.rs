//! Compares each row of `docs/limits.md` with the schema or the constant that defines the limit.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use goondan::internal::schemas;
use serde_json::Value;

/// Rows whose limit is a constant: the first cell, the end of the source's path, and the name of the constant or field.
const CONSTANTS: &[(&str, &str, &str)] = &[
    (
        "`gdn serve` output lines about approvals, failed turns and answers in 10 s",
        "serve/activity_lines.rs",
        "MAX_LINES",
    ),
    (
        "length of a `gdn serve` output line, in characters",
        "serve/activity_lines.rs",
        "MAX_LINE_CHARS",
    ),
    (
        "length of a conversation title, in characters",
        "goondan-core/src/conversation_title.rs",
        "MAX_TITLE_CHARS",
    ),
    (
        "existing files listed in a `gdn init` warning",
        "init/mod.rs",
        "MAX_NAMED_FILES",
    ),
    (
        "tool calls per model response",
        "step.rs",
        "MAX_CALLS_PER_ANSWER",
    ),
    (
        "total size of recorded model calls",
        "goondan-core/src/model_calls.rs",
        "MAX_LOG_BYTES",
    ),
    (
        "size of a recorded model request body (studio)",
        "goondan-core/src/model_calls.rs",
        "MAX_RECORDED_BODY_BYTES",
    ),
    (
        "size of a recorded model response body (studio)",
        "goondan-core/src/model_calls.rs",
        "MAX_RECORDED_RESPONSE_BYTES",
    ),
    (
        "length of a command output line in an event, in bytes",
        "tooling/live_output.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "total length of command output lines in an event, in bytes",
        "tooling/live_output.rs",
        "MAX_UPDATE_BYTES",
    ),
    (
        "consecutive empty model responses",
        "turn/mod.rs",
        "MAX_EMPTY_ANSWERS",
    ),
    (
        "total size of `prompt.instructions` files",
        "kinds/instructions.rs",
        "MAX_INSTRUCTION_BYTES",
    ),
    (
        "searched directories, from the working directory upward",
        "kinds/instructions.rs",
        "MAX_SEARCHED_DIRECTORIES",
    ),
    (
        "size of instruction files below the working directory, per step",
        "turn/instructions.rs",
        "MAX_NESTED_INSTRUCTION_BYTES",
    ),
    ("skills per agent", "kinds/skill.rs", "MAX_SKILLS"),
    (
        "consecutive process crashes or kills during the same tool call, without other unfinished turns",
        "turn/poison.rs",
        "MAX_ENDS_ALONE",
    ),
    (
        "consecutive process crashes or kills at the same point of a turn",
        "turn/poison.rs",
        "MAX_ENDS",
    ),
    (
        "first delay of a turn after 4 crashes or kills at the same point (2 without other unfinished turns)",
        "turn/poison.rs",
        "FIRST_WAIT",
    ),
    (
        "size of a package archive",
        "archive/mod.rs",
        "MAX_ARCHIVE_BYTES",
    ),
    (
        "unpacked size of a package",
        "goondan-spec/src/content_hash.rs",
        "MAX_PACKAGE_BYTES",
    ),
    (
        "files and directories per package",
        "goondan-spec/src/content_hash.rs",
        "MAX_PACKAGE_ENTRIES",
    ),
    (
        "directory depth of a package",
        "goondan-spec/src/content_hash.rs",
        "MAX_PACKAGE_DEPTH",
    ),
    (
        "compression ratio of an archive, above 16 MiB of content",
        "archive/unpack.rs",
        "MAX_COMPRESSION_RATIO",
    ),
    (
        "packages per project",
        "goondan-packages/src/dependency_resolution.rs",
        "MAX_PACKAGES",
    ),
    (
        "size of a registry response other than an archive",
        "goondan-packages/src/http.rs",
        "MAX_TEXT_RESPONSE_BYTES",
    ),
    (
        "attempts per registry request after 429 or 503",
        "goondan-packages/src/http.rs",
        "MAX_ATTEMPTS",
    ),
    (
        "maximum retry delay set by a registry",
        "goondan-packages/src/http.rs",
        "MAX_WAIT",
    ),
    (
        "connect timeout of a registry",
        "goondan-packages/src/http.rs",
        "CONNECT_TIMEOUT",
    ),
    (
        "idle timeout of a registry response",
        "goondan-packages/src/http.rs",
        "READ_TIMEOUT",
    ),
    (
        "total timeout of a registry request",
        "goondan-packages/src/http.rs",
        "REQUEST_TIMEOUT",
    ),
    (
        "timeout of a credential helper",
        "credentials/credential_helper.rs",
        "HELPER_TIMEOUT",
    ),
    (
        "size of a credential helper response",
        "credentials/credential_helper.rs",
        "MAX_HELPER_RESPONSE_BYTES",
    ),
    (
        "timeout of a `git` command for a package",
        "sources/git.rs",
        "GIT_COMMAND_TIMEOUT",
    ),
    (
        "length of a skill's `name`, in characters",
        "kinds/skill.rs",
        "MAX_SKILL_NAME_CHARS",
    ),
    (
        "length of a skill's `description`, in characters",
        "kinds/skill.rs",
        "MAX_SKILL_DESCRIPTION_CHARS",
    ),
    (
        "length of a skill's `compatibility`, in characters",
        "kinds/skill.rs",
        "MAX_SKILL_COMPATIBILITY_CHARS",
    ),
    (
        "size of a file read by `skills__load`",
        "tooling/skills.rs",
        "MAX_SKILL_FILE_BYTES",
    ),
    (
        "files of a skill listed by `skills__load`",
        "tooling/skills.rs",
        "MAX_LISTED_FILES",
    ),
    (
        "directory depth of files listed by `skills__load`",
        "tooling/skills.rs",
        "MAX_LISTED_DEPTH",
    ),
    (
        "queued events per conversation",
        "submit_error.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "total size of queued events per swarm",
        "pending.rs",
        "MAX_PENDING_BYTES",
    ),
    ("size of an event", "pending.rs", "MAX_EVENT_BYTES"),
    (
        "size of the metadata of an event",
        "pending.rs",
        "MAX_METADATA_BYTES",
    ),
    (
        "length of a conversation key (`instanceKey`), in bytes",
        "submit_error.rs",
        "MAX_KEY_BYTES",
    ),
    (
        "length of an event type, in bytes",
        "reserved_names.rs",
        "MAX_EVENT_TYPE_BYTES",
    ),
    (
        "idle timeout of `agents__request` (`timeoutMs`), since the last heartbeat of the called agent",
        "tooling/agents.rs",
        "DEFAULT_REQUEST_TIMEOUT",
    ),
    (
        "failed events kept per conversation for `gdn conversation retry`",
        "failed_events.rs",
        "MAX_DEAD_LETTERS",
    ),
    (
        "first retry delay of a turn that ended with `E_STORE`, for example because of a full disk",
        "stalled.rs",
        "FIRST_RETRY_DELAY",
    ),
    (
        "maximum retry delay of a turn that ended with `E_STORE`",
        "stalled.rs",
        "MAX_RETRY_DELAY",
    ),
    (
        "`automation__cron` jobs per conversation",
        "schedule/job_operations.rs",
        "MAX_JOBS",
    ),
    (
        "size of a `--input-format stream-json` line",
        "serve/lines.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "`stream-json` lines read ahead",
        "serve/lines.rs",
        "MAX_LINES_AHEAD",
    ),
    (
        "queued spans (`OTEL_BSP_MAX_QUEUE_SIZE`)",
        "goondan-telemetry/src/settings/mod.rs",
        "DEFAULT_QUEUE_SPANS",
    ),
    (
        "spans per export request (`OTEL_BSP_MAX_EXPORT_BATCH_SIZE`)",
        "goondan-telemetry/src/settings/mod.rs",
        "DEFAULT_BATCH_SPANS",
    ),
    (
        "export delay of a span (`OTEL_BSP_SCHEDULE_DELAY`)",
        "goondan-telemetry/src/settings/mod.rs",
        "DEFAULT_SCHEDULE_DELAY",
    ),
    (
        "first retry delay after a failed export",
        "goondan-telemetry/src/exporter/mod.rs",
        "MIN_RETRY_DELAY",
    ),
    (
        "maximum retry delay after failed exports",
        "goondan-telemetry/src/exporter/mod.rs",
        "MAX_RETRY_DELAY",
    ),
    (
        "timeout of the final export when the swarm ends",
        "goondan-telemetry/src/exporter/mod.rs",
        "FINAL_EXPORT_TIMEOUT",
    ),
    (
        "timeout of the final export if the previous export failed",
        "goondan-telemetry/src/exporter/mod.rs",
        "FINAL_EXPORT_TIMEOUT_IF_DOWN",
    ),
    (
        "size of the model input in a span, if content capture is on",
        "turn/prompt_excerpt.rs",
        "MAX_EXCERPT_BYTES",
    ),
    (
        "open spans (unfinished turns, steps and tool calls)",
        "goondan-telemetry/src/spans/mod.rs",
        "MAX_OPEN_SPANS",
    ),
    (
        "timeout for the body of a request to a connection",
        "platforms/request_body.rs",
        "REQUEST_BODY_TIMEOUT",
    ),
    (
        "wait for further messages of an album",
        "goondan-connect/src/albums.rs",
        "ALBUM_WAIT",
    ),
    (
        "length of a quoted or forwarded message, in characters",
        "goondan-connect/src/event.rs",
        "MAX_QUOTED_CHARS",
    ),
    (
        "age of a signed request",
        "goondan-connect/src/signature.rs",
        "MAX_CLOCK_DIFFERENCE",
    ),
    (
        "open requests of a connector, besides submitted events",
        "goondan-core/src/connector_host.rs",
        "MAX_OPEN_REQUESTS",
    ),
    (
        "open requests of a connector library",
        "goondan-dylib/src/tool_host.rs",
        "MAX_OPEN_REQUESTS",
    ),
    (
        "unknown senders listed per connection",
        "goondan-connect/src/allowed_senders.rs",
        "MAX_PENDING_SENDERS",
    ),
    (
        "sent answers remembered per connection",
        "goondan-connect/src/outbox.rs",
        "MAX_REMEMBERED_REPLIES",
    ),
    (
        "delivery attempts for a message",
        "goondan-connect/src/delivery.rs",
        "MAX_SEND_ATTEMPTS",
    ),
    (
        "time to send pending answers at shutdown",
        "goondan-connect/src/connections.rs",
        "REPLY_DRAIN_TIMEOUT",
    ),
    (
        "maximum restart delay of a failed connection",
        "goondan-connect/src/receive_supervisor.rs",
        "MAX_RESTART_WAIT",
    ),
    (
        "event properties in the message metadata",
        "goondan-connect/src/event.rs",
        "MAX_PROPERTIES",
    ),
    (
        "length of a property value, in characters",
        "goondan-connect/src/event.rs",
        "MAX_PROPERTY_CHARS",
    ),
    (
        "fetched files per event",
        "goondan-connect/src/event_files.rs",
        "MAX_EVENT_FILES",
    ),
    (
        "size of a fetched file",
        "goondan-connect/src/event_files.rs",
        "MAX_EVENT_FILE_BYTES",
    ),
    (
        "total size of fetched files per event",
        "goondan-connect/src/event_files.rs",
        "MAX_EVENT_FILES_BYTES",
    ),
    (
        "timeout to fetch the files of an event (`discord`: 2 s)",
        "goondan-connect/src/event_files.rs",
        "EVENT_FILES_TIMEOUT",
    ),
    (
        "sent files per answer",
        "goondan-connect/src/answer_files.rs",
        "MAX_ANSWER_FILES",
    ),
    (
        "size of a sent file of an answer, in bytes",
        "goondan-connect/src/answer_files.rs",
        "MAX_ANSWER_FILE_BYTES",
    ),
    (
        "timeout to send a file",
        "goondan-connect/src/http.rs",
        "UPLOAD_TIMEOUT",
    ),
    (
        "size of a file sent by `discord__sendFile`, `slack__sendFile` or `telegram__sendFile`, in bytes",
        "platforms/file_transfer.rs",
        "MAX_SENT_FILE_BYTES",
    ),
    (
        "posted approval requests remembered per connection",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_REMEMBERED_MESSAGES",
    ),
    (
        "length of an approval request in one channel message, in characters",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_MESSAGE_CHARS",
    ),
    (
        "messages per approval request in a channel",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_REQUEST_MESSAGES",
    ),
    (
        "attempts to post an approval request in a channel",
        "goondan-connect/src/channel_approvals.rs",
        "MAX_POST_ATTEMPTS",
    ),
    (
        "size of a WebSocket message",
        "slack/socket.rs",
        "MAX_SOCKET_MESSAGE_BYTES",
    ),
    (
        "idle time of a WebSocket before a ping is sent",
        "slack/socket.rs",
        "PING_AFTER_SILENCE",
    ),
    (
        "concurrent `emit` calls of a JavaScript file or Rust library",
        "shim/connectors.mjs",
        "MAX_CONCURRENT_EMITS",
    ),
    (
        "buffered console lines for a connection",
        "goondan-connect/src/console.rs",
        "MAX_BUFFERED_LINES",
    ),
    (
        "queued answers per connector file",
        "platforms/script.rs",
        "MAX_QUEUED_REPLIES",
    ),
    (
        "time for a connector file to accept an answer",
        "platforms/script.rs",
        "REPLY_PICKUP_TIMEOUT",
    ),
    (
        "time for a connector file to send an answer",
        "platforms/script.rs",
        "REPLY_SEND_TIMEOUT",
    ),
    (
        "size of an event's `origin` from a connector file, in bytes",
        "platforms/script.rs",
        "MAX_ORIGIN_BYTES",
    ),
    (
        "size of a request to a connection (`github`: 25 MiB)",
        "platforms/platform_connector.rs",
        "MAX_REQUEST_BODY_BYTES",
    ),
    (
        "interval of progress notifications to an MCP client",
        "mcp/running_call.rs",
        "HEARTBEAT_INTERVAL",
    ),
    (
        "buffered events for slow streams",
        "gateway/event_hub.rs",
        "MAX_BUFFERED_EVENTS",
    ),
    (
        "open studio sign-in codes",
        "goondan-serve/src/studio/sign_in.rs",
        "MAX_OPEN_CODES",
    ),
    (
        "validity of a studio sign-in code",
        "goondan-serve/src/studio/sign_in.rs",
        "CODE_LIFETIME",
    ),
    (
        "size of a file in the studio's editor",
        "goondan-cli/src/project_editor.rs",
        "MAX_EDITED_BYTES",
    ),
    (
        "directory entries searched for test cases and editable files in the studio",
        "project_editor/edited_files.rs",
        "MAX_SEARCHED_ENTRIES",
    ),
    (
        "messages per text of `discord__send`, `slack__send` and `telegram__send`",
        "platforms/outgoing_text.rs",
        "MAX_MESSAGES",
    ),
    (
        "studio sessions",
        "goondan-serve/src/studio/sign_in.rs",
        "MAX_SESSIONS",
    ),
    (
        "entries in `/api/reloads`",
        "goondan-serve/src/reloads.rs",
        "MAX_RELOAD_RECORDS",
    ),
    (
        "time for connections to end at shutdown",
        "goondan-serve/src/server.rs",
        "SHUTDOWN_TIMEOUT",
    ),
    (
        "size of a request body (`gdn serve --max-body`)",
        "goondan-serve/src/server_options.rs",
        "DEFAULT_MAX_BODY_BYTES",
    ),
    (
        "concurrent HTTP connections",
        "goondan-serve/src/server_options.rs",
        "DEFAULT_MAX_CONNECTIONS",
    ),
    (
        "timeout for request headers or a studio sign-in code",
        "goondan-serve/src/server_options.rs",
        "DEFAULT_HEAD_TIMEOUT",
    ),
    (
        "time for a client to read further bytes of a response",
        "goondan-serve/src/server_options.rs",
        "DEFAULT_WRITE_TIMEOUT",
    ),
    (
        "minimum that a client reads in 60 s while a response waits for it",
        "goondan-serve/src/write_timeout.rs",
        "MIN_WINDOW_BYTES",
    ),
    (
        "size of a request with a studio sign-in code, in bytes",
        "goondan-serve/src/studio/mod.rs",
        "MAX_CODE_BODY_BYTES",
    ),
    (
        "size of a JSON schema in an OpenAI request",
        "openai/format.rs",
        "MAX_SCHEMA_BYTES",
    ),
    (
        "sessions kept for `squad__status` across restarts, per conversation",
        "squad/routed_sessions.rs",
        "MAX_STORED_SESSIONS",
    ),
    (
        "buffered events per A2A or AG-UI stream",
        "goondan-serve/src/turn_encoder.rs",
        "STREAM_BUFFER_EVENTS",
    ),
    (
        "time for an A2A, AG-UI or MCP client to answer an approval request",
        "gateway/approval_bridge.rs",
        "ANSWER_TIMEOUT",
    ),
    (
        "maximum page size of an A2A task list",
        "a2a/list.rs",
        "MAX_PAGE_SIZE",
    ),
    (
        "default page size of an A2A task list",
        "a2a/list.rs",
        "DEFAULT_PAGE_SIZE",
    ),
    (
        "conversations searched per A2A task list",
        "a2a/list.rs",
        "MAX_LISTED_CONVERSATIONS",
    ),
    (
        "wait for a task to end after an A2A cancel",
        "goondan-serve/src/a2a/mod.rs",
        "CANCEL_TIMEOUT",
    ),
    (
        "cache lifetime of an agent card",
        "a2a/agent.rs",
        "CARD_MAX_AGE",
    ),
    (
        "timeout to fetch an agent card",
        "a2a/agent.rs",
        "CARD_TIMEOUT",
    ),
    ("size of an agent card", "a2a/agent.rs", "MAX_CARD_BYTES"),
    (
        "size of an A2A response",
        "a2a/agent.rs",
        "MAX_ANSWER_BYTES",
    ),
    (
        "first poll interval for a task",
        "a2a/call.rs",
        "MIN_POLL_INTERVAL",
    ),
    (
        "maximum poll interval for a task",
        "a2a/call.rs",
        "MAX_POLL_INTERVAL",
    ),
    (
        "consecutive failed polls of a task",
        "a2a/call.rs",
        "MAX_POLL_FAILURES",
    ),
    (
        "attachments per A2A answer",
        "a2a/task.rs",
        "MAX_ATTACHMENTS",
    ),
    (
        "startup time of an MCP server, including its tool list (`connectTimeout`)",
        "kinds/mcp.rs",
        "DEFAULT_CONNECT_TIMEOUT_MS",
    ),
    (
        "wait of a reload for all new MCP servers",
        "goondan-mcp/src/source.rs",
        "RELOAD_CONTACT_TIMEOUT",
    ),
    (
        "tools per MCP server",
        "goondan-mcp/src/catalog.rs",
        "MAX_TOOLS",
    ),
    (
        "pages of a tool list",
        "goondan-mcp/src/listing.rs",
        "MAX_PAGES",
    ),
    (
        "length of a tool description, in characters",
        "goondan-mcp/src/catalog.rs",
        "MAX_DESCRIPTION_CHARS",
    ),
    (
        "size of a tool schema",
        "goondan-mcp/src/catalog.rs",
        "MAX_SCHEMA_BYTES",
    ),
    (
        "nesting depth of a tool schema",
        "goondan-mcp/src/catalog.rs",
        "MAX_SCHEMA_DEPTH",
    ),
    (
        "size of an MCP message",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "objects and lists in an MCP message",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_MESSAGE_NODES",
    ),
    (
        "values in an MCP message, including objects and lists",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_MESSAGE_VALUES",
    ),
    (
        "unread messages per MCP server",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_UNREAD_MESSAGES",
    ),
    (
        "non-protocol output between two MCP messages",
        "goondan-mcp/src/stdio_transport.rs",
        "MAX_SKIPPED_BYTES",
    ),
    (
        "attachments per MCP result",
        "goondan-mcp/src/result.rs",
        "MAX_ATTACHMENTS",
    ),
    (
        "size of an attachment in an MCP result",
        "goondan-mcp/src/result.rs",
        "MAX_ATTACHMENT_BYTES",
    ),
    (
        "size of an attachment in an A2A answer",
        "goondan-mcp/src/result.rs",
        "MAX_ATTACHMENT_BYTES",
    ),
    (
        "prompts per MCP server",
        "goondan-mcp/src/prompts.rs",
        "MAX_PROMPTS",
    ),
    (
        "resources in one list for the model",
        "goondan-mcp/src/resources.rs",
        "MAX_LISTED_RESOURCES",
    ),
    (
        "input requests of an MCP server during one call",
        "goondan-mcp/src/server.rs",
        "MAX_INPUT_ROUNDS",
    ),
    (
        "maximum reconnect delay after an MCP server failed",
        "goondan-mcp/src/server.rs",
        "MAX_RECONNECT_DELAY",
    ),
    ("nodes per test case", "case/nodes.rs", "MAX_NODES"),
    (
        "timeout to send a cancellation to an A2A agent",
        "a2a/call.rs",
        "CANCEL_TIMEOUT",
    ),
    (
        "size of a `gdn lsp` message",
        "goondan-lsp/src/transport.rs",
        "MAX_MESSAGE_BYTES",
    ),
    (
        "size of the checksum list",
        "commands/self_update/release.rs",
        "MAX_CHECKSUM_LIST_BYTES",
    ),
    (
        "size of a release archive",
        "commands/self_update/release.rs",
        "MAX_ARCHIVE_BYTES",
    ),
    (
        "connect timeout of an update",
        "commands/self_update/release.rs",
        "CONNECT_TIMEOUT",
    ),
    (
        "idle timeout of an update download",
        "commands/self_update/release.rs",
        "READ_TIMEOUT",
    ),
    (
        "items per completion",
        "goondan-lsp/src/completion/mod.rs",
        "MAX_COMPLETION_ITEMS",
    ),
    (
        "chat history, in inputs",
        "goondan-cli/src/commands/run/chat/history.rs",
        "MAX_HISTORY_INPUTS",
    ),
    (
        "size of the chat history",
        "goondan-cli/src/commands/run/chat/history.rs",
        "MAX_HISTORY_BYTES",
    ),
    (
        "symbols per workspace search",
        "goondan-lsp/src/symbols.rs",
        "MAX_WORKSPACE_SYMBOLS",
    ),
    (
        "fix rounds of `gdn validate --fix`",
        "goondan-spec/src/repair.rs",
        "MAX_REPAIR_ROUNDS",
    ),
    (
        "OpenAI conversations indexed by their messages",
        "openai/conversation_index.rs",
        "MAX_INDEXED_CONVERSATIONS",
    ),
    (
        "distinct OpenAI requests remembered for retries",
        "openai/conversation_index.rs",
        "MAX_RETRIABLE_REQUESTS",
    ),
    (
        "remembered attempts per OpenAI request body",
        "openai/conversation_index.rs",
        "MAX_ATTEMPTS_PER_REQUEST",
    ),
    (
        "retry window after an OpenAI request ends",
        "openai/conversation_index.rs",
        "RETRY_WINDOW",
    ),
    (
        "`Model.spec.options.maxRetries`",
        "plan/mod.rs",
        "DEFAULT_MAX_RETRIES",
    ),
    (
        "first retry delay of a model call, unless the provider sets one",
        "model_call.rs",
        "FIRST_RETRY_WAIT",
    ),
    (
        "maximum retry delay of a model call",
        "model_call.rs",
        "MAX_RETRY_WAIT",
    ),
    (
        "`Model.spec.options.maxRetryWait`: maximum retry delay set by a provider",
        "plan/mod.rs",
        "DEFAULT_MAX_RETRY_WAIT",
    ),
    (
        "retry period while a model server refuses connections or loads its model",
        "model_call.rs",
        "SERVER_START_TIMEOUT",
    ),
    (
        "retry period after a model server stopped during a call",
        "model_call.rs",
        "SERVER_RESTART_TIMEOUT",
    ),
    (
        "`Model.spec.options.timeout`: idle timeout of a model call",
        "client/settings.rs",
        "DEFAULT_IDLE_TIMEOUT",
    ),
    (
        "connect timeout of a model call",
        "transport/http.rs",
        "CONNECT_TIMEOUT",
    ),
    (
        "size of a model response",
        "model_call.rs",
        "MAX_ANSWER_BYTES",
    ),
    (
        "size of an error response of a provider",
        "transport/limits.rs",
        "MAX_ERROR_BYTES",
    ),
    (
        "timeout for a batch of embeddings",
        "client/live.rs",
        "EMBEDDING_TIMEOUT",
    ),
    (
        "idle connections per model host",
        "transport/http.rs",
        "MAX_IDLE_CONNECTIONS",
    ),
    (
        "size of a script (`provider: scripted`)",
        "scripted/resource.rs",
        "MAX_SCRIPT_BYTES",
    ),
    (
        "size of a cassette (`provider: replay`)",
        "replay/cassette.rs",
        "MAX_CASSETTE_BYTES",
    ),
    (
        "maximum value of `timeout`",
        "kinds/call_timeout.rs",
        "MAX_TIMEOUT_MS",
    ),
    (
        "`Extension.spec.timeout`: continuous execution time of an extension",
        "kinds/extension.rs",
        "DEFAULT_WORK_TIMEOUT_MS",
    ),
    (
        "registered extensions per runtime process",
        "goondan-core/src/extension_protocol/sessions.rs",
        "MAX_SESSIONS",
    ),
    (
        "default timeout of `ctx.agents.request`",
        "hosted/layer_requests.rs",
        "ANSWER_TIMEOUT_MS",
    ),
    (
        "time for a handler to stop after a timeout or cancellation",
        "dispatch.rs",
        "CANCEL_GRACE",
    ),
    (
        "length of a tool name (`tool__export`), in characters",
        "kinds/export.rs",
        "MAX_TOOL_NAME_BYTES",
    ),
    (
        "progress updates of a call per second",
        "reporter.rs",
        "MAX_UPDATES_PER_SECOND",
    ),
    ("paths per tool call", "resolved_paths.rs", "MAX_CALL_PATHS"),
    (
        "timeout for the preview of an approval request",
        "policy/approval_request.rs",
        "PREVIEW_TIMEOUT",
    ),
    (
        "size of a preview, in bytes",
        "policy/approval_request.rs",
        "MAX_PREVIEW_BYTES",
    ),
    (
        "size of a program that is hashed for an approval",
        "goondan-core/src/content_hash.rs",
        "MAX_HASHED_FILE_BYTES",
    ),
    (
        "size of event metadata, in bytes",
        "limits.rs",
        "MAX_METADATA_BYTES",
    ),
    (
        "startup time of a runtime process",
        "goondan-hosts/src/process.rs",
        "HELLO_TIMEOUT",
    ),
    (
        "size of a line from a runtime process",
        "goondan-hosts/src/wire.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "time for a cancelled handler to return",
        "goondan-hosts/src/transport.rs",
        "CANCEL_GRACE",
    ),
    (
        "ping timeout of a runtime process with an unresponsive handler",
        "goondan-hosts/src/process.rs",
        "PONG_TIMEOUT",
    ),
    (
        "time for a runtime process to exit",
        "goondan-hosts/src/process.rs",
        "EXIT_TIMEOUT",
    ),
    (
        "queued log lines, progress updates and requests per handler call",
        "plugin_session/open_calls.rs",
        "EVENT_QUEUE_LENGTH",
    ),
    (
        "queued runtime events per runtime process",
        "goondan-hosts/src/process.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "queued runtime events per extension library",
        "extension/event_queue.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "open agent requests per handler call",
        "plugin_session/tool_call.rs",
        "MAX_OPERATIONS",
    ),
    (
        "consecutive runtime process failures without a result, before restarts are delayed",
        "goondan-hosts/src/host.rs",
        "IMMEDIATE_RESTARTS",
    ),
    (
        "maximum restart delay of a runtime process",
        "goondan-hosts/src/host.rs",
        "MAX_RESTART_DELAY",
    ),
    (
        "runtime processes per package, one for each sandbox",
        "goondan-hosts/src/host.rs",
        "MAX_IDLE_SCOPES",
    ),
    (
        "watched imports per handler file",
        "imports.rs",
        "MAX_FOLLOWED_FILES",
    ),
    (
        "background processes per conversation (`runtime__exec`)",
        "background_processes.rs",
        "MAX_RUNNING_PROCESSES",
    ),
    (
        "buffered output per stream of a background process between two polls, in bytes",
        "background_processes.rs",
        "KEPT_POLL_BYTES",
    ),
    (
        "time between a termination request and the kill of a process",
        "src/process.rs",
        "TERMINATION_GRACE_PERIOD",
    ),
    (
        "parts in a `text-transform__split` result",
        "goondan-tools/src/text_transform.rs",
        "MAX_SPLIT_PARTS",
    ),
    (
        "wait of an approved call for sandboxed programs that can change its files",
        "running_programs/wait_limits.rs",
        "WRITER_WAIT_TIMEOUT",
    ),
    (
        "wait of an approved call for sandboxed programs of other `gdn` processes, or of these programs for the call",
        "running_programs/wait_limits.rs",
        "OTHER_PROCESS_TIMEOUT",
    ),
    (
        "time for an approved call to read its files",
        "goondan-tools/src/running_programs.rs",
        "FILE_READ_PERIOD",
    ),
    (
        "length of a command line that `gdn` parses",
        "command_line/parse.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "nesting depth of commands in a command line",
        "command_line/parse.rs",
        "MAX_NESTING_DEPTH",
    ),
    (
        "output size of a command substitution (`\"$(…)\"`)",
        "command_runner/word_expansion.rs",
        "MAX_SUBSTITUTION_BYTES",
    ),
    (
        "file names matched by a pattern",
        "command_runner/word_expansion.rs",
        "MAX_MATCHED_NAMES",
    ),
    (
        "size of an `fs__read` page",
        "fs/read.rs",
        "DEFAULT_PAGE_BYTES",
    ),
    (
        "size of an `fs__read` page with `limit`",
        "fs/read.rs",
        "MAX_PAGE_BYTES",
    ),
    ("size of an attached image", "fs/read.rs", "MAX_IMAGE_BYTES"),
    (
        "size of a file changed by `fs__edit` or `fs__apply_patch`",
        "src/file_changes/mod.rs",
        "MAX_TEXT_FILE_BYTES",
    ),
    (
        "attempts to change a file during concurrent changes",
        "src/file_changes/mod.rs",
        "MAX_CHANGE_ATTEMPTS",
    ),
    (
        "size of a file guarded by `staleWrites`",
        "file_changes/versions.rs",
        "MAX_GUARDED_FILE_BYTES",
    ),
    (
        "file versions remembered by `staleWrites`, one per conversation and file",
        "file_changes/versions.rs",
        "MAX_SEEN_VERSIONS",
    ),
    (
        "line length of a file searched by `fs__grep`",
        "fs/search.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "size of an `fs__grep` result",
        "fs/grep.rs",
        "MAX_GREP_OUTPUT_BYTES",
    ),
    (
        "length of a line in an `fs__grep` result, in bytes",
        "fs/search.rs",
        "MAX_SHOWN_LINE_BYTES",
    ),
    (
        "files in an `fs__glob` result",
        "fs/glob.rs",
        "MAX_GLOB_FILES",
    ),
    (
        "entries in an `fs__ls` result",
        "fs/ls.rs",
        "MAX_LISTED_ENTRIES",
    ),
    (
        "entries in a `file-system__list` result",
        "file_system.rs",
        "MAX_DIRECTORY_ENTRIES",
    ),
    (
        "size of a page fetched by `web__fetch`",
        "web/mod.rs",
        "MAX_PAGE_BYTES",
    ),
    (
        "length of a `web__fetch` result, in characters",
        "web/mod.rs",
        "MAX_SHOWN_CHARS",
    ),
    (
        "redirects per request of a network tool",
        "goondan-tools/src/http.rs",
        "MAX_REDIRECTS",
    ),
    (
        "timeout of a webhook (`messaging__message`)",
        "messaging.rs",
        "WEBHOOK_TIMEOUT",
    ),
    (
        "size of a `text-transform` result",
        "text_transform.rs",
        "MAX_RESULT_BYTES",
    ),
    ("tasks per `todo__write` list", "todo.rs", "MAX_TODO_TASKS"),
    (
        "size of a note",
        "file_changes/mod.rs",
        "MAX_TEXT_FILE_BYTES",
    ),
    (
        "notes searched by `memory__search`",
        "memory/mod.rs",
        "MAX_SEARCHED_NOTES",
    ),
    (
        "size of a payload, in either direction",
        "goondan-dylib/src/limits.rs",
        "max_payload",
    ),
    (
        "time to open a library",
        "goondan-dylib/src/limits.rs",
        "open_timeout",
    ),
    (
        "time for a library to end a cancelled call",
        "goondan-dylib/src/limits.rs",
        "cancel_grace",
    ),
    (
        "time to close a library",
        "goondan-dylib/src/limits.rs",
        "close_grace",
    ),
    (
        "library calls that never returned",
        "goondan-dylib/src/limits.rs",
        "max_written_off",
    ),
    (
        "queued log lines, progress updates and requests per library call",
        "plugin_session/open_calls.rs",
        "EVENT_QUEUE_LENGTH",
    ),
    (
        "open agent requests per library call",
        "plugin_session/tool_call.rs",
        "MAX_OPERATIONS",
    ),
    (
        "consecutive library crashes before restarts are delayed (`isolation: process`)",
        "hosted/library.rs",
        "IMMEDIATE_RESTARTS",
    ),
    (
        "maximum restart delay of a library process",
        "hosted/library.rs",
        "MAX_RESTART_DELAY",
    ),
    (
        "reloaded libraries in memory",
        "goondan-dylib/src/library_thread.rs",
        "RETIRED_WARNING_COUNT",
    ),
    (
        "size of a YAML or prompt file",
        "goondan-spec/src/paths.rs",
        "MAX_FILE_BYTES",
    ),
    (
        "documents per file",
        "goondan-spec/src/parsed_file.rs",
        "MAX_DOCUMENTS_PER_FILE",
    ),
    (
        "nesting depth of lists and maps",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_NESTING_DEPTH",
    ),
    (
        "values expanded from the aliases of a document",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_ALIASED_VALUES",
    ),
    (
        "size of strings and keys expanded from the aliases of a document",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_ALIASED_BYTES",
    ),
    (
        "length of a key, in characters",
        "goondan-spec/src/yaml/mod.rs",
        "MAX_KEY_CHARS",
    ),
    (
        "depth of directories searched for resources",
        "discover.rs",
        "MAX_DIRECTORY_DEPTH",
    ),
    (
        "size of an ignore file, such as `.gitignore`",
        "ignore_files.rs",
        "MAX_IGNORE_FILE_BYTES",
    ),
    (
        "total size of the patterns of ignore files, in a project or a search",
        "ignore_files.rs",
        "MAX_IGNORE_PATTERN_BYTES",
    ),
    (
        "size of `goondan.lock.yaml`",
        "goondan-packages/src/install.rs",
        "MAX_LOCK_BYTES",
    ),
    (
        "size of a file that a command edits, such as `gdn package add`",
        "goondan-cli/src/input_files.rs",
        "MAX_PROJECT_FILE_BYTES",
    ),
    (
        "length of `metadata.name`, in characters",
        "envelope.rs",
        "MAX_NAME_CHARS",
    ),
    (
        "length of a pattern in `permissions`, in bytes",
        "kinds/permissions.rs",
        "MAX_PATTERN_BYTES",
    ),
    (
        "size of a secret file",
        "goondan/src/start/secrets.rs",
        "MAX_SECRET_FILE_BYTES",
    ),
    (
        "minimum length of a secret that is masked everywhere, in characters",
        "goondan-spec/src/value.rs",
        "MIN_MASKED_ANYWHERE_CHARS",
    ),
    (
        "minimum length of a secret that is masked as a whole word, in characters",
        "goondan-spec/src/value.rs",
        "MIN_MASKED_WORD_CHARS",
    ),
    (
        "minimum length of a value that is masked because of its variable name, in bytes",
        "redact/mod.rs",
        "MIN_GUESS_BYTES",
    ),
    (
        "results remembered to detect duplicate events",
        "result_cache.rs",
        "MAX_CACHED_EVENTS",
    ),
    (
        "total size of remembered results",
        "result_cache.rs",
        "MAX_CACHED_BYTES",
    ),
    (
        "idle conversations in memory",
        "turn/conversation_cache.rs",
        "MAX_CACHED_CONVERSATIONS",
    ),
    (
        "messages of idle conversations in memory",
        "turn/conversation_cache.rs",
        "MAX_CACHED_MESSAGES",
    ),
    (
        "idle conversations remembered by the leader, with a database",
        "goondan-store-postgres/src/instances.rs",
        "MAX_REMEMBERED_INSTANCES",
    ),
    (
        "conversations whose last node the leader remembers",
        "cluster/placement/mod.rs",
        "MAX_REMEMBERED_HOMES",
    ),
    (
        "queued runtime events for the disk",
        "jsonl/background_writer.rs",
        "MAX_QUEUED_EVENTS",
    ),
    (
        "size of `runtime-events.jsonl`",
        "jsonl/runtime_events.rs",
        "MAX_EVENT_FILE_BYTES",
    ),
    (
        "unsynced conversations",
        "jsonl/dirty_checkpoints.rs",
        "MAX_DIRTY_CONVERSATIONS",
    ),
    (
        "size of unsynced conversations",
        "jsonl/dirty_checkpoints.rs",
        "MAX_DIRTY_BYTES",
    ),
    (
        "size of a turn that is written together with its result",
        "jsonl/conversation.rs",
        "OWN_SYNC_BYTES",
    ),
    (
        "wait for the lock of a dead process at startup",
        "jsonl/lock.rs",
        "LOCK_TIMEOUT",
    ),
    (
        "size of a line in `gdn conversation import`",
        "goondan-store/src/instance_export.rs",
        "MAX_LINE_BYTES",
    ),
    (
        "messages per `gdn conversation import`",
        "goondan-store/src/instance_export.rs",
        "MAX_EXPORT_MESSAGES",
    ),
    (
        "size of a `gdn conversation import`",
        "goondan-store/src/instance_export.rs",
        "MAX_EXPORT_BYTES",
    ),
    (
        "quiet time after an edit that removes something or does not load",
        "watch/mod.rs",
        "settle",
    ),
    (
        "quiet time after a library changed",
        "watch/mod.rs",
        "settle_library",
    ),
    (
        "maximum wait while files keep changing",
        "watch/mod.rs",
        "MAX_BURST_WAIT",
    ),
    (
        "maximum wait while a library keeps changing",
        "watch/mod.rs",
        "MAX_LINK_WAIT",
    ),
    (
        "poll interval for files without change notifications",
        "watch/mod.rs",
        "poll",
    ),
    (
        "poll interval for files with change notifications",
        "watch/mod.rs",
        "quiet_check",
    ),
    (
        "timeout of `gdn reload`",
        "commands/reload.rs",
        "RELOAD_TIMEOUT",
    ),
    (
        "kept build output, at the start and at the end each",
        "build/command.rs",
        "KEPT_OUTPUT_BYTES",
    ),
    (
        "time for libraries to end with the swarm",
        "goondan/src/adapters/mod.rs",
        "LIBRARY_SHUTDOWN_TIMEOUT",
    ),
    (
        "time to exit after a second Ctrl-C",
        "run/signals.rs",
        "FORCED_EXIT_DELAY",
    ),
    (
        "size of an input or file that a command reads",
        "src/input_files.rs",
        "MAX_INPUT_BYTES",
    ),
    (
        "wait of a command for the process that uses the workspace",
        "remote/mod.rs",
        "CONTROL_ENDPOINT_TIMEOUT",
    ),
    (
        "timeout of a test case",
        "goondan-conformance/src/run.rs",
        "DEFAULT_TIME_LIMIT",
    ),
    (
        "timeout of a live run of a test case",
        "goondan-conformance/src/run.rs",
        "LIVE_TIME_LIMIT",
    ),
    (
        "live runs per test case",
        "goondan-conformance/src/case/live.rs",
        "MAX_RUNS",
    ),
];

/// Returns the rows of all tables: the limit and its value.
fn rows() -> BTreeMap<String, String> {
    let page = std::fs::read_to_string(repository().join("docs/limits.md")).unwrap();
    let rows = page
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| limit |"));
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

/// Returns all source files below `folder`.
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

/// Parses a quantity such as `10,000`, `512 MiB` (in bytes) or `30 s` (in milliseconds). Ignores
/// text after a comma and a space.
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
        _ => panic!("`{unit}` is not a unit"),
    };
    number.replace(',', "").parse::<u64>().unwrap() * factor
}

/// Returns the value of a constant, or of a field in a literal. Times are in milliseconds.
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
fn documented_limits_match_the_constants_in_the_sources() {
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
fn documented_defaults_match_the_schemas() {
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

/// Returns the schema of a field. The map may have several forms.
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
fn every_documented_limit_is_checked() {
    for row in rows().keys() {
        let is_constant = CONSTANTS.iter().any(|(known, ..)| known == row);
        assert!(
            is_constant || row.starts_with('`'),
            "`{row}` has no constant in `CONSTANTS`"
        );
    }
}
