//! Codes of references between resources.

use super::yaml;

codes! {
    /// A reference has the wrong form, or names the wrong kind.
    INVALID_REF = "E_CONFIG_INVALID_REF" {
        why: "A reference has a form other than `name`, `Kind/name` or `{kind, name, package}`, or \
            names an invalid kind.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [Tol/bash]
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bash}]
",
        ),
        next: "Write `Kind/name` or the name: `modelRef: Model/name`. In lists, write `- ref: \
            Kind/name`, with further fields below it.",
    }
    /// A reference names a resource that does not exist.
    REF_NOT_FOUND = "E_CONFIG_REF_NOT_FOUND" {
        why: "No document defines the resource. For a reference without a package, `gdn` searches \
            the project first, \
              then the built-in package `@goondan/base`, then all other packages.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bsh}]
",
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [{ref: Tool/bash}]
",
        ),
        next: "Use the name that the message suggests, or define the resource.",
    }
    /// A reference matches resources of several packages.
    REF_AMBIGUOUS = "E_CONFIG_REF_AMBIGUOUS" {
        why: "Several packages have a resource of that kind and name. Neither the project nor \
            `@goondan/base` has one, \
              which would take precedence.",
        next: "Name the package: `ref: {kind: Tool, name: search, package: \"@acme/tools\"}`.",
    }
    /// Packages depend on each other in a cycle.
    CYCLE = "E_CONFIG_CYCLE" {
        why: "A Package depends on itself, directly or through other packages in the project's \
            directory.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: newsroom}
spec: {dependencies: [{name: newsroom, version: ^1.0.0}]}
",
            "\
apiVersion: goondan.ai/v1
kind: Package
metadata: {name: newsroom}
spec: {dependencies: [{name: \"@goondan/base\", version: \"*\"}]}
",
        ),
        next: "Remove one of the dependencies in the cycle that the message shows.",
    }
    /// The swarm to run is ambiguous.
    NO_SWARM = "E_CONFIG_NO_SWARM" {
        why: "The project has no Swarm, no Swarm of the requested name, or several Swarms of which \
            none has the name \
              `default`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: day}
spec: {entryAgent: Agent/writer, agents: [{ref: Agent/writer}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: night}
spec: {entryAgent: Agent/writer, agents: [{ref: Agent/writer}]}
",
            "\
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: default}
spec: {entryAgent: Agent/writer, agents: [{ref: Agent/writer}]}
---
apiVersion: goondan.ai/v1
kind: Swarm
metadata: {name: night}
spec: {entryAgent: Agent/writer, agents: [{ref: Agent/writer}]}
",
        ),
        next: "Add a Swarm, rename one to `default`, or select one: `gdn run --swarm night`.",
    }
}
