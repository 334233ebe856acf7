//! Codes of events, and of agents that talk to each other.

use super::{call, running, shell};

codes! {
    /// The swarm has no such agent.
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND" {
        why: "An input, a call or a job names an agent that is not in `spec.agents` of the running Swarm.",
        example: shell(
            "gdn run my-swarm --agent writr --input \"Hello\"\n",
            "gdn run my-swarm --agent writer --input \"Hello\"\n",
        ),
        next: "Use one of the names that the message lists, or add the agent to the Swarm.",
    }
    /// A request would wait for itself.
    CIRCULAR_CALL_DETECTED = "CIRCULAR_CALL_DETECTED" {
        why: "An agent asks another one that waits, directly or through others, for this very conversation. The message \
              shows the circle. Both would wait for ever.",
        example: call(
            "agents__request {\"target\": \"lead\", \"input\": \"What next?\"}\n",
            "agents__send {\"target\": \"lead\", \"input\": \"I have finished.\"}\n",
        ),
        next: "Answer without asking back, tell instead of asking (`agents__send`), or ask under another `instanceKey`.",
        more: Some("tools.md#agents"),
    }
    /// The chain of agents that ask each other is too long.
    AGENT_CALL_DEPTH_EXCEEDED = "AGENT_CALL_DEPTH_EXCEEDED" {
        why: "An agent asked an agent that asked an agent, and so on, more often than `policy.maxCallDepth` allows (16 by \
              default).",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {maxCallDepth: 1}
",
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {maxCallDepth: 8}
",
        ),
        next: "Look at who asks whom with `gdn logs --trace ID`. Raise the limit if the depth is meant.",
    }
    /// The swarm has too many instances.
    AGENT_INSTANCE_LIMIT = "AGENT_INSTANCE_LIMIT" {
        why: "An event or a spawn would begin a conversation more than `policy.maxInstances` allows (10,000 by default).",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {maxInstances: 2}
",
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {maxInstances: 1000, lifecycle: {ttlSeconds: 86400}}
",
        ),
        next: "Go on with a conversation that exists, raise the limit, or have idle ones retired \
               (`policy.lifecycle.ttlSeconds`).",
        more: Some("durability.md#idle-instances"),
    }
    /// Too many events are waiting.
    AGENT_QUEUE_FULL = "AGENT_QUEUE_FULL" {
        why: "One instance has 10,000 events waiting, or the events that wait in the swarm take 512 MiB together.",
        next: "Send it again when some have been handled. If it keeps happening, spread the work over several instances.",
        more: Some("limits.md#events-and-queues"),
    }
    /// An event is too large.
    AGENT_EVENT_TOO_LARGE = "AGENT_EVENT_TOO_LARGE" {
        why: "An event may have 32 MiB, its metadata included.",
        next: "Put the content into a file, and send its path.",
        more: Some("limits.md#events-and-queues"),
    }
    /// The key of an instance is too long.
    AGENT_KEY_TOO_LONG = "AGENT_KEY_TOO_LONG" {
        why: "An instance key may have 1,024 bytes.",
        next: "Use a shorter key, such as a hash of this one.",
        more: Some("limits.md#events-and-queues"),
    }
    /// An event uses a name that only the engine may use.
    AGENT_EVENT_RESERVED = "AGENT_EVENT_RESERVED" {
        why: "A tool sends an event with a reserved type or metadata key, which would make it look like the engine's own. \
              Reserved are types that begin with `agent.` (except for `agent.request` and `agent.send`), `automation.`, \
              `user.`, `approval.` and `gdn.`, and the metadata keys `__goondan…`, `gdn.…`, `approval`, `auth`, \
              `callers`, `compaction`, `contextMessage`, `cron`, `trace` and `untrusted`.",
        example: call(
            "agents__send {\"target\": \"lead\", \"input\": \"Done.\", \"eventType\": \"agent.done\"}\n",
            "agents__send {\"target\": \"lead\", \"input\": \"Done.\", \"eventType\": \"job.done\"}\n",
        ),
        next: "Leave it out, or choose a name of your own.",
        more: Some("security.md#agents-that-call-agents"),
    }
    /// An agent did not answer a request in time.
    AGENT_REQUEST_TIMEOUT = "AGENT_REQUEST_TIMEOUT" {
        why: "The answer took longer than `timeoutMs` of the request (60 s by default). The other agent's work was taken \
              back.",
        example: call(
            "agents__request {\"target\": \"researcher\", \"input\": \"Read everything.\", \"timeoutMs\": 1000}\n",
            "agents__request {\"target\": \"researcher\", \"input\": \"Read everything.\", \"async\": true}\n",
        ),
        next: "Ask for less, wait longer with `timeoutMs`, or ask with `async: true`: the answer then arrives as a message.",
        more: Some("tools.md#agents"),
    }
    /// An agent was asked and gave no answer.
    AGENT_REQUEST_FAILED = "AGENT_REQUEST_FAILED" {
        why: "Its turn failed, was cancelled, or reached its step limit. The message says which.",
        next: "Ask again, ask another agent, or go on without the answer. `gdn logs --agent NAME` shows what happened there.",
        more: Some("cli.md#logs"),
    }
    /// The swarm is stopping and takes nothing new.
    SWARM_STOPPING = "SWARM_STOPPING" {
        why: "A shutdown has begun: Ctrl-C, a signal, or `Swarm::shutdown`. Running turns are finished within the grace \
              period.",
        next: "Send it again when the swarm runs again.",
    }
    /// The swarm has ended.
    SWARM_STOPPED = "SWARM_STOPPED" {
        why: "A program still holds a `Swarm` that was shut down or killed.",
        next: "Start it again, and send it again.",
    }
}
