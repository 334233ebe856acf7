//! Codes of files and documents.

use super::yaml;

codes! {
    /// A file is not YAML, or cannot be read.
    PARSE_ERROR = "E_CONFIG_PARSE_ERROR" {
        why: "A file is not YAML 1.2 or not UTF-8, cannot be opened, or exceeds a limit. Lists and \
            maps may nest 64 \
              levels deep, and the aliases of a document may expand to 20,000 values. Other causes \
            are a path without \
              a project, or a prompt or environment file that is not text. Documents are parsed \
            separately, so an \
              error in one document hides no error in another.",
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
        next: "Correct the YAML at the line and column. Usual causes are tabs instead of spaces, \
            an unquoted string \
              with a `:`, a missing bracket or quote, and a duplicate key. Quote strings that \
            begin with `@`, `` ` ``, \
              `*` or `&`.",
    }
    /// A file exceeds the size limit.
    FILE_TOO_LARGE = "E_CONFIG_FILE_TOO_LARGE" {
        why: "A YAML file, a prompt or a `.gitignore` has more than 1 MiB, or the `.gitignore` files \
            have too many patterns.",
        next: "Split the file. `gdn` reads every `*.yaml` in a directory named `models`, `agents`, \
            `tools`, \
              `extensions`, `connectors`, `connections`, `swarms` or `resources`. Move reference \
            material to a file \
              that the agent reads with a tool. In a `.gitignore`, exclude directories instead of \
            files.",
        more: Some("limits.md#projects"),
    }
    /// A file contains too many documents.
    TOO_MANY_DOCUMENTS = "E_CONFIG_TOO_MANY_DOCUMENTS" {
        why: "A file has more than 1,000 documents, separated by `---`.",
        next: "Split it into several files. `gdn` reads every `*.yaml` in a directory named after \
            a kind, such as \
              `agents` or `tools`.",
    }
    /// A document uses an unsupported version of the format.
    UNSUPPORTED_API_VERSION = "E_CONFIG_UNSUPPORTED_API_VERSION" {
        why: "`apiVersion` is not `goondan.ai/v1`. `gdn` ignores the rest of the document.",
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
    /// A document has an unknown kind.
    UNKNOWN_KIND = "E_CONFIG_UNKNOWN_KIND" {
        why: "`kind` is not one of Model, Agent, Swarm, Tool, Extension, Connector, Connection and \
            Package.",
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
    /// A resource has an invalid name.
    INVALID_NAME = "E_CONFIG_INVALID_NAME" {
        why: "`metadata.name` must begin with a letter, contain only lowercase letters, digits and \
            hyphens, and have \
              at most 63 characters. Only a Package may have a name of the form `@scope/name`.",
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
        why: "A name must be unique per kind across all files of the project. The message contains \
            the location of the \
              first resource.",
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
        next: "Rename or remove one of the two resources.",
    }
    /// A field is missing, unknown, or has an invalid value.
    SCHEMA_INVALID = "E_CONFIG_SCHEMA_INVALID" {
        why: "A field is unknown, or has the wrong type or an invalid value, or a required field \
            is missing. In the \
              example, `spec.model` is missing and `spec.modle` is unknown.",
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
        next: "Follow the suggestion. `schemas/goondan.schema.json` describes all fields, and an \
            editor with a YAML \
              language server checks them while you type. These fields accept any content: \
            `metadata.labels`, \
              `metadata.annotations`, `Model.spec.options.body`, and `config` of tools and \
            extensions.",
        more: Some("cli.md#schema"),
    }
    /// A Package is not the first document of `goondan.yaml`.
    PACKAGE_DOC_POSITION = "E_CONFIG_PACKAGE_DOC_POSITION" {
        why: "A Package describes the whole project, so it must be the first document of the \
            project's `goondan.yaml`.",
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
        next: "Move it to the top of `goondan.yaml`, or remove it. Only a project that other \
            projects use needs a \
              Package.",
    }
    /// The project has a second Package.
    PACKAGE_DOC_DUPLICATED = "E_CONFIG_PACKAGE_DOC_DUPLICATED" {
        why: "A project may have at most one Package.",
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
