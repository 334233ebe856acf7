//! Warnings about bundles that are right and may still not be meant so.

mod policy;
mod provider;
mod schema_walk;
mod unused;

use std::cell::OnceCell;
use std::collections::HashMap;

pub(crate) use provider::fits_strict_mode;

use crate::ResourceId;
use crate::bundle::Decoded;
use crate::decode::Field;
use crate::diagnostic::{Diagnostic, Position};
use crate::node::{Content, Node};

/// All warnings about a bundle without errors.
pub(crate) fn lint(decoded: &Decoded, places: &Places<'_>) -> Vec<Diagnostic> {
    let mut found = unused::lint(decoded);
    found.extend(policy::lint(decoded));
    found.extend(provider::lint(decoded, places));
    found
}

/// The trees that the resources were decoded from.
pub(crate) struct Places<'n> {
    specs: Vec<(&'n ResourceId, &'n Field<'n>)>,
    /// The same, once a place was asked for: most bundles have nothing to be told about.
    by_id: OnceCell<HashMap<&'n ResourceId, &'n Field<'n>>>,
}

/// Where a part of a schema is written; nowhere, if the entry says it.
struct Place {
    field: String,
    at: Option<Position>,
}

impl<'n> Places<'n> {
    /// Of these resources.
    pub(crate) fn new(specs: impl Iterator<Item = (&'n ResourceId, &'n Field<'n>)>) -> Self {
        Places {
            specs: specs.collect(),
            by_id: OnceCell::new(),
        }
    }

    /// The place in the `parameters` of an export that `road` leads to.
    fn parameters(&self, tool: &ResourceId, export: &str, road: &[String]) -> Place {
        let by_id = self
            .by_id
            .get_or_init(|| self.specs.iter().copied().collect());
        let item = by_id
            .get(tool)
            .and_then(|spec| find_export(spec.node, export));
        let Some((index, item)) = item else {
            return Place {
                field: "spec.entry".to_owned(),
                at: None,
            };
        };
        let road = std::iter::once("parameters").chain(road.iter().map(String::as_str));
        let field = road
            .clone()
            .fold(format!("spec.exports[{index}]"), |path, segment| {
                format!("{path}.{segment}")
            });
        Place {
            field,
            at: Some(item.follow(road).at),
        }
    }
}

fn find_export<'n>(spec: &'n Node, name: &str) -> Option<(usize, &'n Node)> {
    let Content::List(items) = &spec.entry("exports")?.value.content else {
        return None;
    };
    let has_name =
        |item: &&Node| item.entry("name").and_then(|entry| entry.value.text()) == Some(name);
    items.iter().enumerate().find(|(_, item)| has_name(item))
}
