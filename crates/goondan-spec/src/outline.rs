//! What stands where in a bundle, for editors: the resources, and every place that names one.

use std::ops::Range;

use crate::ResourceId;
use crate::bundle::{Origin, Resources};
use crate::decode::Field;
use crate::diagnostic::Position;
use crate::kinds::{Connector, Tool};

/// What stands where, as far as it could be read: a bundle with mistakes has one, too.
#[derive(Debug, Clone, Default)]
pub struct Outline {
    /// The resources that have a name, in load order, and those that are built in.
    pub definitions: Vec<Definition>,
    /// The places that name a resource, document by document.
    pub links: Vec<(String, Vec<Link>)>,
    /// The tools with their exports, the built-in ones included.
    pub tools: Resources<Tool>,
    /// The connectors, the built-in ones included.
    pub connectors: Resources<Connector>,
    /// The YAML files of the bundle.
    pub files: Vec<String>,
}

/// A resource and the place of its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Who it is.
    pub id: ResourceId,
    /// Where its name stands; `None` for what is built in.
    pub origin: Option<Origin>,
}

/// A place that names a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// The value that names it.
    pub at: Position,
    /// The bytes that are its name; `None` where the name is not written letter by letter, but with escapes.
    pub name: Option<Range<usize>>,
    /// The resource.
    pub to: ResourceId,
}

impl Link {
    /// That the text at `field` names `to`, by its bytes from `begin` on.
    pub(crate) fn new(field: &Field<'_>, begin: usize, to: &ResourceId) -> Self {
        let text = field.node.text().unwrap_or_default();
        let name =
            letters(field.node.at, text).map(|start| start + begin..start + begin + to.name.len());
        Link {
            at: field.node.at,
            name,
            to: to.clone(),
        }
    }
}

/// Where the letters of `text` begin, which stands at `at`: bare, or in quotes without an escape.
fn letters(at: Position, text: &str) -> Option<usize> {
    match (at.end - at.start).checked_sub(text.len())? {
        0 => Some(at.start),
        2 => Some(at.start + 1),
        _ => None,
    }
}

/// The bytes of a resource's name, where its `origin` says that it stands.
pub fn name_range(at: Position, name: &str) -> Option<Range<usize>> {
    letters(at, name).map(|start| start..start + name.len())
}
