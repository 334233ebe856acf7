//! Error codes of MCP servers.

codes! {
    /// The program of an MCP server cannot be started.
    MCP_START = "E_MCP_START" {
        why: "The program in `spec.mcp.command` does not exist or cannot be executed, or a \
            variable or secret of the \
              server is missing.",
        next: "Check `command`, `args` and `env` in `spec.mcp`. `gdn mcp list --connect` starts \
            the server and shows \
              its standard error.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server cannot be reached, or does not support MCP.
    MCP_CONNECT = "E_MCP_CONNECT" {
        why: "No server responds at the `url` or `socket`, or the response is not MCP. The message \
            shows the last \
              lines that the program wrote to standard error.",
        next: "Check `command`, `url` or `socket` in `spec.mcp`. `gdn mcp list --connect` tries \
            again and shows \
              details.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server did not list its tools in time.
    MCP_TIMEOUT = "E_MCP_TIMEOUT" {
        why: "The server was started or reached, but did not respond within \
            `spec.mcp.connectTimeoutMs`.",
        next: "Raise `connectTimeoutMs`, or run `gdn mcp list --connect` to see why the server is \
            slow.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server ended during a call.
    MCP_DIED = "E_MCP_DIED" {
        why: "The server process ended, or its connection closed, before the response arrived. It \
            is unknown whether \
              the call had an effect.",
        next: "Check the effects of the call, then call again. The next call restarts the server.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server failed recently, and its restart is delayed.
    MCP_DOWN = "E_MCP_DOWN" {
        why: "The server failed. The delay before a retry is 1 s, then 2 s, 4 s and so on, up to a \
            minute.",
        next: "Call again later. `gdn mcp list --connect` shows why the server fails.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server requires a login.
    MCP_AUTH = "E_MCP_AUTH" {
        why: "The server refused the request because no user has logged in, the login has expired, \
            or the granted \
              permissions are insufficient.",
        next: "Run `gdn mcp login TOOL` with the name of the Tool resource.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server no longer has the tool that was called.
    MCP_NO_TOOL = "E_MCP_NO_TOOL" {
        why: "The server has changed its tools since the model received the list.",
        next: "Call one of the current tools of the server. The model receives the new list in the \
            next step.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP tool reported a failure.
    MCP_TOOL = "E_MCP_TOOL" {
        why: "The server reported that the call failed. The message quotes the server.",
        next: "Read the message, and call again with other arguments.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server refused a request, or returned an invalid response.
    MCP_PROTOCOL = "E_MCP_PROTOCOL" {
        why: "The server returned a protocol error, or a response that does not match the request.",
        next: "Check the arguments. If they are correct, report the message to the maintainer of \
            the server.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server sent a message that is too large.
    MCP_TOO_LARGE = "E_MCP_TOO_LARGE" {
        why: "A message from the server is larger than 16 MiB, or has more than 200,000 values.",
        next: "Request less at a time.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// An MCP server requested user input, but no user is available.
    MCP_INPUT = "E_MCP_INPUT" {
        why: "During a call, the server asked the user to fill in a form or to open a page, but no \
            client can prompt \
              the user.",
        next: "Put the required values into the server's configuration. If the defaults of its \
            forms are correct, set \
              `spec.mcp.elicitation: defaults`.",
        more: Some("mcp.md#when-something-goes-wrong"),
    }
    /// The tools of an MCP server are unknown, or not all of them can be offered.
    MCP_CATALOG = "W_MCP_CATALOG" {
        why: "The server has not responded yet, or it lacks tools that `spec.exports` names. Or \
            some of its tools are \
              omitted or renamed. Or it has so many tools that models must search for them.",
        next: "Run `gdn mcp list --connect`, which starts the server and shows the cause.",
        more: Some("mcp.md"),
    }
}
