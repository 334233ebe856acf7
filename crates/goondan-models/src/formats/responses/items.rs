//! The output items of one answer, and the events that belong to them.
//!
//! Servers name an item by its position, its id, both or neither. Some change the id in each event,
//! and some give all items the same position.

use serde_json::Value;

use crate::answer::BlockKey;

/// Kind of an output item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Call,
    /// An item that only the provider understands, such as a web search.
    Other,
}

/// The names of an item in one event. Empty strings are not names.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ItemName<'a> {
    index: Option<u64>,
    id: &'a str,
    call_id: &'a str,
}

/// An output item while it arrives.
#[derive(Debug)]
pub(super) struct OutputItem {
    kind: ItemKind,
    /// The `output_index` of the item's events.
    index: Option<u64>,
    pub(super) id: String,
    pub(super) call_id: String,
    /// Key of the item's block in the answer.
    pub(super) key: BlockKey,
    /// Text or arguments so far.
    pub(super) streamed: String,
    /// Number of the last part of the reasoning.
    pub(super) part: Option<u64>,
    /// Number of the call among the answer's calls, if the item is a call.
    pub(super) position: Option<usize>,
    pub(super) has_name: bool,
    pub(super) has_refusal: bool,
    pub(super) is_done: bool,
    /// Index in the `output` of the complete response.
    pub(super) final_index: Option<usize>,
}

/// The output items of one answer, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct ItemTable {
    items: Vec<OutputItem>,
}

impl ItemKind {
    /// Returns the kind of an item's JSON.
    pub(super) fn from_item(item: &Value) -> Self {
        match item["type"].as_str() {
            Some("message") | None => ItemKind::Message,
            Some("reasoning") => ItemKind::Reasoning,
            Some("function_call") => ItemKind::Call,
            Some(_) => ItemKind::Other,
        }
    }
}

impl<'a> ItemName<'a> {
    /// Returns the index and the ids of the item of an event.
    pub(super) fn from_event(event: &'a Value) -> Self {
        let item = ItemName::from_item(&event["item"]);
        ItemName {
            index: event["output_index"].as_u64(),
            id: event["item_id"].as_str().unwrap_or(item.id),
            ..item
        }
    }

    /// Returns the ids of an item of a complete response.
    pub(super) fn from_item(item: &'a Value) -> Self {
        ItemName {
            index: None,
            id: item["id"].as_str().unwrap_or_default(),
            call_id: item["call_id"].as_str().unwrap_or_default(),
        }
    }

    /// Returns true if the event does not identify its item.
    fn is_empty(&self) -> bool {
        self.index.is_none() && self.id.is_empty() && self.call_id.is_empty()
    }
}

impl OutputItem {
    /// Creates an item without names and content.
    fn new(kind: ItemKind, key: BlockKey) -> Self {
        OutputItem {
            kind,
            index: None,
            id: String::new(),
            call_id: String::new(),
            key,
            streamed: String::new(),
            part: None,
            position: None,
            has_name: false,
            has_refusal: false,
            is_done: false,
            final_index: None,
        }
    }

    /// Returns true if `name` contains an id of this item, and not the `output_index` of another
    /// item.
    fn has_id_of(&self, name: &ItemName<'_>) -> bool {
        let is_same_id = |own: &str, other: &str| !own.is_empty() && own == other;
        let has_other_index =
            self.index.is_some() && name.index.is_some() && self.index != name.index;
        !has_other_index
            && (is_same_id(&self.id, name.id) || is_same_id(&self.call_id, name.call_id))
    }

    /// Returns false if `name` has an index or an id that differs from that of this item. Missing
    /// values match.
    fn may_be(&self, name: &ItemName<'_>) -> bool {
        let are_different =
            |own: &str, other: &str| !own.is_empty() && !other.is_empty() && own != other;
        let has_other_index =
            self.index.is_some() && name.index.is_some() && self.index != name.index;
        !has_other_index
            && !are_different(&self.id, name.id)
            && !are_different(&self.call_id, name.call_id)
    }

    /// Returns true if the item began without a name.
    fn is_nameless(&self) -> bool {
        self.index.is_none() && self.id.is_empty() && self.call_id.is_empty()
    }

    /// Fills the item's unknown names from `name`; known names stay.
    fn add_names(&mut self, name: &ItemName<'_>) {
        self.index = self.index.or(name.index);
        let fill_if_empty = |own: &mut String, other: &str| {
            if own.is_empty() {
                own.push_str(other);
            }
        };
        fill_if_empty(&mut self.id, name.id);
        fill_if_empty(&mut self.call_id, name.call_id);
    }

    /// Returns the rest of `whole` that has not arrived yet. A text that differs from the streamed
    /// one has no rest.
    pub(super) fn unstreamed_rest<'t>(&self, whole: &'t str) -> &'t str {
        whole
            .strip_prefix(self.streamed.as_str())
            .unwrap_or_default()
    }
}

impl ItemTable {
    /// Returns the item with the table index `at`.
    pub(super) fn get(&mut self, at: usize) -> &mut OutputItem {
        &mut self.items[at]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &OutputItem> {
        self.items.iter()
    }

    /// Returns the table index of the item that an event begins. An unknown item is added.
    pub(super) fn begin(&mut self, kind: ItemKind, name: ItemName<'_>) -> usize {
        let is_nameless =
            |item: &OutputItem| !item.is_done && item.is_nameless() && !name.is_empty();
        let item_with_id = self.last_index(kind, |item| item.has_id_of(&name));
        let known_index = item_with_id.or_else(|| self.last_index(kind, is_nameless));
        self.find_or_push(known_index, kind, &name)
    }

    /// Returns the table index of the item to which an event belongs. An unknown item is added.
    pub(super) fn item_of_event(&mut self, kind: ItemKind, name: ItemName<'_>) -> usize {
        let is_open_at_index =
            |item: &OutputItem| !item.is_done && item.index.is_some() && item.index == name.index;
        let is_open = |item: &OutputItem| !item.is_done && item.may_be(&name);
        let known_index = self
            .last_index(kind, |item| item.has_id_of(&name))
            .or_else(|| self.last_index(kind, is_open_at_index))
            .or_else(|| self.last_index(kind, is_open));
        self.find_or_push(known_index, kind, &name)
    }

    /// Finds the item that has the index `response_index` in the complete response, and returns its
    /// table index. Matches by id, then by `output_index`, then by kind, and each item only once.
    /// Adds an unknown item.
    pub(super) fn match_response_item(
        &mut self,
        kind: ItemKind,
        response_index: usize,
        name: ItemName<'_>,
    ) -> usize {
        let index = u64::try_from(response_index).ok();
        let first_match = |table: &Self, is_wanted: &dyn Fn(&OutputItem) -> bool| {
            table
                .items
                .iter()
                .position(|item| item.kind == kind && item.final_index.is_none() && is_wanted(item))
        };
        // Two calls with different ids are different calls.
        let may_be_same = |item: &OutputItem| item.call_id.is_empty() || name.call_id.is_empty();
        let known_index = first_match(self, &|item| item.has_id_of(&name))
            .or_else(|| first_match(self, &|item| item.index == index && may_be_same(item)))
            // `Other` covers many item types, so an equal kind does not identify the item.
            .or_else(|| first_match(self, &|item| kind != ItemKind::Other && may_be_same(item)));
        let known_index = self.find_or_push(known_index, kind, &name);
        self.items[known_index].final_index = Some(response_index);
        known_index
    }

    /// Returns the index in the complete response of the item with the block `key`, or of the call
    /// at `position`.
    pub(super) fn response_index(&self, key: BlockKey, position: Option<usize>) -> Option<usize> {
        let item = match position {
            Some(_) => self.items.iter().find(|item| item.position == position),
            None => self.items.iter().find(|item| item.key == key),
        };
        item?.final_index
    }

    /// Returns the table index of the last item of `kind` for which `is_wanted` returns true.
    fn last_index(&self, kind: ItemKind, is_wanted: impl Fn(&OutputItem) -> bool) -> Option<usize> {
        self.items
            .iter()
            .rposition(|item| item.kind == kind && is_wanted(item))
    }

    /// Returns the table index `known`, or the index of a new item if `known` is `None`.
    /// Adds the names in `name` to the item.
    fn find_or_push(&mut self, known: Option<usize>, kind: ItemKind, name: &ItemName<'_>) -> usize {
        let item_index = known.unwrap_or_else(|| {
            let key = self.items.len() as BlockKey;
            self.items.push(OutputItem::new(kind, key));
            self.items.len() - 1
        });
        self.items[item_index].add_names(name);
        item_index
    }
}
