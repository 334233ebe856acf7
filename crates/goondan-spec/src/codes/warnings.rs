//! Codes of projects that run, but probably not as intended.

use super::{run_time_yaml, shell, yaml};

codes! {
    /// The project defines no resources.
    EMPTY = "W_CONFIG_EMPTY" {
        why: "No YAML file in the directory defines a resource.",
        example: shell("gdn validate docs\n", "gdn validate my-swarm\n"),
        next: "Check that this is the right directory, and add a `goondan.yaml`. `gdn init` \
            creates one that runs.",
        more: Some("cli.md#init"),
    }
    /// The instruction files do not fit into an agent's prompt.
    INSTRUCTIONS_CUT = "W_CONFIG_INSTRUCTIONS_CUT" {
        why: "The files of `prompt.instructions` have more than 64 KiB in total. `gdn` keeps the \
            content nearest to \
              the working directory. The prompt states the size of the omitted content.",
        next: "Shorten the files, or move instructions for one directory into a file of that \
            directory.",
        more: Some("skills.md#agentsmd"),
    }
    /// A file with resources is not read.
    UNREAD_FILE = "W_CONFIG_UNREAD_FILE" {
        why: "A YAML file contains resources, but `gdn` does not read it because of its name. `gdn` \
            reads files named after a kind of resource, such as `agents.yaml`, and all YAML files \
            in directories with such names.",
        example: shell("mv team.yaml somewhere/\n", "mv team.yaml agents.yaml\n"),
        next: "Rename the file, for example to `agents.yaml`, or move it to a directory named \
            `resources`. If it is not part of the project, move it out of the project directory.",
        more: Some("yaml.md#files"),
    }
    /// A secret is too short to be masked everywhere.
    SHORT_SECRET = "W_CONFIG_SHORT_SECRET" {
        why: "`gdn` masks secrets in tool results, events and logs. Short values also appear by \
            chance. Therefore \
              `gdn` masks a secret of four to seven characters only as a whole word, and a shorter \
            secret never.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai-compatible, model: local, endpoint: \"http://localhost:8080/v1/\", apiKey: \
            {value: ok}}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai-compatible, model: local, endpoint: \"http://localhost:8080/v1/\", apiKey: \
            {value: ok-3b1f6c2d9a}}
",
        ),
        next: "Use a value of at least eight characters. If the server checks no key, omit \
            `apiKey`.",
        more: Some("secrets.md"),
    }
    /// A resource is unused.
    UNUSED = "W_CONFIG_UNUSED" {
        why: "An Agent is in no Swarm, a Tool or an Extension is used by no Agent, or a Connector \
            has no Connection.",
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
        next: "Refer to the resource, or remove it.",
    }
    /// A model's provider does not accept the schema of a tool unchanged.
    PROVIDER_SCHEMA = "W_CONFIG_PROVIDER_SCHEMA" {
        why: "The provider of an agent's model does not support a part of a tool's `parameters`. \
            OpenAI allows no \
              `oneOf`, `anyOf`, `allOf`, `enum` or `not` at the root, and requires `items` in \
            every array. With \
              `options.strict: true` on the Model, OpenAI also requires `additionalProperties: \
            false` and every \
              property in `required`. Anthropic allows no `oneOf`, `anyOf` or `allOf` at the root, \
            and only plain \
              property names. Gemini supports a subset of OpenAPI 3.0, without `$ref`, `oneOf`, \
            `allOf`, `const` and \
              others. The message ends with the schema that `gdn` sends. Keywords that a provider \
            refuses at the root \
              are moved to the description as text.",
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
        next: "Simplify the schema as the message suggests and put the other rules into the \
            description, or use \
              another provider for this agent.",
        more: Some("models.md#what-a-model-is-sent"),
    }
    /// The YAML and a library declare different arguments for a tool.
    SCHEMA_DIFFERS = "W_CONFIG_SCHEMA_DIFFERS" {
        why: "`parameters` of an export in `spec.exports` has other arguments than the library \
            declares. The model \
              sees the parameters of the YAML, and its calls go to the library. Descriptions and \
            titles may differ. In \
              the example, `count_words` of the library takes a `text`.",
        example: run_time_yaml(
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
        next: "Remove `parameters` to use those of the library, or correct them.",
        more: Some("native-tools.md"),
    }
    /// A permission rule never decides a call.
    DEAD_RULE = "W_CONFIG_DEAD_RULE" {
        why: "A later rule matches every call that this rule matches, and the last match wins. Or \
            no tool of the \
              agent, nor of an agent that it can call, has a name that matches the rule's `tool`. \
            Or no path ever has \
              the form of the pattern: `~/` is not expanded, and `../…` has no effect for file \
            tools without \
              `config.roots`. Or the rule allows commands with a pattern that no single command \
            matches, such as `cd x \
              && git *` or `export *`.",
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
        next: "Move the rule below the later rule, correct the name, or write an absolute path. \
            For paths outside the \
              working directory, add the directory to `config.roots`. For command lines, allow \
            each command with its \
              own rule, or the whole line. Otherwise remove the rule. `gdn policy explain` shows \
            the rule that \
              decides.",
        more: Some("permissions.md"),
    }
    /// An agent has a permission that one of its callers does not grant.
    CALLER_RESTRICTS = "W_CONFIG_CALLER_RESTRICTS" {
        why: "An agent may do something without approval. Another agent, which can call it through \
            `agents`, \
              `sessions`, `squad` or `task`, has no rule that allows, asks or denies the same. The \
            strictest agent in \
              a call chain decides, so such a call needs approval or is refused. `gdn validate` \
            and `gdn doctor` \
              report this.",
        example: run_time_yaml(
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
        next: "Add the suggested rule to the caller. If the caller has no such tools itself, you \
            can set its \
              `permissions: {default: allow}`: each called agent then follows only its own rules. \
            If the restriction \
              is intended, write a rule that asks or denies. To see the decision per caller, run \
            `gdn policy explain \
              --agent NAME --tool NAME`.",
        more: Some("permissions.md"),
    }
    /// A required tool needs an approval, and no user is named who can give it.
    NO_APPROVER = "W_CONFIG_NO_APPROVER" {
        why: "An agent receives events of a Connection and must call one of its `requiredTools`. Each \
            call needs an approval or is denied, and the Connection names no approvers. So the turn \
            waits until a client such as the studio answers.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bash}]
  requiredTools: [bash__exec]
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: nightly}
spec: {connectorRef: Connector/cron, config: {schedule: \"0 2 * * *\", text: Run.}}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bash}]
  requiredTools: [bash__exec]
  permissions: {rules: [{tool: bash__exec, action: allow}]}
---
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: nightly}
spec: {connectorRef: Connector/cron, config: {schedule: \"0 2 * * *\", text: Run.}}
",
        ),
        next: "Allow the call with a rule, or name users in `approvers` of the Connection. An \
            answer in the channel of the event with the tool of the platform needs no approval.",
        more: Some("connections.md#approvals-in-the-channel"),
    }
    /// A handler file imports a module by a path that it computes.
    COMPUTED_IMPORT = "W_CONFIG_COMPUTED_IMPORT" {
        why: "A handler file, or a file that it imports, computes the path of a module, for example \
            `import(name)` in JavaScript or `import_module(name)` in Python. So `gdn` does not know which \
            files are part of the handler. File tools ask before they write any file that it could \
            import, and an approval of the tool covers all code in the package.",
        next: "Write the path as a string, such as `import(\"./plugins/text.js\")`. For a choice of \
            modules, import all of them and select one. If the path must be computed, begin it with a \
            directory, such as `./plugins/${name}.js`: then only that directory counts.",
        more: Some("hosts.md"),
    }
    /// The answers of an agent go nowhere.
    LOST_ANSWER = "W_CONFIG_LOST_ANSWER" {
        why: "A Connection of a chat platform has `reply: none`, and the agent that receives its \
            events has no tools. So no user receives its answers.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: bot}
spec: {connectorRef: Connector/telegram, reply: none}
",
            "\
apiVersion: goondan.ai/v1
kind: Connection
metadata: {name: bot}
spec: {connectorRef: Connector/telegram}
",
        ),
        next: "Remove `reply: none`, or give the agent a tool that does something with its result.",
        more: Some("connections.md#answers"),
    }
    /// No agent can call an agent that a prompt names.
    UNREACHABLE_AGENT = "W_CONFIG_UNREACHABLE_AGENT" {
        why: "The prompt of an agent names another agent of the swarm. No agent has a tool that calls \
            other agents, and no Connection routes events to the named agent. Only clients that \
            select it, such as `gdn run --agent NAME`, reach it.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: lead}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Let reviewer read each change.}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: reviewer}
spec: {modelConfig: {modelRef: Model/main}}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: lead}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {system: Let reviewer read each change.}
  tools: [{ref: Tool/agents}]
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: reviewer}
spec: {modelConfig: {modelRef: Model/main}}
",
        ),
        next: "Give the agent whose prompt names the other one a tool that calls agents, such as \
            `Tool/agents`.",
        more: Some("tools.md#agents"),
    }
    /// Sub-agents of an agent have no tools.
    IDLE_SUBAGENT = "W_CONFIG_IDLE_SUBAGENT" {
        why: "An agent can start sub-agents with `sessions__spawn`. A sub-agent gets only those tools \
            of the agent that read files and notes, and the agent has none of them.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/sessions}, {ref: Tool/web}]
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/sessions}, {ref: Tool/web}, {ref: Tool/fs}]
",
        ),
        next: "Add `Tool/fs` or `Tool/memory`, or leave `spawn` out of the `exports` of \
            `Tool/sessions`.",
        more: Some("tools.md#sessions"),
    }
    /// Agents of a bundle for Goondan in TypeScript do not share their files.
    SEPARATE_WORKDIRS = "W_CONFIG_SEPARATE_WORKDIRS" {
        why: "The Package depends on `@goondan/base`, and several agents have file tools but no \
            `workdir`. In Goondan in TypeScript, all agents work in the directory of the bundle. \
            In `gdn`, each conversation has its own directory.",
        example: run_time_yaml(
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: \"@acme/brain\"}
spec: {dependencies: [{name: \"@goondan/base\", version: \"*\"}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: observer}
spec: {modelConfig: {modelRef: Model/main}, tools: [{ref: Tool/file-system}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: dream}
spec: {modelConfig: {modelRef: Model/main}, tools: [{ref: Tool/file-system}]}
",
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: \"@acme/brain\"}
spec: {dependencies: [{name: \"@goondan/base\", version: \"*\"}]}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: observer}
spec: {modelConfig: {modelRef: Model/main}, tools: [{ref: Tool/file-system}], workdir: project}
---
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: dream}
spec: {modelConfig: {modelRef: Model/main}, tools: [{ref: Tool/file-system}], workdir: project}
",
        ),
        next: "Write `workdir: project` for agents that share files, and `workdir: instance` for \
            agents that do not.",
        more: Some("compatibility.md"),
    }
    /// A variable that names another server has no effect.
    IGNORED_VARIABLE = "W_CONFIG_IGNORED_VARIABLE" {
        why: "`ANTHROPIC_BASE_URL` or `OPENAI_BASE_URL` is set, as the programs of these providers \
            read it. `gdn` does not read it: a Model without `endpoint` calls the provider's own \
            server.",
        example: shell("OPENAI_BASE_URL=http://lab:8080/v1 gdn run\n", "gdn run\n"),
        next: "Write the URL as `endpoint` of the Model, or remove the variable.",
        more: Some("models.md"),
    }
    /// A part of the project lacks a key, a program or a build.
    NOT_READY = "W_CONFIG_NOT_READY" {
        why: "The key of a Model is not set, or the interpreter of a Tool's script is not \
            installed. Or a Tool that no \
              Agent uses is not built. Everything else runs. `gdn run` refuses to start if an \
            Agent of the swarm has a \
              Model without its key.",
        example: shell("gdn validate\n", "gdn build\ngdn doctor\n"),
        next: "Set the variable in the environment or in `.env`, install the program, or build the \
            tool with `gdn \
              build`. `gdn doctor` shows the state of this machine.",
        more: Some("cli.md#validate"),
    }
}
