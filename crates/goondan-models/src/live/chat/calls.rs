//! Tool calls of one answer, put together from their pieces.

use serde::de::IgnoredAny;
use serde_json::Value;

use super::super::ids::{self, GivenIds};
use super::chunk::CallPiece;
use super::transcript::Transcript;

/// The calls of an answer that is still coming.
#[derive(Default)]
pub(crate) struct Calls {
    pieces: Vec<Pieces>,
    /// Bytes of names and arguments so far.
    bytes: usize,
}

/// A call whose arguments are still text.
#[derive(Debug, Default)]
struct Pieces {
    id: String,
    name: String,
    arguments: String,
}

/// A whole call.
#[derive(Debug, PartialEq)]
pub(crate) struct WholeCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

impl Calls {
    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes the next piece. One that names no function belongs to nothing.
    pub(crate) fn take(&mut self, piece: CallPiece) {
        let Some(function) = piece.function else {
            return;
        };
        let id = piece.id.unwrap_or_else(|| {
            piece
                .index
                .map_or_else(String::new, |index| format!("call_{index}"))
        });
        let (name, arguments) = (
            function.name.unwrap_or_default(),
            function.arguments.unwrap_or_default(),
        );
        self.bytes += name.len() + arguments.len();
        let at = self.place(&id, name);
        self.pieces[at].arguments.push_str(&arguments);
    }

    /// Which call a piece belongs to. A piece with a name begins one, unless it repeats the name of a call that is not
    /// complete yet. Pieces without a name carry an id, or `call_INDEX` for want of one.
    fn place(&mut self, id: &str, name: String) -> usize {
        let same = self
            .pieces
            .iter()
            .rposition(|call| !id.is_empty() && call.id == id);
        let last = self.pieces.len().checked_sub(1);
        let index = || {
            id.strip_prefix("call_")?
                .parse()
                .ok()
                .filter(|index| *index < self.pieces.len())
        };
        match (name.is_empty(), same) {
            (false, Some(at)) if !self.pieces[at].is_complete() => at,
            (true, Some(at)) => at,
            (true, None) if last.is_some() => index().or(last).expect("there is a last call"),
            _ => {
                self.pieces.push(Pieces {
                    id: id.to_owned(),
                    name,
                    arguments: String::new(),
                });
                self.pieces.len() - 1
            }
        }
    }

    /// All calls, now that the answer is complete, with ids that `transcript` does not have.
    pub(crate) fn finish(&mut self, transcript: &Transcript) -> Vec<WholeCall> {
        let mut ids = GivenIds::new(|id| transcript.has_call(id), transcript.call_count());
        let whole = |call: Pieces| WholeCall {
            id: ids.give(call.id),
            name: call.name,
            arguments: ids::arguments(Value::String(call.arguments)),
        };
        std::mem::take(&mut self.pieces)
            .into_iter()
            .map(whole)
            .collect()
    }
}

impl Pieces {
    fn is_complete(&self) -> bool {
        serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;
    use crate::live::chat::chunk::FunctionPiece;

    fn piece() -> impl Strategy<Value = CallPiece> {
        let id = prop::option::of(prop_oneof!["call_[0-9]{1,12}", "[ab]?"]);
        let arguments = prop_oneof![Just("{}"), Just("{\"a\":"), Just("1}"), Just("")];
        let index = prop::option::of(0u32..4);
        (id, index, "[xy]?", arguments).prop_map(|(id, index, name, arguments)| CallPiece {
            index,
            id,
            function: Some(FunctionPiece {
                name: Some(name),
                arguments: Some(arguments.to_owned()),
            }),
        })
    }

    proptest! {
        #[test]
        fn any_pieces_make_calls_with_ids_of_their_own_and_lose_no_byte(pieces in prop::collection::vec(piece(), 0..20)) {
            let mut calls = Calls::default();
            let arguments = |piece: &CallPiece| piece.function.as_ref().and_then(|it| it.arguments.clone()).unwrap_or_default();
            let sent: usize = pieces.iter().map(|piece| arguments(piece).len()).sum();
            pieces.into_iter().for_each(|piece| calls.take(piece));
            prop_assert_eq!(calls.pieces.iter().map(|call| call.arguments.len()).sum::<usize>(), sent);
            let whole = calls.finish(&Transcript::default());
            let ids: HashSet<_> = whole.iter().map(|call| call.id.as_str()).collect();
            prop_assert!(ids.len() == whole.len() && !ids.contains(""));
        }
    }
}
