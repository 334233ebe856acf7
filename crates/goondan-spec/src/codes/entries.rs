//! Codes of what resources take from outside: files, libraries, values.

use super::{shell, yaml};

codes! {
    /// A file that the project names does not exist.
    ENTRY_NOT_FOUND = "E_CONFIG_ENTRY_NOT_FOUND" {
        why: "There is nothing where `spec.entry`, `systemRef` or `descriptionFile` points. The entry of a Tool is \
              `builtin:NAME`, the path of a folder with a `tool.yaml`, or the path of a dynamic library, with or \
              without the prefix and suffix of the platform: `./tools/text-utils` finds `libtext_utils.so`, \
              `libtext_utils.dylib` and `text_utils.dll`. Or an agent works in the git repository around the project \
              (`workdir: repository`), and there is none.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {systemRef: prompts/wrtier.md}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {systemRef: prompts/writer.md}
",
        ),
        next: "Correct the path, which starts from the folder of `goondan.yaml`. If it is a tool's library, build it \
               first: `gdn build`.",
    }
    /// A path leads out of the project.
    PATH_ESCAPE = "E_CONFIG_PATH_ESCAPE" {
        why: "A path in the YAML is absolute, climbs out of the project by `..`, or leaves it through a symbolic link. \
              The `workdir` of an agent may climb, but not out of the git repository around the project.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {systemRef: ../shared/writer.md}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  prompt: {systemRef: prompts/writer.md}
",
        ),
        next: "Copy the file into the project. For an agent that works in the repository around it, write \
               `workdir: repository`.",
    }
    /// The parameters of a tool are not a valid JSON Schema.
    INVALID_PARAMETERS = "E_CONFIG_INVALID_PARAMETERS" {
        why: "`parameters` of an export, or the schema of an agent's `output`, is not a valid JSON Schema (draft 2020-12), or its root is \
              not `type: object`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec:
  entry: builtin:fs
  exports:
    - name: read
      parameters:
        type: object
        properties: {path: {type: text, required: true}}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec:
  entry: builtin:fs
  exports:
    - name: read
      parameters:
        type: object
        properties: {path: {type: string}}
        required: [path]
",
        ),
        next: "Use the types `string`, `number`, `integer`, `boolean`, `object`, `array` and `null`, and list \
               required names beside `properties`: `required: [path]`. \
               https://json-schema.org/understanding-json-schema explains the rest.",
    }
    /// A tool's name is too long for a model.
    TOOL_NAME_TOO_LONG = "E_CONFIG_TOOL_NAME_TOO_LONG" {
        why: "The name that a model sees, `tool__export`, has more than 64 characters.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: everything-that-a-newsroom-does-with-its-notes-and-old-articles}
spec: {entry: builtin:fs, exports: [{name: read}]}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: notes}
spec: {entry: builtin:fs, exports: [{name: read}]}
",
        ),
        next: "Shorten the name of the Tool or of the export.",
    }
    /// A key, a secret or a setting is not written as values are.
    INVALID_VALUE_SOURCE = "E_CONFIG_INVALID_VALUE_SOURCE" {
        why: "A key, a secret or a setting is not exactly one of `value`, `valueFrom.env` and `valueFrom.secretRef`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5, apiKey: OPENAI_API_KEY}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5, apiKey: {valueFrom: {env: OPENAI_API_KEY}}}
",
        ),
        next: "Write `{valueFrom: {env: NAME}}` and set the variable, for example in `.env`. Messages never show \
               values: in the lines of YAML that they quote, asterisks cover them.",
        more: Some("security.md#secrets"),
    }
    /// A variable that the swarm needs is not set.
    ENV_MISSING = "E_CONFIG_ENV_MISSING" {
        why: "The swarm that is to run uses a Model or a Connection whose variable is not set, or is blank. What \
              other swarms use does not matter. A `secretRef` to `Secret/slack` with the key `token` looks at \
              `GOONDAN_SECRET_SLACK_TOKEN`, `GOONDAN_SECRET_SLACK`, `SECRET_SLACK_TOKEN` and `SECRET_SLACK`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5, apiKey: {valueFrom: {env: OPENAI_APIKEY}}}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5, apiKey: {valueFrom: {env: OPENAI_API_KEY}}}
",
        ),
        next: "Export the variable, or put it into `.env`, `.env.local` or a file that you name with `--env-file`. A \
               variable of the process wins over the files; among the files, `--env-file` comes first, then \
               `.env.local`, then `.env`.",
        more: Some("security.md#secrets"),
    }
    /// The project is not trusted.
    PROJECT_UNTRUSTED = "E_PROJECT_UNTRUSTED" {
        why: "The project wants something that can do harm: it loads a library, starts or builds a program, sends \
              conversations or the value of a variable somewhere, reads its `.env`, or lets agents act without a \
              question. `gdn run` ends with exit code 7, and a reload is refused. The message says what is wanted, \
              with file and line.",
        example: shell(
            "gdn run downloads/newsroom --input \"Hello\"\n",
            "gdn trust downloads/newsroom\ngdn run downloads/newsroom --input \"Hello\"\n",
        ),
        next: "Look at what the project wants. If you trust it, run `gdn trust PATH`; `--trust` and \
               `GOONDAN_TRUST=1` trust it for one run.",
        more: Some("cli.md#trust"),
    }
}
