//! Codes of hosts: the processes in which modules in JavaScript, TypeScript and Python run, and libraries of connectors.

codes! {
    /// The host of a module did not start.
    HOST_START = "E_HOST_START" {
        why: "The runtime could not be started, ended at once, or did not answer within 20 s. The message shows what it has \
              printed. Or the library of a Connector has crashed while it was loaded.",
        next: "Check that the runtime works, and that `limits` and `sandbox` in the Tool's `config` leave it what it needs. \
               `gdn doctor` shows which runtimes are found. A library that crashes is looked at with a debugger.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// The host of a module ended during a call.
    HOST_DIED = "E_HOST_DIED" {
        why: "The process ended before the handler had returned: it ended itself, was killed, or another call in it never \
              came back. Nobody knows whether the call did anything.",
        next: "Check what the call has done, then call again: the host is started again.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// The host of a module has ended several times and is not started again yet.
    HOST_DOWN = "E_HOST_DOWN" {
        why: "The host ended four times or more without a single answer. It is started again after 1 s, then 2 s, 4 s and so \
              on, up to a minute.",
        next: "Call again later. `gdn logs` and the messages of the calls before show why it ends.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// A module, or the library of a connector, cannot be loaded or has no such handler.
    HOST_MODULE = "E_HOST_MODULE" {
        why: "The file has a mistake or imports what is not there, its runtime does not read its language, or its `handlers` \
              has no function with the name of the export. A library that a Connector names has no connector, or is damaged.",
        next: "Correct the file, or build the library again; a running swarm takes up the edit. For a file in TypeScript use \
               Node.js 22.18 or newer, Bun or Deno.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// What a handler has returned is not JSON, has a part of the wrong type, or is larger than 16 MiB.
    HOST_RESULT = "E_HOST_RESULT" {
        why: "A result becomes JSON. Values that refer to themselves, functions and numbers without an end cannot. A title is text, \
              and attachments are a list of `{mediaType, data}`.",
        next: "Return plain values. Write what is large to a file, and return its name.",
        more: Some("hosts.md#when-something-goes-wrong"),
    }
    /// An event that a connector has handed in was not taken.
    CONNECTOR_EVENT = "E_CONNECTOR_EVENT" {
        why: "The event has no `name` or no `message`, or the swarm does not take it: it is stopping, the conversation has too \
              many inputs that wait, or no such agent is there. The message says which.",
        next: "Correct the event. Where the swarm was busy or stopping, `emit` it again later.",
        more: Some("connections.md#a-connector-of-your-own"),
    }
    /// The function of a connector failed.
    CONNECTOR_FAILED = "E_CONNECTOR_FAILED" {
        why: "It has thrown or returned an error that has no code of its own, or it panicked. The message says which. The swarm and \
              the other connections go on.",
        next: "Correct what the message names. The connection starts again by itself, a little later each time; `gdn connection \
               list` shows how it does, and `gdn serve -vv` what the function logs.",
        more: Some("connections.md#a-connector-of-your-own"),
    }
}
