//! Assembly of an answer from the events of any format.

use std::collections::VecDeque;

use goondan_core::message::{MessagePart, ProviderMetadata, ToolCall};
use goondan_core::ports::model::{CompletedAnswer, ModelChunk, ModelFinishReason, TokenUsage};
use serde_json::Value;

use crate::errors::ProviderError;
use crate::formats::call_ids::CallIds;
use crate::formats::tool_calls::{CallAssembler, CallPiece, parse_arguments};

/// Key of a content block within an answer. Formats without blocks use one key for each kind of
/// content.
pub(crate) type BlockKey = u64;

/// An answer while its events arrive.
pub(crate) struct AnswerBuilder {
    family: String,
    blocks: Vec<(BlockKey, AnswerBlock)>,
    calls: CallAssembler,
    ready: VecDeque<ModelChunk>,
    usage: Option<TokenUsage>,
    ending: Option<AnswerEnding>,
    refusal: String,
    bytes: usize,
}

/// A content block, in the order in which the provider sent it.
#[derive(Debug)]
enum AnswerBlock {
    Text {
        text: String,
        metadata: Option<Value>,
    },
    Reasoning {
        text: String,
        metadata: Option<Value>,
    },
    Opaque(Value),
    /// Position in the [`CallAssembler`].
    Call {
        at: usize,
        metadata: Option<Value>,
    },
}

/// The end of an answer as the provider announced it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerEnding {
    /// The answer counts, although it may be cut off.
    Finished(ModelFinishReason),
    /// The model or a filter refused, for the provider's reason and in its words.
    Declined { reason: String, explanation: String },
    /// The provider gave up, like a connection that breaks.
    Failed { reason: String, explanation: String },
}

impl AnswerBuilder {
    /// Returns an empty answer. Opaque data is kept for providers of `family`.
    pub(crate) fn new(family: &str) -> Self {
        AnswerBuilder {
            family: family.to_owned(),
            blocks: Vec::new(),
            calls: CallAssembler::default(),
            ready: VecDeque::new(),
            usage: None,
            ending: None,
            refusal: String::new(),
            bytes: 0,
        }
    }

    /// Appends to the text block `key`.
    pub(crate) fn add_text(&mut self, key: BlockKey, delta: &str) {
        if delta.is_empty() {
            return;
        }
        self.bytes += delta.len();
        match self.find_block(key, |block| matches!(block, AnswerBlock::Text { .. })) {
            Some(AnswerBlock::Text { text, .. }) => text.push_str(delta),
            _ => self.blocks.push((
                key,
                AnswerBlock::Text {
                    text: delta.to_owned(),
                    metadata: None,
                },
            )),
        }
        self.ready.push_back(ModelChunk::Text(delta.to_owned()));
    }

    /// Appends to the reasoning block `key`, which an empty `delta` only opens.
    pub(crate) fn add_reasoning(&mut self, key: BlockKey, delta: &str) {
        self.bytes += delta.len();
        match self.find_block(key, |block| matches!(block, AnswerBlock::Reasoning { .. })) {
            Some(AnswerBlock::Reasoning { text, .. }) => text.push_str(delta),
            _ => self.blocks.push((
                key,
                AnswerBlock::Reasoning {
                    text: delta.to_owned(),
                    metadata: None,
                },
            )),
        }
        if !delta.is_empty() {
            self.ready
                .push_back(ModelChunk::Reasoning(delta.to_owned()));
        }
    }

    /// Adds a block that only the provider understands.
    pub(crate) fn add_opaque(&mut self, key: BlockKey, block: Value) {
        self.bytes += block.to_string().len();
        self.blocks.push((key, AnswerBlock::Opaque(block)));
    }

    /// Adds a piece of a tool call. The call is placed among the blocks where its first piece
    /// arrived. Returns the call's number among the answer's calls, or `None` for a piece without
    /// content that belongs to no call.
    pub(crate) fn add_call_piece(&mut self, piece: CallPiece<'_>) -> Option<usize> {
        self.bytes += piece.arguments.map_or(0, str::len) + piece.name.map_or(0, str::len);
        let call_index = self.calls.add(piece)?;
        let is_known = |block: &AnswerBlock| matches!(block, AnswerBlock::Call { at: known, .. } if *known == call_index);
        if !self.blocks.iter().any(|(_, block)| is_known(block)) {
            self.blocks.push((
                BlockKey::MAX,
                AnswerBlock::Call {
                    at: call_index,
                    metadata: None,
                },
            ));
        }
        Some(call_index)
    }

    /// Lets `change` edit the opaque data of the text or reasoning block `key`.
    pub(crate) fn change_metadata(&mut self, key: BlockKey, change: impl FnOnce(&mut Value)) {
        if let Some(AnswerBlock::Text { metadata, .. } | AnswerBlock::Reasoning { metadata, .. }) =
            self.find_block(key, |block| {
                matches!(
                    block,
                    AnswerBlock::Text { .. } | AnswerBlock::Reasoning { .. }
                )
            })
        {
            change(metadata.get_or_insert(Value::Null));
        }
    }

    /// Lets `change` edit the opaque data of the call at `position`, which
    /// [`AnswerBuilder::add_call_piece`] returned.
    pub(crate) fn change_call_metadata(
        &mut self,
        position: usize,
        change: impl FnOnce(&mut Value),
    ) {
        let call = self
            .blocks
            .iter_mut()
            .rev()
            .find_map(|(_, block)| match block {
                AnswerBlock::Call { at, metadata } if *at == position => Some(metadata),
                _ => None,
            });
        if let Some(metadata) = call {
            change(metadata.get_or_insert(Value::Null));
        }
    }

    /// Sorts the content by `rank`, for providers that report its order only at the end. `rank`
    /// receives the key of a block, and for a call its position, which
    /// [`AnswerBuilder::add_call_piece`] returned.
    pub(crate) fn sort_blocks<R: Ord>(&mut self, rank: impl Fn(BlockKey, Option<usize>) -> R) {
        self.blocks.sort_by_key(|(key, block)| match block {
            AnswerBlock::Call { at, .. } => rank(*key, Some(*at)),
            _ => rank(*key, None),
        });
    }

    /// Appends to the words with which the model refuses.
    pub(crate) fn add_refusal(&mut self, delta: &str) {
        self.bytes += delta.len();
        self.refusal.push_str(delta);
    }

    /// Sets the token counts. Later counts replace earlier ones.
    pub(crate) fn set_usage(&mut self, usage: TokenUsage) {
        self.usage = Some(usage);
    }

    /// Records that the provider announced the end. The first announcement counts.
    pub(crate) fn end(&mut self, ending: AnswerEnding) {
        self.ending.get_or_insert(ending);
    }

    /// Returns true if the provider announced the end.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending.is_some()
    }

    /// Returns true if the answer has no content yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty() && self.refusal.is_empty()
    }

    /// Returns the text of the block `key` so far.
    pub(crate) fn text_of(&self, key: BlockKey) -> &str {
        let text = self
            .blocks
            .iter()
            .rev()
            .find_map(|(known, block)| match block {
                AnswerBlock::Text { text, .. } if *known == key => Some(text.as_str()),
                _ => None,
            });
        text.unwrap_or_default()
    }

    /// Returns the bytes of text, reasoning and arguments so far.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the next piece to show.
    pub(crate) fn next_chunk(&mut self) -> Option<ModelChunk> {
        self.ready.pop_front()
    }

    /// Returns the complete answer. `ids` makes call ids that are unique in the conversation.
    ///
    /// # Errors
    /// The model declined, or the provider gave up.
    pub(crate) fn complete(self, ids: &mut CallIds<'_>) -> Result<CompletedAnswer, ProviderError> {
        let finish_reason = match self.ending {
            Some(AnswerEnding::Declined {
                reason,
                explanation,
            }) => {
                let explanation = if explanation.is_empty() {
                    self.refusal
                } else {
                    explanation
                };
                return Err(ProviderError::Declined {
                    reason,
                    explanation,
                });
            }
            Some(AnswerEnding::Failed {
                reason,
                explanation,
            }) => {
                return Err(ProviderError::Failed {
                    reason,
                    explanation,
                });
            }
            _ if !self.refusal.is_empty() => {
                return Err(ProviderError::Declined {
                    reason: "refusal".to_owned(),
                    explanation: self.refusal,
                });
            }
            Some(AnswerEnding::Finished(reason)) => reason,
            None => ModelFinishReason::Stop,
        };
        let (family, calls) = (self.family, self.calls);
        let metadata = |value: Option<Value>| -> ProviderMetadata {
            value
                .into_iter()
                .map(|value| (family.clone(), value))
                .collect()
        };
        let part = |(_, block): (BlockKey, AnswerBlock)| match block {
            AnswerBlock::Text {
                text,
                metadata: data,
            } => Some(MessagePart::Text {
                text,
                provider_metadata: metadata(data),
            }),
            AnswerBlock::Reasoning {
                text,
                metadata: None,
            } if text.is_empty() => None,
            AnswerBlock::Reasoning {
                text,
                metadata: data,
            } => Some(MessagePart::Reasoning {
                text,
                provider_metadata: metadata(data),
            }),
            AnswerBlock::Opaque(block) => Some(MessagePart::Opaque {
                provider_metadata: metadata(Some(block)),
            }),
            AnswerBlock::Call { at, metadata: data } => {
                let call = calls.get(at)?;
                Some(MessagePart::ToolCall(ToolCall {
                    tool_call_id: ids.unique_id(&call.id),
                    tool_name: call.name.clone(),
                    input: parse_arguments(&call.arguments),
                    provider_metadata: metadata(data),
                }))
            }
        };
        let parts: Vec<MessagePart> = self.blocks.into_iter().filter_map(part).collect();
        let has_calls = parts
            .iter()
            .any(|part| matches!(part, MessagePart::ToolCall(_)));
        let finish_reason = match finish_reason {
            ModelFinishReason::Stop if has_calls => ModelFinishReason::ToolCalls,
            other => other,
        };
        Ok(CompletedAnswer {
            parts,
            finish_reason,
            usage: self.usage,
        })
    }

    /// Returns the newest block with this key that `is_wanted` accepts.
    fn find_block(
        &mut self,
        key: BlockKey,
        is_wanted: impl Fn(&AnswerBlock) -> bool,
    ) -> Option<&mut AnswerBlock> {
        let found = self
            .blocks
            .iter_mut()
            .rev()
            .find(|(known, block)| *known == key && is_wanted(block));
        found.map(|(_, block)| block)
    }
}
