//! Codes of what one resource says about others.

use super::yaml;

codes! {
    /// A reference has the wrong form, or names the wrong kind.
    INVALID_REF = "E_CONFIG_INVALID_REF" {
        why: "A reference does not have the form `Kind/name` or `{kind, name, package}`, names a kind that does not \
              belong there, or stands in a list without `ref`.",
        example: yaml(
            "\
apiVersion: goondan.ai/v1
kind: Agent
metadata: {name: writer}
spec:
  modelConfig: {modelRef: Model/main}
  tools: [Tool/bash]
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
        next: "In lists, write `- ref: Kind/name`. Elsewhere, write the reference itself: `modelRef: Model/name`.",
    }
    /// A reference names a resource that does not exist.
    REF_NOT_FOUND = "E_CONFIG_REF_NOT_FOUND" {
        why: "Nothing defines the resource. A reference without a package looks in the project first, then in the \
              built-in package `@goondan/base`, then in all other packages.",
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
        next: "Take the name that the message suggests, or define the resource.",
    }
    /// A reference could mean resources of several packages.
    REF_AMBIGUOUS = "E_CONFIG_REF_AMBIGUOUS" {
        why: "Several packages have a resource of that kind and name, and neither the project itself nor \
              `@goondan/base` has one, which would come first.",
        next: "Say which one you mean: `ref: {kind: Tool, name: search, package: \"@acme/tools\"}`.",
    }
    /// Packages depend on each other in a circle.
    CYCLE = "E_CONFIG_CYCLE" {
        why: "A Package depends on itself, directly or through other packages in the project's folder.",
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
        next: "Remove one of the dependencies on the circle that the message shows.",
    }
    /// It is not clear which swarm to run.
    NO_SWARM = "E_CONFIG_NO_SWARM" {
        why: "The project has no Swarm, no Swarm of the name that you asked for, or several of which none is called \
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
        next: "Add a Swarm, call one of them `default`, or choose one: `gdn run --swarm night`.",
    }
}
