//! Codes of what runs, but probably not as it was meant.

use super::{running, shell, yaml};

codes! {
    /// The project defines no resources.
    EMPTY = "W_CONFIG_EMPTY" {
        why: "No YAML file in the folder defines a resource.",
        example: shell("gdn validate docs\n", "gdn validate my-swarm\n"),
        next: "Check that this is the right folder, and add a `goondan.yaml`. `gdn init` writes one that runs.",
        more: Some("cli.md#init"),
    }
    /// Instructions do not fit into an agent's prompt.
    INSTRUCTIONS_CUT = "W_CONFIG_INSTRUCTIONS_CUT" {
        why: "The files that `prompt.instructions` finds have more than 64 KiB together. What is nearest to the working folder is \
              kept; of the others the model is told how much is missing.",
        next: "Shorten them, or move what is about one folder into a file of that folder.",
        more: Some("skills.md#agentsmd"),
    }
    /// A secret is too short to be masked wherever it appears.
    SHORT_SECRET = "W_CONFIG_SHORT_SECRET" {
        why: "`gdn` masks secrets in tool results, events and logs. A short value also appears by chance, so a secret of four \
              to seven characters is masked only as a whole word, and a shorter secret is not masked.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai-compatible, model: local, endpoint: \"http://localhost:8080/v1/\", apiKey: {value: ok}}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai-compatible, model: local, endpoint: \"http://localhost:8080/v1/\", apiKey: {value: ok-3b1f6c2d9a}}
",
        ),
        next: "Use a value of at least eight characters. A server that checks no key needs no `apiKey`.",
        more: Some("security.md#secrets"),
    }
    /// Nothing refers to a resource.
    UNUSED = "W_CONFIG_UNUSED" {
        why: "An Agent is in no Swarm, a Tool or an Extension is used by no Agent, or a Connector has no Connection.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec: {entry: builtin:fs}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main}}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec: {entry: builtin:fs}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/notes}]
",
        ),
        next: "Refer to it, or remove it.",
    }
    /// A model's provider does not take the schema of a tool as it is.
    PROVIDER_SCHEMA = "W_CONFIG_PROVIDER_SCHEMA" {
        why: "The provider of an agent's model refuses or does not understand a part of a tool's `parameters`. OpenAI \
              wants no `oneOf`, `anyOf`, `allOf`, `enum` or `not` at the root, and `items` in every array; with \
              `options.strict: true` on the Model it also wants every property in `required` and \
              `additionalProperties: false`. Anthropic wants no `oneOf`, `anyOf` or `allOf` at the root, and plain \
              property names. Gemini takes a subset of OpenAPI 3.0, without `$ref`, `oneOf`, `allOf`, `const` and \
              others. The message ends with the schema that is sent: what a provider refuses at the root goes into \
              its description as text.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec:
  entry: builtin:fs
  exports:
    - name: read
      parameters:
        type: object
        properties: {path: {type: string}, tags: {type: array}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/notes}]
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5}
---
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec:
  entry: builtin:fs
  exports:
    - name: read
      parameters:
        type: object
        properties: {path: {type: string}, tags: {type: array, items: {type: string}}}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/notes}]
",
        ),
        next: "Simplify the schema as the message suggests and say the rest in the description, or use another \
               provider for this agent.",
        more: Some("models.md#what-a-model-is-sent"),
    }
    /// The YAML and a library disagree about the arguments of a tool.
    SCHEMA_DIFFERS = "W_CONFIG_SCHEMA_DIFFERS" {
        why: "`parameters` of an export in `spec.exports` asks for other arguments than the library describes. The \
              model is shown what the YAML says, and the library gets it. Descriptions and titles may differ. In the \
              example, the library's `count_words` takes a `text`.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: text-utils}
spec:
  entry: ./tools/text-utils
  exports:
    - name: count_words
      parameters: {type: object, properties: {words: {type: string}}}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: text-utils}
spec:
  entry: ./tools/text-utils
  exports: [{name: count_words}]
",
        ),
        next: "Remove `parameters`, so that those of the library count, or correct them.",
        more: Some("native-tools.md"),
    }
    /// A permission rule never decides anything.
    DEAD_RULE = "W_CONFIG_DEAD_RULE" {
        why: "A later rule matches every call that this one matches, and the last match wins. Or no tool of the agent, \
              nor of an agent that it could call, has a name like the rule's `tool`. Or no path is ever compared in \
              the form of its pattern: `~/` stands for no folder there, and what allows `../…` changes nothing for \
              file tools without `config.roots`. Or it allows commands by a pattern that no single command looks \
              like, such as `cd x && git *` or `export *`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bash}]
  permissions:
    rules:
      - {tool: bash__exec, args: {command: git *}, action: allow}
      - {tool: bash__*, action: ask}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bash}]
  permissions:
    rules:
      - {tool: bash__*, action: ask}
      - {tool: bash__exec, args: {command: git *}, action: allow}
",
        ),
        next: "Put the rule behind the other one, correct the name, write an absolute path or open the folder, allow \
               each command by a rule of its own or the line as a whole, or remove the rule. `gdn policy explain` \
               says which rule decides.",
        more: Some("security.md#permissions"),
    }
    /// An agent may do what an agent that can call it does not grant.
    CALLER_RESTRICTS = "W_CONFIG_CALLER_RESTRICTS" {
        why: "An agent may do something without a question. Another agent, which can call it by `agents`, `sessions`, \
              `squad` or `task`, does not grant that, nor says by a rule of its own that it is asked for or denied. The \
              strictest agent of a call chain decides: what the one does for the other is asked for, or refused. \
              `gdn validate` and `gdn doctor` report it.",
        example: running(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/agents}]
  permissions: {default: ask}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/agents}]
  permissions: {default: allow}
",
        ),
        next: "Add the rule to the caller, as suggested. An agent that has no such tools itself may as well have \
               `permissions: {default: allow}`: then each of the others is bound by its own rules. If it is meant that \
               way, write a rule that asks or denies. `gdn policy explain --agent NAME --tool NAME` shows what happens \
               to a call for each agent that can call.",
        more: Some("security.md#permissions"),
    }
    /// Something that a part of the project needs is not there.
    NOT_READY = "W_CONFIG_NOT_READY" {
        why: "The key of a Model is not set on this machine, the program that reads the script of a Tool is not installed, \
              or the entry of a Tool that no Agent uses is not built. What does not need it runs. `gdn run` refuses to \
              start where an Agent of the swarm has a Model without its key.",
        example: shell("gdn validate\n", "gdn build\ngdn doctor\n"),
        next: "Set the variable in the environment or in `.env`, install the program, or build the tool with `gdn build`. \
               `gdn doctor` tells what this machine has.",
        more: Some("cli.md#validate"),
    }
}
