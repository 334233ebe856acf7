//! What reading a document brings to light besides the resource itself.

use std::ops::Range;

use crate::ResourceId;
use crate::decode::Field;
use crate::diagnostic::{Diagnostic, Position};
use crate::kinds::ToolBuild;
use crate::outline::Link;
use crate::text::excerpt;
use crate::value::ValueSource;

/// How many characters of a resource's name and of a field's path a diagnostic holds: both are the user's to choose.
const LONGEST_SUBJECT: usize = 300;

/// Everything that one stage has to say about one file. Stages append and go on; one place decides in the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct Findings {
    /// Relative to the bundle.
    pub(crate) file: String,
    /// The resource that is being read, once it is known.
    pub(crate) resource: Option<ResourceId>,
    /// What is wrong.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// That the entry of a tool is not there: an error where somebody uses the tool.
    pub(crate) not_built: Vec<Diagnostic>,
    /// Further files that the bundle is made from: prompts, entries.
    pub(crate) files: Vec<String>,
    /// Value sources, for the check of the environment.
    pub(crate) values: Vec<ValueOrigin>,
    /// Texts of files that diagnostics point into, besides `file`.
    pub(crate) texts: Vec<(String, String)>,
    /// How tools are built.
    pub(crate) builds: Vec<ToolBuild>,
    /// Where fields of `resource` stand that something may be wrong with once the bundle is used.
    pub(crate) places: Vec<(String, Position)>,
    /// The places in the file that name a resource.
    pub(crate) links: Vec<Link>,
    /// Where secrets stand in the file, so that nothing shows them.
    pub(crate) secrets: Vec<Range<usize>>,
}

/// A value source and the place where it is written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueOrigin {
    pub(crate) resource: ResourceId,
    pub(crate) file: String,
    pub(crate) at: Position,
    /// Such as `spec.secrets.botToken`.
    pub(crate) field: String,
    /// The last part of `field`; a `secretRef` without a key means that key.
    pub(crate) key: String,
    pub(crate) source: ValueSource,
}

impl Findings {
    /// Nothing yet, about `file`.
    pub(crate) fn about(file: impl Into<String>) -> Self {
        Findings {
            file: file.into(),
            ..Findings::default()
        }
    }

    /// Appends `diagnostic`, with the file and the resource where it names none.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        let diagnostic = self.placed(diagnostic);
        self.diagnostics.push(diagnostic);
    }

    /// Notes that the entry of a tool is not there. Where nothing says how it is built, that is a mistake whoever uses the tool.
    pub(crate) fn add_not_built(&mut self, diagnostic: Diagnostic) {
        if !self.is_buildable() {
            return self.add(diagnostic);
        }
        let diagnostic = self.placed(diagnostic);
        self.not_built.push(diagnostic);
    }

    fn placed(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        diagnostic.file.get_or_insert_with(|| self.file.clone());
        if diagnostic.resource.is_none() {
            diagnostic.resource = self
                .resource
                .as_ref()
                .map(|resource| excerpt(&resource.to_string(), LONGEST_SUBJECT));
        }
        diagnostic.field = diagnostic
            .field
            .map(|field| excerpt(&field, LONGEST_SUBJECT));
        diagnostic
    }

    /// Notes where a field of the resource stands.
    pub(crate) fn note_place(&mut self, field: &Field<'_>) {
        self.places.push((field.path.clone(), field.at()));
    }

    /// Notes that the text at `field` names `to`, by its letters from `begin` on.
    pub(crate) fn note_link(&mut self, field: &Field<'_>, begin: usize, to: &ResourceId) {
        self.links.push(Link::new(field, begin, to));
    }

    /// Notes that the bundle is also made from `file`.
    pub(crate) fn depends_on(&mut self, file: impl Into<String>) {
        self.files.push(file.into());
    }

    /// Whether the tool that is being read says how its entry is made.
    pub(crate) fn is_buildable(&self) -> bool {
        self.builds
            .iter()
            .any(|build| Some(&build.tool) == self.resource.as_ref())
    }

    /// Whether nothing that has been found so far keeps the bundle from running.
    pub(crate) fn is_clean(&self) -> bool {
        !self
            .diagnostics
            .iter()
            .chain(&self.not_built)
            .any(Diagnostic::is_error)
    }
}
