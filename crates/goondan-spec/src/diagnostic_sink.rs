//! Results of reading a document besides the resource itself.

use std::ops::Range;

use crate::ResourceId;
use crate::decode::FieldReader;
use crate::diagnostic::{Diagnostic, SourcePosition};
use crate::field_advisor::FieldAdvisor;
use crate::kinds::ToolBuild;
use crate::resource_link::ResourceLink;
use crate::text::excerpt;
use crate::value::ValueSource;

/// Maximum length of a resource name or field path in a diagnostic, in characters. Both are user
/// input.
const MAX_SUBJECT_CHARS: usize = 300;

/// Findings of one stage about one file. Stages append and continue; one place decides at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiagnosticSink {
    /// Path relative to the bundle.
    pub(crate) file: String,
    /// Current resource, once its identity is known.
    pub(crate) resource: Option<ResourceId>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Source of advice about unknown fields. Without it, and outside of resources, there is no advice.
    pub(crate) advisor: Option<FieldAdvisor>,
    /// Missing entries of tools. They are errors only if the tool is used.
    pub(crate) not_built: Vec<Diagnostic>,
    /// Other files of the bundle, such as prompts and entries.
    pub(crate) files: Vec<String>,
    /// Value sources, for the environment check.
    pub(crate) values: Vec<ValueOrigin>,
    /// Texts of other files that diagnostics point into.
    pub(crate) texts: Vec<(String, String)>,
    pub(crate) builds: Vec<ToolBuild>,
    /// Positions of the resource's fields that may be reported later, when the bundle is used.
    pub(crate) places: Vec<(String, SourcePosition)>,
    /// References to resources in the file.
    pub(crate) links: Vec<ResourceLink>,
    /// Byte ranges of secrets in the file, which are masked in all output.
    pub(crate) secrets: Vec<Range<usize>>,
}

/// Value source with its position.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ValueOrigin {
    pub(crate) resource: ResourceId,
    pub(crate) file: String,
    pub(crate) at: SourcePosition,
    /// Field path, such as `spec.secrets.botToken`.
    pub(crate) field: String,
    /// Last part of `field`, which is the default key of a `secretRef`.
    pub(crate) key: String,
    pub(crate) source: ValueSource,
}

impl DiagnosticSink {
    /// Creates a sink for diagnostics about a file.
    pub(crate) fn for_file(file: impl Into<String>) -> Self {
        DiagnosticSink {
            file: file.into(),
            ..DiagnosticSink::default()
        }
    }

    /// Appends `diagnostic` and sets its file and resource if it has none.
    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        let diagnostic = self.with_origin(diagnostic);
        self.diagnostics.push(diagnostic);
    }

    /// Reports that the entry of a tool is missing. Without build instructions, this is always an
    /// error.
    pub(crate) fn add_not_built(&mut self, diagnostic: Diagnostic) {
        if !self.is_buildable() {
            return self.add(diagnostic);
        }
        let diagnostic = self.with_origin(diagnostic);
        self.not_built.push(diagnostic);
    }

    /// Adds the file and the resource of the sink to a diagnostic that has none.
    fn with_origin(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        diagnostic.file.get_or_insert_with(|| self.file.clone());
        if diagnostic.resource.is_none() {
            diagnostic.resource = self
                .resource
                .as_ref()
                .map(|resource| excerpt(&resource.to_string(), MAX_SUBJECT_CHARS));
        }
        diagnostic.field = diagnostic
            .field
            .map(|field| excerpt(&field, MAX_SUBJECT_CHARS));
        diagnostic
    }

    pub(crate) fn record_position(&mut self, field: &FieldReader<'_>) {
        self.places.push((field.path.clone(), field.position()));
    }

    /// Records that the text of `field` names `to` from byte `begin` on.
    pub(crate) fn record_link(&mut self, field: &FieldReader<'_>, begin: usize, to: &ResourceId) {
        self.links.push(ResourceLink::new(field, begin, to));
    }

    /// Adds `file` to the files of the bundle.
    pub(crate) fn depends_on(&mut self, file: impl Into<String>) {
        self.files.push(file.into());
    }

    /// Returns true if the current tool has build instructions.
    pub(crate) fn is_buildable(&self) -> bool {
        self.builds
            .iter()
            .any(|build| Some(&build.tool) == self.resource.as_ref())
    }

    /// Returns true if there are no errors so far.
    pub(crate) fn is_clean(&self) -> bool {
        !self
            .diagnostics
            .iter()
            .chain(&self.not_built)
            .any(Diagnostic::is_error)
    }
}
