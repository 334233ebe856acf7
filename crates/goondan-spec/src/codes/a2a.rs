//! Codes of remote agents, reached by A2A.

codes! {
    /// A remote agent cannot be reached, or does not support A2A.
    A2A_CONNECT = "E_A2A_CONNECT" {
        why: "No server responds at the `url` of `spec.a2a`, or the server refuses the request. Or \
            the server has no \
              agent card, or its card refers to another host.",
        next: "Check `url` and `headers` in `spec.a2a`. The message shows the request and the \
            response.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
    /// A remote agent refused a request.
    A2A_REFUSED = "E_A2A_REFUSED" {
        why: "The agent returned an A2A protocol error. The message quotes it.",
        next: "Read the message, and call again with other arguments. If the task has ended, omit \
            `task`: an ended \
              task accepts no messages.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
    /// A task of a remote agent failed, or was rejected or cancelled.
    A2A_TASK = "E_A2A_TASK" {
        why: "The agent reported that the task failed, was rejected or was cancelled. The message \
            quotes the agent.",
        next: "Read the message, and change the request.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
    /// A remote agent returned an invalid response.
    A2A_PROTOCOL = "E_A2A_PROTOCOL" {
        why: "The response does not conform to A2A, or is larger than 16 MiB. Or the connection \
            broke, and the state \
              of the task could not be fetched again.",
        next: "Call again. If the error occurs again, report the message to the maintainer of the \
            agent.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
}
