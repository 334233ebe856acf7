//! Document templates of each kind.

use goondan_spec::Kind;

/// Document template in LSP snippet syntax, such as `${1:name}`.
pub(crate) struct DocumentTemplate {
    pub(crate) kind: Kind,
    pub(crate) description: &'static str,
    spec: &'static str,
}

impl DocumentTemplate {
    /// Returns a resource of this kind as a snippet with placeholders.
    pub(crate) fn snippet(&self) -> String {
        let kind = self.kind;
        let name = kind.as_str().to_lowercase();
        format!(
            "apiVersion: {}\nkind: {kind}\nmetadata:\n  name: ${{1:my-{name}}}\n{}",
            goondan_spec::meta::API_VERSION,
            self.spec
        )
    }
}

pub(crate) const TEMPLATES: [DocumentTemplate; 8] = [
    DocumentTemplate {
        kind: Kind::Model,
        description: "A language model of a provider.",
        spec: "spec:\n  provider: ${2:anthropic}\n  model: ${3:model-name}\n  apiKey:\n    \
            valueFrom:\n      env: ${4:ANTHROPIC_API_KEY}\n",
    },
    DocumentTemplate {
        kind: Kind::Agent,
        description: "A model with a prompt and tools.",
        spec: "spec:\n  modelConfig:\n    modelRef: Model/${2:my-model}\n  prompt:\n    system: \
            ${3:You help.}\n  tools:\n    - ref: Tool/${4:file-system}\n",
    },
    DocumentTemplate {
        kind: Kind::Swarm,
        description: "Agents that run together.",
        spec: "spec:\n  entryAgent: Agent/${2:my-agent}\n  agents:\n    - ref: \
            Agent/${2:my-agent}\n",
    },
    DocumentTemplate {
        kind: Kind::Tool,
        description: "A tool with functions in JavaScript, TypeScript or Python, or in a library.",
        spec: "spec:\n  entry: ${2:./tools/my-tool.ts}\n  exports:\n    - name: ${3:run}\n      \
            description: ${4:What it does.}\n      parameters:\n        type: object\n        \
            properties: {}\n",
    },
    DocumentTemplate {
        kind: Kind::Extension,
        description: "Middleware around an agent's turns.",
        spec: "spec:\n  entry: builtin:${2:logging}\n",
    },
    DocumentTemplate {
        kind: Kind::Connector,
        description: "A source of events from outside.",
        spec: "spec:\n  entry: builtin:${2:webhook}\n  events:\n    - name: ${3:message}\n",
    },
    DocumentTemplate {
        kind: Kind::Connection,
        description: "Events of a connector, routed into a swarm.",
        spec: "spec:\n  connectorRef: Connector/${2:webhook}\n  swarmRef: Swarm/${3:my-swarm}\n",
    },
    DocumentTemplate {
        kind: Kind::Package,
        description: "The name and version of this project.",
        spec: "spec:\n  version: ${2:1.0.0}\n",
    },
];

/// Converts a snippet to plain text with the default value of each placeholder.
pub(crate) fn strip_placeholders(snippet: &str) -> String {
    let (mut text, mut rest) = (String::new(), snippet);
    while let Some((before, after)) = rest.split_once("${") {
        text.push_str(before);
        let (inside, after_placeholder) = after.split_once('}').unwrap_or((after, ""));
        text.push_str(inside.split_once(':').map_or("", |(_, proposed)| proposed));
        rest = after_placeholder;
    }
    text + &rest.replace("$0", "")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use goondan_spec::{BasePackage, Code, LoadInput, MemoryFiles, load};

    use super::*;

    /// A template may refer to missing resources, but must not have other errors.
    #[test]
    fn templates_match_the_schema() {
        for template in &TEMPLATES {
            let files =
                MemoryFiles::new().file("/p/goondan.yaml", strip_placeholders(&template.snippet()));
            let loaded = load(LoadInput {
                root: Path::new("/p"),
                files: &files,
                base: &BasePackage::default(),
            });
            let wrong: Vec<_> = loaded
                .diagnostics
                .iter()
                .filter(|found| found.code == Code::SCHEMA_INVALID)
                .collect();
            assert!(wrong.is_empty(), "{}: {wrong:#?}", template.kind);
        }
    }

    #[test]
    fn placeholders_are_stripped_from_a_snippet() {
        assert_eq!(strip_placeholders("a: ${1:b}\nc: ${2}$0"), "a: b\nc: ");
    }
}
