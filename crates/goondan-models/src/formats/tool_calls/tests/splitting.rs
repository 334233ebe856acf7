use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::json;

use super::*;

/// Variants in which servers identify and split the pieces of calls.
#[derive(Debug, Clone)]
struct SplitStyle {
    /// Index of the first call.
    first_index: Option<u64>,
    ids: Ids,
    names: Names,
    interleaved: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ids {
    First,
    Every,
    EmptyLater,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Names {
    First,
    Every,
    Late,
    Pieces,
}

fn styles() -> impl Strategy<Value = SplitStyle> {
    let index = prop::option::of(0u64..2);
    let ids = prop::sample::select(vec![Ids::First, Ids::Every, Ids::EmptyLater, Ids::Never]);
    let names = prop::sample::select(vec![Names::First, Names::Every, Names::Late, Names::Pieces]);
    (index, ids, names, any::<bool>()).prop_map(|(first_index, ids, names, interleaved)| {
        // Without a key in every piece, only the order and the names separate the calls.
        let has_key = first_index.is_some() || ids == Ids::Every;
        let has_begin = has_key || ids != Ids::Never;
        // A call begins with its first content.
        let begins_late = ids == Ids::Never && names == Names::Late;
        let names = if has_begin && !begins_late {
            names
        } else {
            Names::First
        };
        SplitStyle {
            first_index,
            ids,
            names,
            interleaved: interleaved && has_key,
        }
    })
}

type OwnedPiece = (Option<u64>, Option<String>, Option<String>, Option<String>);

/// Returns the pieces of the call at `position`.
fn pieces_of(
    style: &SplitStyle,
    position: usize,
    (id, name, arguments): &(String, String, Value),
    cuts: &[Index],
) -> Vec<OwnedPiece> {
    let texts = cut(&arguments.to_string(), cuts);
    let names = match style.names {
        Names::Pieces => cut(name, &cuts[..cuts.len().min(2)]),
        Names::Late => vec![String::new(), name.clone()],
        Names::First | Names::Every => vec![name.clone()],
    };
    let heads = names.into_iter().map(|name| (Some(name), None));
    let later_name = (style.names == Names::Every).then(|| name.clone());
    let tails = texts
        .into_iter()
        .map(|text| (later_name.clone(), Some(text)));
    let end = later_name
        .clone()
        .map(|name| (Some(name), Some(String::new())));
    let pieces = heads.chain(tails).chain(end).enumerate();
    pieces
        .map(|(at, (name, text))| {
            let id = match style.ids {
                Ids::Every => Some(id.clone()),
                Ids::First | Ids::EmptyLater if at == 0 => Some(id.clone()),
                Ids::EmptyLater => Some(String::new()),
                Ids::First | Ids::Never => None,
            };
            (
                style.first_index.map(|first| first + position as u64),
                id,
                name,
                text,
            )
        })
        .collect()
}

/// Cuts `text` into non-empty pieces.
fn cut(text: &str, cuts: &[Index]) -> Vec<String> {
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
    ends.retain(|end| text.is_char_boundary(*end));
    ends.extend([0, text.len()]);
    ends.sort_unstable();
    ends.dedup();
    ends.windows(2)
        .map(|ends| text[ends[0]..ends[1]].to_owned())
        .collect()
}

/// Interleaves the lists: the first piece of each list, then pieces according to `order`, then the
/// rest.
fn interleave(mut lists: Vec<Vec<OwnedPiece>>, order: &[Index]) -> Vec<OwnedPiece> {
    let mut pieces: Vec<OwnedPiece> = lists.iter_mut().map(|list| list.remove(0)).collect();
    for turn in order {
        let list = turn.index(lists.len());
        if !lists[list].is_empty() {
            pieces.push(lists[list].remove(0));
        }
    }
    pieces.extend(lists.into_iter().flatten());
    pieces
}

fn well_formed_calls() -> impl Strategy<Value = Vec<(String, Value, Vec<Index>)>> {
    let name = prop::sample::select(vec!["fs__read", "web__search", "shell__exec"])
        .prop_map(str::to_owned);
    let value = prop_oneof![
        any::<i32>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        Just(Value::Null)
    ];
    let arguments =
        prop::collection::btree_map("[a-z{}\"]{1,3}", value, 1..4).prop_map(|map| json!(map));
    prop::collection::vec(
        (name, arguments, prop::collection::vec(any::<Index>(), 0..6)),
        1..4,
    )
}

proptest! {
    #[test]
    fn assembled_calls_do_not_depend_on_how_pieces_are_split(
        style in styles(),
        calls in well_formed_calls(),
        order in prop::collection::vec(any::<Index>(), 0..12),
    ) {
        let expected: Vec<_> = calls.iter().enumerate().map(|(at, (name, arguments, _))| {
            let id = if style.ids == Ids::Never { String::new() } else { format!("id{at}") };
            (id, name.clone(), arguments.clone())
        }).collect();
        let lists: Vec<_> = calls.iter().zip(&expected).enumerate()
            .map(|(at, ((_, _, cuts), call))| pieces_of(&style, at, call, cuts))
            .collect();
        let pieces = if style.interleaved { interleave(lists, &order) } else { lists.concat() };
        let mut assembler = CallAssembler::default();
        for (index, id, name, arguments) in &pieces {
            assembler.add(CallPiece {
                index: *index,
                id: id.as_deref(),
                name: name.as_deref(),
                arguments: arguments.as_deref(),
            });
        }
        prop_assert_eq!(calls_of(&assembler), expected, "{:?}", pieces);
    }

    #[test]
    fn arbitrary_pieces_keep_all_argument_bytes(
        pieces in prop::collection::vec((prop::option::of(0u64..3), "[ab]{0,2}", "[fg]{0,2}", "[{}\\[\\]\":a1, ]{0,6}"), 0..12),
    ) {
        let mut assembler = CallAssembler::default();
        for (index, id, name, arguments) in &pieces {
            assembler.add(CallPiece { index: *index, id: Some(id), name: Some(name), arguments: Some(arguments) });
        }
        let arguments: usize = assembler.calls.iter().map(|call| call.arguments.len()).sum();
        prop_assert_eq!(arguments, pieces.iter().map(|piece| piece.3.len()).sum::<usize>());
        calls_of(&assembler);
    }
}
