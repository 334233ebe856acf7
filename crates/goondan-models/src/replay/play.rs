//! Plays a cassette back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;
use goondan_core::ports::model::{ModelClient, ModelError, ModelRequest, ModelStream};
use goondan_core::reserved_names::ANSWER_TOOL;
use goondan_spec::kinds::Model;
use goondan_spec::{Environment, Resource, ResourceId};

use super::cassette;
use super::compare::{IgnoredParts, differences};
use super::entry::{CassetteEntry, RecordedPiece, RecordedRequest, digest};
use super::mask::CassetteMask;
use crate::errors::configuration;

/// The cassettes that are being played, by Model: one that a reload leaves alone goes on where it was.
#[derive(Debug, Default)]
pub(crate) struct CassettePlayers {
    playing: Mutex<BTreeMap<ResourceId, Arc<CassettePlayer>>>,
}

impl CassettePlayers {
    /// A client for `model`, whose provider is `replay`.
    pub(crate) fn client(
        &self,
        model: &Resource<Model>,
        root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let path = model.spec.options.cassette.as_deref().ok_or_else(|| {
            configuration(
                format!("{} has no cassette", model.id),
                "write `options: {cassette: FILE}`, and record the file with `gdn run --record \
                FILE`",
            )
        })?;
        let entries = cassette::read(root, path)?;
        let ignored = IgnoredParts::of(model);
        let mut playing = self.playing.lock().unwrap_or_else(PoisonError::into_inner);
        let player = match playing.get(&model.id) {
            Some(known) if known.entries == entries && known.ignored == ignored => {
                Arc::clone(known)
            }
            _ => {
                let used = Mutex::new(vec![false; entries.len()]);
                let fresh = Arc::new(CassettePlayer {
                    path: path.to_owned(),
                    entries,
                    ignored,
                    used,
                });
                playing.insert(model.id.clone(), Arc::clone(&fresh));
                fresh
            }
        };
        Ok(Arc::new(ReplayClient {
            player,
            mask: CassetteMask::of(model, environment),
        }))
    }
}

struct ReplayClient {
    player: Arc<CassettePlayer>,
    mask: CassetteMask,
}

/// A cassette and how far it is.
#[derive(Debug)]
struct CassettePlayer {
    path: String,
    entries: Vec<CassetteEntry>,
    ignored: IgnoredParts,
    used: Mutex<Vec<bool>>,
}

#[async_trait]
impl ModelClient for ReplayClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let asked = RecordedRequest::of(&request);
        let digest = digest(&asked, &request);
        let entry = self
            .player
            .next(&request.instance.agent, &self.masked(asked)?, &digest)?;
        if let [RecordedPiece::Error(error)] = entry.answer.as_slice() {
            return Err(error.clone());
        }
        Ok(futures::stream::iter(RecordedPiece::chunks(&entry.answer)).boxed())
    }

    /// As it was recorded: where the answer was a call, the schema was the tool's.
    fn is_schema_sent(&self) -> bool {
        !self
            .player
            .entries
            .iter()
            .any(|entry| entry.request.tools.iter().any(|tool| tool == ANSWER_TOOL))
    }
}

impl ReplayClient {
    /// `asked` as it would have been written down.
    fn masked(&self, asked: RecordedRequest) -> Result<RecordedRequest, ModelError> {
        let masked = serde_json::to_value(asked)
            .map(|asked| self.mask.apply(asked))
            .and_then(serde_json::from_value);
        masked.map_err(|error| {
            configuration(
                format!("the request cannot be compared: {error}"),
                "record the cassette again",
            )
        })
    }
}

impl CassettePlayer {
    /// The next entry of `agent`. Instances of an agent run side by side, so where the next one is for another
    /// request, a later one that fits is taken instead.
    fn next(
        &self,
        agent: &str,
        asked: &RecordedRequest,
        digest: &str,
    ) -> Result<&CassetteEntry, ModelError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let of_agent = || {
            self.entries
                .iter()
                .enumerate()
                .filter(|(_, entry)| entry.agent == agent)
        };
        let mut left = of_agent().filter(|(at, _)| !used[*at]);
        let Some(first) = left.next() else {
            return Err(self.at_its_end(agent, of_agent().count()));
        };
        let fitting = std::iter::once(first)
            .chain(left)
            .find(|(_, entry)| self.differs(entry, asked, digest).is_empty());
        match fitting {
            Some((at, entry)) => {
                used[at] = true;
                Ok(entry)
            }
            None => Err(self.mismatch(agent, first.0, &self.differs(first.1, asked, digest))),
        }
    }

    fn differs(&self, entry: &CassetteEntry, asked: &RecordedRequest, digest: &str) -> Vec<String> {
        let mut found = differences(&entry.request, asked, &self.ignored);
        let exact = self.ignored.is_empty() && !self.was_masked(entry);
        if found.is_empty() && exact && entry.digest != digest {
            found.push("the descriptions or schemas of the tools differ".to_owned());
        }
        found
    }

    /// Whether something in the entry was masked: then its digest, of the whole request, says nothing.
    fn was_masked(&self, entry: &CassetteEntry) -> bool {
        serde_json::to_string(&entry.request).is_ok_and(|text| text.contains("***"))
    }

    fn at_its_end(&self, agent: &str, recorded: usize) -> ModelError {
        configuration(
            format!(
                "the cassette {} has no answer left for agent {agent} ({recorded} were recorded)",
                self.path
            ),
            "record the cassette again with `gdn run --record FILE`",
        )
    }

    fn mismatch(&self, agent: &str, at: usize, differences: &[String]) -> ModelError {
        configuration(
            format!(
                "the request of agent {agent} differs from the cassette ({}, entry {}): {}",
                self.path,
                at + 1,
                differences.join("; ")
            ),
            "record the cassette again with `gdn run --record FILE`, or ignore the difference with \
            options.ignore (system, messages, tools, params)",
        )
    }
}
