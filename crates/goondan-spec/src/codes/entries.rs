//! Codes of external inputs of resources: files, libraries and values.

use super::{shell, yaml};

codes! {
    /// A file that the project names does not exist.
    ENTRY_NOT_FOUND = "E_CONFIG_ENTRY_NOT_FOUND" {
        why: "`spec.entry`, `systemRef` or `descriptionFile` refers to a path that does not exist. \
            The entry of a Tool \
              is `builtin:NAME`, the path of a directory with a `tool.yaml`, or the path of a \
            dynamic library. The \
              platform's prefix and suffix of a library are optional: `./tools/text-utils` finds \
            `libtext_utils.so`, \
              `libtext_utils.dylib` and `text_utils.dll`. Or an agent has `workdir: repository`, \
            and the project is \
              not in a git repository.",
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
        next: "Correct the path, which is relative to the directory of `goondan.yaml`. If the path \
            is a tool library, \
              first run `gdn build`.",
    }
    /// A path leads outside the project.
    PATH_ESCAPE = "E_CONFIG_PATH_ESCAPE" {
        why: "A path in the YAML is absolute, or leaves the project through `..` or a symbolic \
            link. The `workdir` of \
              an agent may leave the project, but not the git repository around it.",
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
        next: "Copy the file into the project. For an agent that works in the repository around \
            it, write `workdir: \
              repository`.",
    }
    /// The parameters of a tool are not a valid JSON Schema.
    INVALID_PARAMETERS = "E_CONFIG_INVALID_PARAMETERS" {
        why: "`parameters` of an export, or the schema of an agent's `output`, is not a valid JSON \
            Schema (draft \
              2020-12), or its root is not `type: object`.",
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
        next: "Use the types `string`, `number`, `integer`, `boolean`, `object`, `array` and \
            `null`. List required \
              names next to `properties`: `required: [path]`. See \
            https://json-schema.org/understanding-json-schema \
              for the other keywords.",
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
    /// A key, a secret or a setting is not a valid value source.
    INVALID_VALUE_SOURCE = "E_CONFIG_INVALID_VALUE_SOURCE" {
        why: "A key, a secret or a setting is not exactly one of `value`, `valueFrom.env` and \
            `valueFrom.secretRef`.",
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
        next: "Write `{valueFrom: {env: NAME}}` and set the variable, for example in `.env`. \
            Messages never show \
              values, and mask them with asterisks in quoted YAML lines.",
        more: Some("secrets.md"),
    }
    /// An environment variable that the swarm needs is not set.
    ENV_MISSING = "E_CONFIG_ENV_MISSING" {
        why: "A Model or a Connection of the selected swarm uses a variable that is unset or \
            blank. Variables of other \
              swarms are not checked. A `secretRef` to `Secret/slack` with the key `token` reads \
              `GOONDAN_SECRET_SLACK_TOKEN`, `GOONDAN_SECRET_SLACK`, `SECRET_SLACK_TOKEN` or \
            `SECRET_SLACK`.",
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
        next: "Export the variable, or set it in `.env`, `.env.local` or a file that you pass with \
            `--env-file`. \
              Process variables override all files. Among the files, `--env-file` comes first, \
            then `.env.local`, then \
              `.env`.",
        more: Some("secrets.md"),
    }
    /// The project is not trusted.
    PROJECT_UNTRUSTED = "E_PROJECT_UNTRUSTED" {
        why: "The project requests access that can do harm. For example, it loads a library, \
            starts or builds a \
              program, sends conversations or variables elsewhere, reads its `.env`, or lets \
            agents act without \
              approval. `gdn run` exits with code 7, and a reload is refused. The message lists \
            the requested access \
              with file and line.",
        example: shell(
            "gdn run downloads/newsroom --input \"Hello\"\n",
            "gdn trust downloads/newsroom\ngdn run downloads/newsroom --input \"Hello\"\n",
        ),
        next: "Review the requested access. If you trust the project, run `gdn trust PATH`. To \
            trust it for one run, \
              use `--trust` or `GOONDAN_TRUST=1`.",
        more: Some("cli.md#trust"),
    }
}
