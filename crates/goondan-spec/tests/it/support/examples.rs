//! One example of each kind; together they are a project.

use goondan_spec::lock::{LockedPackage, PackageLock};
use goondan_spec::{Kind, MemoryFiles};

use super::files;

/// Returns the example of a kind: one or more documents that use every field.
pub(crate) fn example(kind: Kind) -> &'static str {
    match kind {
        Kind::Model => include_str!("../examples/model.yaml"),
        Kind::Agent => include_str!("../examples/agent.yaml"),
        Kind::Swarm => include_str!("../examples/swarm.yaml"),
        Kind::Tool => include_str!("../examples/tool.yaml"),
        Kind::Extension => include_str!("../examples/extension.yaml"),
        Kind::Connector => include_str!("../examples/connector.yaml"),
        Kind::Connection => include_str!("../examples/connection.yaml"),
        Kind::Package => include_str!("../examples/package.yaml"),
    }
}

/// Returns the project of all examples, with the files that its resources reference.
pub(crate) fn project() -> MemoryFiles {
    // A Package must be the first document.
    let mut kinds = Kind::ALL;
    kinds.rotate_right(1);
    files(&[("goondan.yaml", &kinds.map(example).join("---\n"))])
        .file("/p/prompts/writer.md", "Write.")
        .file(
            "/p/skills/titles/SKILL.md",
            "---\nname: titles\ndescription: Finds titles.\n---\n",
        )
        .file(
            "/p/more/house-style/SKILL.md",
            "---\nname: house-style\ndescription: How we write.\n---\n",
        )
        .file("/p/schemas/text.json", "{\"type\": \"object\"}")
        .file("/p/prompts/case.md", "Changes case in ${workspace}.")
        .file("/p/tools/text-utils/target/release/libtext_utils.so", "")
        .file(
            "/p/tools/greet/tool.yaml",
            "name: greet\ndescription: Greets\nentrypoint: greet.sh\n",
        )
        .file("/p/tools/greet/greet.sh", "")
        .file("/p/tools/weather.ts", "")
        .file("/p/extensions/turn-count.ts", "")
        .file("/p/extensions/tidy/target/release/libtidy.so", "")
        .file("/p/connectors/inbox.js", "")
        .file("/p/connectors/pager/target/release/libpager.so", "")
        .file("/p/.goondan/installed/@acme/tools/goondan.yaml", TOOLS)
        .file("/p/goondan.lock.yaml", lock())
}

/// The dependency of the example Package.
const TOOLS: &str = "apiVersion: goondan.ai/v1\nkind: Package\nmetadata: {name: \"@acme/tools\"}\nspec: {version: 1.4.2}\n";

fn lock() -> String {
    let installed = MemoryFiles::new().file("/p/goondan.yaml", TOOLS);
    let contents = goondan_spec::content_hash::contents(&installed, "/p".as_ref()).ok();
    let locked = LockedPackage {
        version: "1.4.2".into(),
        resolved: "file:x".into(),
        contents,
        ..LockedPackage::default()
    };
    PackageLock::new([("@acme/tools@1.4.2".to_owned(), locked)].into()).render()
}
