//! Codes of extensions that are files.

codes! {
    /// The file of an extension has no function `register`.
    EXT_LOAD = "E_EXT_LOAD" {
        why: "An extension registers its middleware in the exported function `register`. The file \
            loads, but exports \
              no such function.",
        next: "Export it: `export function register(api) { … }` in JavaScript and TypeScript, `def \
            register(api): …` \
              in Python. A file that cannot be loaded at all has the code `E_HOST_MODULE`.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
    /// The function `register` of an extension failed, or its registration is invalid.
    EXT_INIT = "E_EXT_INIT" {
        why: "`register` threw an error, took longer than `timeoutMs`, or registered middleware of \
            an unknown kind or \
              a tool with an invalid name. The turn ends with this error. The next turn of the \
            conversation tries \
              again.",
        next: "Correct the file. A running swarm loads the edited file. The message quotes the \
            error.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
    /// The middleware of an extension threw an error without a code.
    EXT_FAILED = "E_EXT_FAILED" {
        why: "An error in turn or step middleware ends the turn. An error in tool call middleware \
            becomes the result \
              of the call.",
        next: "Correct the extension. The log contains the stack trace at level `debug`.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
    /// The middleware of an extension called `next` a second time.
    EXT_NEXT = "E_EXT_NEXT" {
        why: "Middleware may call `next` at most once, so that the wrapped model call or tool call \
            runs at most once.",
        next: "Call `ctx.next()` once and keep its result.",
        more: Some("extensions.md#layers"),
    }
    /// The middleware of an extension returned or changed an invalid value.
    EXT_RESULT = "E_EXT_RESULT" {
        why: "Middleware must return the result of `next`, changed or unchanged, or a complete \
            result of its own \
              without `next`. Changed fields and emitted message events must have the documented \
            form.",
        next: "Return the result of `ctx.next()`. The message describes the invalid value.",
        more: Some("extensions.md#layers"),
    }
    /// The code of an extension exceeded its time limit.
    EXT_TIMEOUT = "E_EXT_TIMEOUT" {
        why: "Middleware ran longer than `timeoutMs` without a break. The time during `next` and \
            during requests to \
              other agents does not count.",
        next: "Find the operation that takes so long, or raise `spec.timeoutMs` of the Extension.",
        more: Some("extensions.md#when-something-goes-wrong"),
    }
}
