//! Codes of models and turns.

use super::{run_time_yaml, shell};

codes! {
    /// A model's provider returned an error.
    MODEL_STATUS = "E_MODEL_STATUS" {
        why: "The message contains the HTTP status and the provider's error text. 401 and 403 mean \
            an invalid key \
              (exit code 6), 404 an invalid model name or endpoint, and 429 too many requests. \
            After 408, 409, 429 and \
              every status from 500 on, the engine retried before the turn failed.",
        example: run_time_yaml(
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
        next: "Correct the key, the model name or the endpoint. If the provider is busy, try again \
            later, or raise \
              `options.maxRetries`.",
        more: Some("models.md#troubleshooting"),
    }
    /// A model endpoint cannot be reached.
    MODEL_CONNECTION = "E_MODEL_CONNECTION" {
        why: "No server responds at the endpoint, a proxy blocks the connection, or the connection \
            broke. The engine \
              retried several times. `gdn` exits with code 5.",
        example: run_time_yaml(
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
    /// A model endpoint returned something that is not a model response.
    MODEL_PROTOCOL = "E_MODEL_PROTOCOL" {
        why: "The response does not have the format of the provider (for example, it is HTML), or \
            it is larger than 16 \
              MiB. The engine does not retry, because a retry would not help.",
        example: run_time_yaml(
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
        next: "Check the model's `endpoint` and `provider`: most endpoints end in `/v1/`.",
        more: Some("models.md#troubleshooting"),
    }
    /// The model or the provider's content filter refused to answer.
    MODEL_DECLINED = "E_MODEL_DECLINED" {
        why: "The provider ended the answer with a refusal or a content filter, such as `refusal`, \
            `content_filter` or \
              `SAFETY`. The message quotes the provider. The engine does not retry, because the \
            same request gets the \
              same refusal.",
        example: run_time_yaml(
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
        why: "The answer reached the limit of output tokens (`length`) or the context window \
            (`contextWindow`). Tool \
              calls in such an answer may be incomplete, so they do not run. The model receives \
            this error as their \
              result and can repeat them in smaller pieces. If the answer contains no text at all, \
            the turn ends with \
              this code.",
        example: run_time_yaml(
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
        next: "For `length`, raise `modelConfig.params.maxTokens` or request smaller pieces. For \
            `contextWindow`, \
              shorten the conversation, for example with the extension `message-window`.",
        more: Some("models.md#why-an-answer-ended"),
    }
    /// A Model has invalid or incomplete settings.
    MODEL_CONFIGURATION = "E_MODEL_CONFIGURATION" {
        why: "The Model has no key or an unknown provider, or its script is missing, invalid or \
            exhausted. `gdn` exits \
              with code 3.",
        example: run_time_yaml(
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
        next: "Correct the setting that the message names. `gdn doctor` lists the keys that the \
            project's models need.",
        more: Some("models.md#providers"),
    }
    /// A model repeatedly gave answers that do not match the agent's output schema.
    MODEL_OUTPUT = "E_MODEL_OUTPUT" {
        why: "The agent has an `output`, and several consecutive answers were not JSON that \
            matches its schema. After \
              each answer, the model received the validation errors.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: sorter}
spec:
  modelConfig: {modelRef: Model/main}
  output:
    schema: {type: object, properties: {a: {enum: [1, 2, 3]}}, required: [a], \
            additionalProperties: false}
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
        next: "Describe the fields in the prompt and in the schema, simplify the schema, or use \
            another model.",
        more: Some("structured-output.md"),
    }
    /// A model repeatedly gave empty answers.
    MODEL_EMPTY = "E_MODEL_EMPTY" {
        why: "Several consecutive answers contained neither text nor a call, although the model \
            was reminded. Often \
              `params.maxTokens` is so small that the model spends all tokens on reasoning.",
        example: run_time_yaml(
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
        next: "Raise `params.maxTokens`, and check the prompt.",
    }
    /// A model call of a tool failed.
    MODEL_FAILED = "E_MODEL" {
        why: "A tool that calls a model itself, such as `memory` with embeddings, received an \
            error or a response that \
              does not match the request.",
        next: "Check the Model that the Tool's `config` names.",
        more: Some("models.md#embeddings"),
    }
    /// The project has no Model of that name.
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND" {
        why: "A call or a tool names a Model that the project does not define.",
        next: "Use one of the names that the message lists, or define the Model.",
    }
    /// A Model exists, but cannot be called.
    MODEL_UNAVAILABLE = "MODEL_UNAVAILABLE" {
        why: "A call requests a Model other than the agent's own, and that Model has no key or \
            invalid settings.",
        next: "Correct the Model as the message describes, or request another Model.",
        more: Some("models.md#troubleshooting"),
    }
    /// A turn reached its step limit without an answer.
    MAX_STEPS = "E_MAX_STEPS" {
        why: "The model still called tools after `policy.maxStepsPerTurn` steps. Default: 32.",
        example: run_time_yaml(
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
        next: "Run `gdn logs` to see the repeated calls. If the work needs more steps, raise \
            `policy.maxStepsPerTurn`.",
        more: Some("cli.md#logs"),
    }
    /// The budget of the swarm or of the turn is used up.
    BUDGET_EXCEEDED = "E_BUDGET_EXCEEDED" {
        why: "The run used all tokens, steps, seconds or money of `policy.runBudget`, or the turn \
            used those of \
              `policy.turnBudget`.",
        example: run_time_yaml(
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
        next: "Raise the field that the message names, or restart the run: it begins with a fresh \
            budget.",
    }
    /// The model repeated a tool call without a new result.
    TURN_REPETITION = "E_TURN_REPETITION" {
        why: "The model made the same call with the same arguments, and the call returned the same \
            result each time. From the fourth call on, the model receives this code instead of the \
            result. The turn ends at the eighth call. `policy.repetition` sets the numbers.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {repetition: {limit: 2}}
",
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec:
  entryAgent: Agent/writer
  agents: [{ref: Agent/writer}]
  policy: {repetition: {exclude: [tracker__status]}}
",
        ),
        next: "Change the input or the prompt, or use a more capable model. If the tool polls for a \
            change, add it to `policy.repetition.exclude`.",
        more: Some("limits.md#turns-and-swarms"),
    }
    /// A turn was cancelled.
    TURN_CANCELLED = "E_TURN_CANCELLED" {
        why: "The user pressed Ctrl-C, or the requesting agent stopped waiting.",
        next: "No action is needed if the cancellation was intended. The conversation contains the \
            finished part of \
              the turn: `gdn conversation show`.",
    }
    /// A turn ended with an internal error of the program.
    TURN_PANIC = "E_TURN_PANIC" {
        why: "The engine panicked while it ran the turn. Other turns continue.",
        next: "Open an issue at https://github.com/goondan/gdn/issues with the log and the steps \
            that led to the \
              error. Report security problems as SECURITY.md describes.",
    }
    /// The process ended again and again while it ran the turn.
    TURN_POISON = "E_TURN_POISON" {
        why: "The process ended three times in a row during the same tool call, and no other turn \
            was unfinished. Or it ended ten times in a row without progress of the turn. A library \
            that aborts, a stack overflow or a lack of memory can be the reason. The turn does not \
            start again by itself, so that other conversations continue.",
        next: "Find the call with `gdn conversation show` and repair or remove its tool. Then run the \
            event again with `gdn conversation retry`.",
        more: Some("durability.md#turns-that-end-the-process"),
    }
    /// The state of a turn or a conversation could not be written or read.
    STORE = "E_STORE" {
        why: "The disk is full, the permissions of the state directory are wrong, or the file \
            system fails. An event \
              that is refused with this code has had no effect. A turn that ends with this code is \
            unfinished, and \
              resumes after the disk is writable again.",
        next: "Free disk space, or correct the permissions of the state directory. The turn \
            resumes automatically, \
              with the next input to the conversation, or with the next start.",
        more: Some("durability.md#when-the-disk-is-full-or-fails"),
    }
    /// The journal of a turn cannot be read.
    JOURNAL = "E_JOURNAL" {
        why: "Another version of `gdn` started the turn, or its files were changed by hand.",
        next: "Send the input again, which starts a new turn. If the files were not changed by \
            hand, open an issue at \
              https://github.com/goondan/gdn/issues.",
        more: Some("durability.md"),
    }
    /// The conversation has no failed event with that ID.
    EVENT_NOT_FOUND = "E_EVENT_NOT_FOUND" {
        why: "`gdn conversation retry` names an event that is not in the list of failed events. The \
            event was already \
              retried, or its ID is misspelled.",
        example: shell(
            "gdn conversation retry writer:main evt-1\n",
            "gdn conversation show writer:main\ngdn conversation retry writer:main evt-5f0c1a\n",
        ),
        next: "Run `gdn conversation show` to list the failed events.",
        more: Some("cli.md#conversation"),
    }
    /// A change to a conversation names a message that does not exist.
    MESSAGE_TARGET_NOT_FOUND = "E_MESSAGE_TARGET_NOT_FOUND" {
        why: "An extension replaced or removed a message that no longer existed. The log contains \
            a warning, and the \
              conversation is unchanged.",
        next: "Usually no action is needed. If it occurs often, two extensions of the agent change \
            the same messages: \
              remove one of them.",
        more: Some("extensions.md#shortening-a-conversation"),
    }
}
