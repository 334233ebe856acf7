//! Codes of agents of other programs.

codes! {
    /// An agent of another program cannot be reached, or does not speak A2A.
    A2A_CONNECT = "E_A2A_CONNECT" {
        why: "Nothing answers at the `url` of `spec.a2a`; or what answers has no agent card, refuses the request, or has a card \
              that leads to another host.",
        next: "Check `url` and `headers` in `spec.a2a`. The message says what was asked for, and what came back.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
    /// An agent of another program refuses a request.
    A2A_REFUSED = "E_A2A_REFUSED" {
        why: "The agent answered with an error of the protocol. The message holds its own words.",
        next: "Read the message, and call again with other arguments. A task that is over takes no messages: leave `task` out.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
    /// A task of an agent of another program came to nothing.
    A2A_TASK = "E_A2A_TASK" {
        why: "The agent says that the task has failed, or that it was rejected or cancelled. The message holds its own words.",
        next: "Read the message, and ask again in another way.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
    /// An agent of another program gives no valid answer.
    A2A_PROTOCOL = "E_A2A_PROTOCOL" {
        why: "What the agent answered is not what A2A has, or it is larger than 16 MiB; or its connection broke and the task \
              could not be asked for again.",
        next: "Call again. If it happens again, report the message to whoever maintains the agent.",
        more: Some("a2a.md#when-something-goes-wrong"),
    }
}
