//! Codes of MCP servers.

codes! {
    /// The program of an MCP server cannot be started.
    MCP_START = "E_MCP_START" {
        why: "The program that `spec.mcp.command` names is not there or cannot be executed, or a variable or secret that \
              the server is given is missing.",
        next: "Check `command`, `args` and `env` in `spec.mcp`. `gdn mcp list --connect` starts the server and shows what it \
               writes to standard error.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server cannot be reached, or does not speak MCP.
    MCP_CONNECT = "E_MCP_CONNECT" {
        why: "Nothing answers at the `url` or `socket`, or what answers does not speak MCP. The message shows the last lines \
              that a program has written to standard error.",
        next: "Check `command`, `url` or `socket` in `spec.mcp`. `gdn mcp list --connect` tries again and shows more.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server did not say in time which tools it has.
    MCP_TIMEOUT = "E_MCP_TIMEOUT" {
        why: "The server was started or reached, and did not answer within `spec.mcp.connectTimeoutMs`.",
        next: "Set a longer `connectTimeoutMs`, or find out with `gdn mcp list --connect` what the server waits for.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server ended during a call.
    MCP_DIED = "E_MCP_DIED" {
        why: "The server's process ended, or its connection was closed, before it answered. Nobody knows whether the call \
              did anything.",
        next: "Check what the call has done, then call again: the server is started again.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server failed a moment ago and is not tried again yet.
    MCP_DOWN = "E_MCP_DOWN" {
        why: "The server failed. It is tried again after 1 s, then 2 s, 4 s and so on, up to a minute.",
        next: "Call again later. `gdn mcp list --connect` shows why the server fails.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server wants somebody to log in.
    MCP_AUTH = "E_MCP_AUTH" {
        why: "The server refused the request because nobody has logged in, the login has expired, or the call needs more \
              rights than were granted.",
        next: "Run `gdn mcp login TOOL`, with the name of the Tool resource.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server no longer has the tool that was called.
    MCP_NO_TOOL = "E_MCP_NO_TOOL" {
        why: "The server has changed its tools since they were offered to the model.",
        next: "Call one of the tools that the server has now. They are offered from the next step on.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// A tool of an MCP server says that it failed.
    MCP_TOOL = "E_MCP_TOOL" {
        why: "The server answered that the call failed. The message holds the server's own words.",
        next: "Read the message, and call again with other arguments.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server refuses a request, or gives no valid answer.
    MCP_PROTOCOL = "E_MCP_PROTOCOL" {
        why: "The server answered with a protocol error, or with something that is not an answer to the request.",
        next: "Check the arguments. If they are right, report the message to whoever maintains the server.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server sent a message that is too large.
    MCP_TOO_LARGE = "E_MCP_TOO_LARGE" {
        why: "A message of the server is larger than 16 MiB.",
        next: "Ask for less at a time.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server asks a person, and nobody is there.
    MCP_INPUT = "E_MCP_INPUT" {
        why: "During a call, the server asked the user to fill in a form or to open a page, and nobody can be asked.",
        next: "Give the server what it needs in its configuration, or set `spec.mcp.elicitation: defaults` if the defaults of \
               its forms are right.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// The tools of an MCP server are not known, or not all of them can be offered.
    MCP_CATALOG = "W_MCP_CATALOG" {
        why: "The server has not answered yet; or it does not have everything that `spec.exports` names; or some of its tools \
              are left out or renamed; or it has so many tools that models have to search for them.",
        next: "`gdn mcp list --connect` starts the server and says what is wrong.",
        more: Some("mcp.md"),
    }
}
