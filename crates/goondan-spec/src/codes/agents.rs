//! Codes of events, and of requests between agents.

use super::{call, run_time_yaml, shell};

codes! {
    /// The swarm has no agent of that name.
    AGENT_NOT_FOUND = "AGENT_NOT_FOUND" {
        why: "An input, a call or a job names an agent that is not in `spec.agents` of the running \
            Swarm.",
        example: shell(
            "gdn run my-swarm --agent writr --input \"Hello\"\n",
            "gdn run my-swarm --agent writer --input \"Hello\"\n",
        ),
        next: "Use one of the names that the message lists, or add the agent to `spec.agents` of \
            the Swarm.",
    }
    /// An agent request would wait for itself.
    CIRCULAR_CALL_DETECTED = "CIRCULAR_CALL_DETECTED" {
        why: "The target agent is already waiting for this conversation, directly or through other \
            agents. Neither \
              request could ever finish. The message shows the cycle.",
        example: call(
            "agents__request {\"target\": \"lead\", \"input\": \"What next?\"}\n",
            "agents__send {\"target\": \"lead\", \"input\": \"I have finished.\"}\n",
        ),
        next: "Return the answer without a new request, send a message with `agents__send`, or \
            request under another \
              `instanceKey`.",
        more: Some("tools.md#agents"),
    }
    /// Agent requests are nested too deeply.
    AGENT_CALL_DEPTH_EXCEEDED = "AGENT_CALL_DEPTH_EXCEEDED" {
        why: "A chain of agent requests is longer than `policy.maxCallDepth` allows. Default: 16.",
        example: run_time_yaml(
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
        next: "Run `gdn logs --trace ID` to see the chain of requests. If the depth is intended, \
            raise \
              `policy.maxCallDepth`.",
    }
    /// The swarm has reached its limit of conversations.
    AGENT_INSTANCE_LIMIT = "AGENT_INSTANCE_LIMIT" {
        why: "An event or a spawn would start one conversation more than `policy.maxInstances` \
            allows. Default: \
              10,000.",
        example: run_time_yaml(
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
        next: "Continue an existing conversation, raise `policy.maxInstances`, or retire idle \
            conversations with \
              `policy.lifecycle.ttlSeconds`.",
        more: Some("durability.md#idle-instances"),
    }
    /// The event queue of a conversation or of the swarm is full.
    AGENT_QUEUE_FULL = "AGENT_QUEUE_FULL" {
        why: "A conversation has 10,000 queued events, or the queued events of the swarm take 512 \
            MiB in total.",
        next: "Send the event again later. If the error keeps occurring, distribute the work over \
            several \
              conversations.",
        more: Some("limits.md#events-and-queues"),
    }
    /// A turn runs or waits, so the conversation cannot be deleted, nor its last turn taken back.
    AGENT_TURN_RUNNING = "AGENT_TURN_RUNNING" {
        why: "The last turn of a conversation can be taken back, and a conversation can be deleted, \
            only while no turn runs and no input waits.",
        next: "Wait for the end of the turn, or cancel it with `gdn cancel AGENT:KEY`.",
        more: Some("chat.md#undo-and-compact"),
    }
    /// An event exceeds the size limit.
    AGENT_EVENT_TOO_LARGE = "AGENT_EVENT_TOO_LARGE" {
        why: "An event has more than 32 MiB, or its metadata has more than 1 MiB.",
        next: "Write the content to a file and send the path.",
        more: Some("limits.md#events-and-queues"),
    }
    /// A conversation key is too long.
    AGENT_KEY_TOO_LONG = "AGENT_KEY_TOO_LONG" {
        why: "An instance key has more than 1,024 bytes.",
        next: "Use a shorter key, for example a hash of this key.",
        more: Some("limits.md#events-and-queues"),
    }
    /// An event uses a name that is reserved for the engine.
    AGENT_EVENT_RESERVED = "AGENT_EVENT_RESERVED" {
        why: "A tool sent an event with a type or metadata key that only the engine may use. \
            Reserved types begin with \
              `agent.` (except `agent.request` and `agent.send`), `automation.`, `user.`, \
            `approval.` or `gdn.`. \
              Reserved metadata keys are `__goondan…`, `gdn.…`, `approval`, `auth`, `callers`, \
            `compaction`, \
              `contextMessage`, `cron`, `trace` and `untrusted`.",
        example: call(
            "agents__send {\"target\": \"lead\", \"input\": \"Done.\", \"eventType\": \
            \"agent.done\"}\n",
            "agents__send {\"target\": \"lead\", \"input\": \"Done.\", \"eventType\": \
            \"job.done\"}\n",
        ),
        next: "Omit the type or key, or choose another name.",
        more: Some("permissions.md#agents-that-call-agents"),
    }
    /// An agent did not answer a request in time.
    AGENT_REQUEST_TIMEOUT = "AGENT_REQUEST_TIMEOUT" {
        why: "The target agent made no progress for 30 minutes, or for the `timeoutMs` of the call \
            or the Tool. Open \
              approval requests pause the timeout. `ctx.agents.request` of an extension has a \
            default of 60 s. The \
              request is withdrawn. A request with `async: true` only has a timeout if the call \
            states `timeoutMs`; \
              the time then counts from the start of the target's turn, and the error arrives as \
            the answer.",
        example: call(
            "agents__request {\"target\": \"researcher\", \"input\": \"Read everything.\", \
            \"timeoutMs\": 1000}\n",
            "agents__request {\"target\": \"researcher\", \"input\": \"Read everything.\", \
            \"async\": true}\n",
        ),
        next: "Request less at once, raise `timeoutMs`, or set `async: true` to receive the answer \
            later as a message.",
        more: Some("tools.md#agents"),
    }
    /// The target agent of a request returned no answer.
    AGENT_REQUEST_FAILED = "AGENT_REQUEST_FAILED" {
        why: "The turn of the target agent failed, was cancelled, or reached its step limit. The \
            message contains the \
              reason.",
        next: "Run `gdn logs --agent NAME` to see the failed turn. Then repeat the request, use \
            another agent, or \
              continue without the answer.",
        more: Some("cli.md#logs"),
    }
    /// The swarm is stopping and accepts no new input.
    SWARM_STOPPING = "SWARM_STOPPING" {
        why: "A shutdown has begun because of Ctrl-C, a signal or `Swarm::shutdown`. Running turns \
            may finish within \
              the grace period.",
        next: "Send the input again after the swarm has restarted.",
    }
    /// The swarm has ended.
    SWARM_STOPPED = "SWARM_STOPPED" {
        why: "A program uses a `Swarm` after its shutdown.",
        next: "Start the swarm again, then repeat the request.",
    }
}
