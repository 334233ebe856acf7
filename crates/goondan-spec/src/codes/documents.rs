//! Codes of files, and of documents as a whole.

use super::yaml;

codes! {
    /// A file is not YAML, or can't be read.
    PARSE_ERROR = "E_CONFIG_PARSE_ERROR" {
        why: "A file is not YAML 1.2 or not UTF-8, can't be opened, or goes past a limit: lists and maps nest at most \
              64 deep, and the aliases of a document expand to at most 20,000 values. The path that you gave may hold \
              no project, and a prompt or an environment file may not be text. Documents are read one by one, so a \
              mistake in one hides none in the others.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: fast}
spec: {provider: openai, model: gpt-5-mini
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: fast}
spec: {provider: openai, model: gpt-5-mini}
",
        ),
        next: "Go to the line and column. The usual causes are tabs instead of spaces, a `:` inside text without \
               quotes, a bracket or quote that is never closed, the same key twice in a map, and text that begins \
               with `@`, `` ` ``, `*` or `&` without quotes.",
    }
    /// A file is too large.
    FILE_TOO_LARGE = "E_CONFIG_FILE_TOO_LARGE" {
        why: "A YAML file or a prompt has more than 1 MiB.",
        next: "Split it. Every `*.yaml` in a folder named `models`, `agents`, `tools`, `extensions`, `connectors`, \
               `connections`, `swarms` or `resources` is read. What an agent looks up now and then belongs in a file \
               that it reads with a tool.",
    }
    /// A file holds too many documents.
    TOO_MANY_DOCUMENTS = "E_CONFIG_TOO_MANY_DOCUMENTS" {
        why: "A file has more than 1,000 documents, separated by `---`.",
        next: "Split it into several files. Every `*.yaml` in a folder named after a kind, such as `agents` or \
               `tools`, is read.",
    }
    /// A document is written for another version of the format.
    UNSUPPORTED_API_VERSION = "E_CONFIG_UNSUPPORTED_API_VERSION" {
        why: "`apiVersion` is not `goondan.ai/v1`. The rest of the document is not looked at.",
        example: yaml(
            "\
apiVersion: goondan.io/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main}}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main}}
",
        ),
        next: "Write `apiVersion: goondan.ai/v1`.",
    }
    /// There is no such kind of resource.
    UNKNOWN_KIND = "E_CONFIG_UNKNOWN_KIND" {
        why: "`kind` is not one of Model, Agent, Swarm, Tool, Extension, Connector, Connection and Package.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agnet
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main}}
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec: {modelConfig: {modelRef: Model/main}}
",
        ),
        next: "Correct the spelling. Kinds begin with a capital letter.",
    }
    /// A resource has a name that is not allowed.
    INVALID_NAME = "E_CONFIG_INVALID_NAME" {
        why: "`metadata.name` has something other than lower-case letters, digits and hyphens, does not begin with a \
              letter, or is longer than 63 characters. Only a Package may also be called `@scope/name`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: My_Notes}
spec: {entry: builtin:fs}
",
            "\
apiVersion: goondan.ai/v1
kind: Tool
metadata: {name: my-notes}
spec: {entry: builtin:fs}
",
        ),
        next: "Choose a name such as `my-notes`, and change the references to it.",
    }
    /// Two resources of the same kind have the same name.
    DUPLICATE_NAME = "E_CONFIG_DUPLICATE_NAME" {
        why: "Each name may occur once per kind, in all files of the project together. The message says where the \
              first one is.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: fast}
spec: {provider: openai, model: gpt-5-mini}
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: fast}
spec: {provider: openai, model: gpt-5-nano}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: fast}
spec: {provider: openai, model: gpt-5-mini}
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5-nano}
",
        ),
        next: "Rename one of the two, or remove it.",
    }
    /// A field is missing, unknown, or has a value that it can't have.
    SCHEMA_INVALID = "E_CONFIG_SCHEMA_INVALID" {
        why: "A field has the wrong type or a value that is not allowed, a required field is missing, or a field is \
              unknown. In the example, `spec.model` is missing and `spec.modle` is unknown.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, modle: gpt-5}
",
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5}
",
        ),
        next: "Follow the suggestion. `schemas/goondan.schema.json` describes all fields, and an editor with a YAML \
               language server checks against it while you type. These fields may hold anything: `metadata.labels`, \
               `metadata.annotations`, `Model.spec.options.body`, and `config` of tools and extensions.",
        more: Some("cli.md#schema"),
    }
    /// A Package is in the wrong place.
    PACKAGE_DOC_POSITION = "E_CONFIG_PACKAGE_DOC_POSITION" {
        why: "A Package describes the whole project, so it must be the first document of the project's \
              `goondan.yaml`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5}
---
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: newsroom}
",
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: newsroom}
---
apiVersion: goondan.ai/v1
kind: Model
metadata: {name: main}
spec: {provider: openai, model: gpt-5}
",
        ),
        next: "Move it to the top of `goondan.yaml`, or remove it: a project that nobody else uses needs none.",
    }
    /// There is a second Package.
    PACKAGE_DOC_DUPLICATED = "E_CONFIG_PACKAGE_DOC_DUPLICATED" {
        why: "A project has one Package at most.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: newsroom}
---
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: archive}
",
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: newsroom}
",
        ),
        next: "Remove one of the two.",
    }
}
