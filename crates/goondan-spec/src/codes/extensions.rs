//! Codes of extensions whose code is a file.

codes! {
    /// The file of an extension has no function `register`.
    EXT_LOAD = "E_EXT_LOAD" {
        why: "An extension takes its seat by the function `register`, which its file exports. The file was loaded, and has no \
              such function.",
        next: "Export it: `export function register(api) { … }` in JavaScript and TypeScript, `def register(api): …` in Python. \
               For a file that cannot be loaded at all the code is `E_HOST_MODULE`.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
    /// The function `register` of an extension has failed, or has registered what cannot be.
    EXT_INIT = "E_EXT_INIT" {
        why: "It threw, took longer than `timeoutMs`, or registered a layer of an unknown kind or a tool without a proper \
              name. The turn ends with this error; the next turn of the conversation tries again.",
        next: "Correct the file; a running swarm takes up the edit. The message quotes what was thrown.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
    /// A layer of an extension threw something that has no code of its own.
    EXT_FAILED = "E_EXT_FAILED" {
        why: "What a layer around a turn or a step throws ends the turn; what a layer around a tool call throws is the result \
              of the call.",
        next: "Correct the extension. The stack is logged at level `debug`.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
    /// A layer of an extension called `next` a second time.
    EXT_NEXT = "E_EXT_NEXT" {
        why: "What a layer wraps runs once: a model is asked once and a tool is called once, or not at all.",
        next: "Call `ctx.next()` once and keep its result.",
        more: Some("extensions.md#layers"),
    }
    /// What a layer of an extension has returned, or changed, makes no sense.
    EXT_RESULT = "E_EXT_RESULT" {
        why: "A layer returns what `next` has given to it, changed or not; without `next`, a whole result of its own. The \
              fields that it changes and the message events that it emits must have the form that the reference gives.",
        next: "Return the result of `ctx.next()`. The message says what is wrong.",
        more: Some("extensions.md#layers"),
    }
    /// The code of an extension worked longer at a stretch than it may.
    EXT_TIMEOUT = "E_EXT_TIMEOUT" {
        why: "Between the begin of a layer, `next`, questions to other agents, and its end the code may take `timeoutMs`. What \
              it waits for in others does not count.",
        next: "Look for what it waits for, or raise `spec.timeoutMs` of the Extension.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
}
