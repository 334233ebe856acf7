//! Codes of runtime processes, which run handler files in JavaScript, TypeScript and Python, and of
//! connector libraries.

codes! {
    /// The runtime process of a handler file did not start.
    HOST_START = "E_HOST_START" {
        why: "The runtime could not be started, ended immediately, or did not respond within 20 s. \
            The message shows \
              its output. Or the library of a Connector crashed during loading.",
        next: "Run `gdn doctor` to see the installed runtimes. Check that `limits` and `sandbox` \
            in the Tool's \
              `config` permit everything that the runtime needs. If a library crashes, run it in a \
            debugger.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// The runtime process of a handler file ended during a call.
    HOST_DIED = "E_HOST_DIED" {
        why: "The process ended before the handler returned. It exited by itself, was killed, or \
            another call in it \
              never returned. It is unknown whether the call had an effect.",
        next: "Check the effects of the call, then call again. The next call starts a new runtime \
            process.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// The runtime process of a handler file keeps ending, and its restart is delayed.
    HOST_DOWN = "E_HOST_DOWN" {
        why: "The process ended at least four times in a row without an answer. The delay before a \
            restart is 1 s, \
              then 2 s, 4 s and so on, up to a minute.",
        next: "Call again later. `gdn logs` and the messages of earlier calls show why the process \
            ends.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// A handler file or a connector library cannot be loaded, or has no such handler.
    HOST_MODULE = "E_HOST_MODULE" {
        why: "The file has an error, imports something that does not exist, or needs another \
            runtime. Or its \
              `handlers` contains no function with the name of the export. Or the library of a \
            Connector contains no \
              connector, or is damaged.",
        next: "Correct the file, or rebuild the library. A running swarm loads the new version. \
            For a TypeScript file, \
              use Node.js 22.18 or newer, Bun or Deno.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// A handler returned a result that is not JSON, has a part of the wrong type, or is larger
    /// than 16 MiB.
    HOST_RESULT = "E_HOST_RESULT" {
        why: "A result must be valid JSON. Circular values, functions and infinite numbers cannot \
            be converted. A \
              title must be a string, and attachments a list of `{mediaType, data}`.",
        next: "Return plain values. Write large data to a file, and return the file name.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// An event of a connector was not accepted.
    CONNECTOR_EVENT = "E_CONNECTOR_EVENT" {
        why: "The event has no `name` or no `message`, or the swarm refuses it. A swarm refuses \
            events if it is \
              stopping, if the conversation has too many queued inputs, or if the agent does not \
            exist. The message \
              contains the cause.",
        next: "Correct the event. If the swarm was busy or stopping, `emit` the event again later.",
        more: Some("connections.md#a-connector-of-your-own"),
    }
    /// The function of a connector failed.
    CONNECTOR_FAILED = "E_CONNECTOR_FAILED" {
        why: "The function threw or returned an error without a code, or it panicked. The message \
            contains the cause. \
              The swarm and the other connections continue.",
        next: "Fix the cause in the message. The connection restarts automatically after an \
            increasing delay. `gdn \
              connection list` shows its status, and `gdn serve -vv` shows the log of the \
            function.",
        more: Some("connections.md#a-connector-of-your-own"),
    }
}
