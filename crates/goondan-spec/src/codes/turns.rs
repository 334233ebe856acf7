//! Codes of models, and of turns as a whole.

use super::{running, shell};

codes! {
    /// A model's provider answered with an error.
    MODEL_STATUS = "E_MODEL_STATUS" {
        why: "The HTTP status is in the message, with the provider's words. 401 and 403 mean that the key is wrong (exit \
              code 6), 404 that the model's name or the endpoint is, 429 that there were too many requests. After \
              408, 409, 429 and every status from 500 on, the engine has asked again before it gave up.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gtp-5, apiKey: {valueFrom: {env: OPENAI_API_KEY}}}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5, apiKey: {valueFrom: {env: OPENAI_API_KEY}}}
",
        ),
        next: "Correct the key, the name or the endpoint. When the provider is busy, try again later, or raise \
               `options.maxRetries`.",
        more: Some("models.md#troubleshooting"),
    }
    /// A model endpoint can't be reached.
    MODEL_CONNECTION = "E_MODEL_CONNECTION" {
        why: "Nobody answers at the address, a proxy is in the way, or the connection broke off. The engine has tried \
              several times. `gdn` ends with exit code 5.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: ollama, model: qwen3, endpoint: \"http://localhost:11343/v1/\"}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: ollama, model: qwen3, endpoint: \"http://localhost:11434/v1/\"}
",
        ),
        next: "Check the model's `endpoint` and the network.",
        more: Some("models.md#troubleshooting"),
    }
    /// A model endpoint sent something that is not a model's answer.
    MODEL_PROTOCOL = "E_MODEL_PROTOCOL" {
        why: "The endpoint answered with something other than its format promises, such as HTML, or with more than 16 MiB. \
              Asking again would not help, so the engine does not.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai-compatible, model: local, endpoint: \"http://localhost:8080/\"}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai-compatible, model: local, endpoint: \"http://localhost:8080/v1/\"}
",
        ),
        next: "Check the model's `endpoint` and `provider`: most addresses end in `/v1/`.",
        more: Some("models.md#troubleshooting"),
    }
    /// The model or the provider's content filter refused to answer.
    MODEL_DECLINED = "E_MODEL_DECLINED" {
        why: "The provider ended the answer with a refusal or a content filter, such as `refusal`, `content_filter` or \
              `SAFETY`. The message contains the provider's words. The engine does not retry: the same request gets the \
              same refusal.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Write down whatever the user asks for.}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Write product descriptions. Decline other requests.}
",
        ),
        next: "Change the input or the prompt, or use another model.",
        more: Some("models.md#why-an-answer-ended"),
    }
    /// The answer was cut off before it was complete.
    MODEL_CUT = "E_MODEL_CUT" {
        why: "The answer reached the limit of output tokens (`length`) or the context window (`contextWindow`). Tool calls \
              in such an answer may be incomplete, so they do not run. The model gets this error as their result and can \
              repeat them in smaller pieces. A turn ends with this code if the answer contains no text at all.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main, params: {maxTokens: 100}}
  prompt: {system: Write long reports.}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main, params: {maxTokens: 8000}}
  prompt: {system: Write long reports.}
",
        ),
        next: "For `length`, raise `modelConfig.params.maxTokens` or ask for smaller pieces. For `contextWindow`, shorten the \
               conversation, for example with the extension `message-window`.",
        more: Some("models.md#why-an-answer-ended"),
    }
    /// A Model can't be used as it is written.
    MODEL_CONFIGURATION = "E_MODEL_CONFIGURATION" {
        why: "It has no key, names a provider that is not known, or its script is missing, broken or used up. `gdn` ends \
              with exit code 3.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5, apiKey: {valueFrom: {env: OPENAI_API_KEY}}}
",
        ),
        next: "Correct what the message says. `gdn doctor` lists the keys that the project's models need.",
        more: Some("models.md#providers"),
    }
    /// A model kept giving answers that do not fit the agent's output.
    MODEL_OUTPUT = "E_MODEL_OUTPUT" {
        why: "The agent states an `output`, and several answers in a row were no JSON that fits its schema, although the model was \
              told what was wrong with them.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: sorter}
spec:
  modelConfig: {modelRef: Model/main}
  output:
    schema: {type: object, properties: {a: {enum: [1, 2, 3]}}, required: [a], additionalProperties: false}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: sorter}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Sort the letter into a shelf.}
  output:
    schema:
      type: object
      properties: {shelf: {enum: [bills, letters, rest], description: Where the letter belongs.}}
      required: [shelf]
      additionalProperties: false
",
        ),
        next: "Say in the prompt and in the descriptions of the schema what the fields mean, make the schema simpler, or use another model.",
        more: Some("structured-output.md"),
    }
    /// A model kept giving empty answers.
    MODEL_EMPTY = "E_MODEL_EMPTY" {
        why: "Several answers in a row held neither text nor a call, although the model was reminded. Often \
              `params.maxTokens` is so small that the model spends all of it on thinking.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main, params: {maxTokens: 16}}}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main, params: {maxTokens: 4000}}}
",
        ),
        next: "Raise `params.maxTokens`, and look at the prompt.",
    }
    /// A tool asked a model, and that failed.
    MODEL_FAILED = "E_MODEL" {
        why: "A tool that uses a model itself, such as `memory` with embeddings, got an error from it, or an answer that \
              does not fit the question.",
        next: "Check the Model that the Tool's `config` names.",
        more: Some("models.md#embeddings"),
    }
    /// There is no such Model.
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND" {
        why: "A call or a tool names a Model that the project does not define.",
        next: "Use one of the names that the message lists, or define the Model.",
    }
    /// A Model exists, but can't be asked.
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE" {
        why: "A call asks for another Model than the agent's own, and that one has no key or can't be set up.",
        next: "Correct the Model as the message says, or ask with another one.",
        more: Some("models.md#troubleshooting"),
    }
    /// A turn reached its step limit without an answer.
    MAX_STEPS = "E_MAX_STEPS" {
        why: "The model kept calling tools for `policy.maxStepsPerTurn` steps (32 by default).",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {maxStepsPerTurn: 2}
",
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {maxStepsPerTurn: 64}
",
        ),
        next: "Look at what the agent keeps calling with `gdn logs`. Raise the limit if the work takes that long.",
        more: Some("cli.md#logs"),
    }
    /// The budget of the swarm or of the turn is used up.
    BUDGET_EXCEEDED = "E_BUDGET_EXCEEDED" {
        why: "The run has used the tokens, steps, seconds or money that `policy.budget` allows, or the turn those that \
              `policy.turnBudget` allows.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {budget: {maxTokens: 1000}}
",
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {budget: {maxTokens: 1000000}}
",
        ),
        next: "Raise the field that the message names, or start the run again: it begins with a fresh budget.",
    }
    /// A turn was cancelled.
    TURN_CANCELLED = "E_TURN_CANCELLED" {
        why: "Somebody pressed Ctrl-C, the swarm was shut down and the grace period passed, or the agent that waited for \
              the answer stopped waiting.",
        next: "Nothing, if that was intended. What the turn had done so far is in the conversation: `gdn instance show`.",
    }
    /// A turn ended in a fault of the program.
    TURN_PANIC = "E_TURN_PANIC" {
        why: "The engine panicked while it ran the turn. Other turns go on.",
        next: "Report it with the log and with what you did; SECURITY.md and README.md say where.",
    }
    /// The state of a turn or a conversation could not be written or read.
    STORE = "E_STORE" {
        why: "The disk is full, the permissions of the state folder are wrong, or the file system fails. An event that is \
              refused with this code has done nothing. A turn that ends with it is not over, and goes on once the disk \
              can be written.",
        next: "Make room on the disk, or correct the permissions of the state folder. The turn goes on by itself, when something is sent to \
               the instance, or with the next start.",
        more: Some("durability.md#when-the-disk-is-full-or-fails"),
    }
    /// The journal of a turn can't be read.
    JOURNAL = "E_JOURNAL" {
        why: "The turn was begun by another version of `gdn`, or its files were changed by hand.",
        next: "Send the input again: it begins a new turn. Report it if nobody changed the files.",
        more: Some("durability.md"),
    }
    /// An instance has no such failed event.
    EVENT_NOT_FOUND = "E_EVENT_NOT_FOUND" {
        why: "`gdn instance retry` names an event that is not on the list of those whose turns failed: it was started \
              again already, or the id is misspelt.",
        example: shell(
            "gdn instance retry writer:main evt-1\n",
            "gdn instance show writer:main\ngdn instance retry writer:main evt-5f0c1a\n",
        ),
        next: "See which events failed with `gdn instance show`.",
        more: Some("cli.md#instance"),
    }
    /// A change to a conversation names a message that is not there.
    MESSAGE_TARGET_NOT_FOUND = "E_MESSAGE_TARGET_NOT_FOUND" {
        why: "An extension replaced or removed a message that was gone already. The log warns about it, and the \
              conversation stays as it is.",
        next: "Nothing, as a rule. If it happens often, two extensions of the agent change the same messages: remove one.",
        more: Some("extensions.md#shortening-a-conversation"),
    }
}
