//! Replays a cassette.

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
use super::state_paths::without_workspace_paths;
use crate::errors::configuration;

/// The cassettes in use, by Model. After a reload, an unchanged cassette continues at its position.
#[derive(Debug, Default)]
pub(crate) struct CassettePlayers {
    playing: Mutex<BTreeMap<ResourceId, Arc<CassettePlayer>>>,
}

impl CassettePlayers {
    /// Returns a client for `model`, whose provider is `replay`.
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
            Some(player) if player.entries == entries && player.ignored == ignored => {
                Arc::clone(player)
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

    /// Returns whether the recorded requests had an output schema. Otherwise the answer was
    /// recorded as a call of the answer tool.
    fn is_schema_sent(&self) -> bool {
        !self
            .player
            .entries
            .iter()
            .any(|entry| entry.request.tools.iter().any(|tool| tool == ANSWER_TOOL))
    }
}

impl ReplayClient {
    /// Returns `asked` with the masks of a recording applied.
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
    /// Returns the next unused entry of `agent` and marks it as used. Instances of an agent run
    /// concurrently, so if the next entry is for another request, a later entry that fits is used.
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
        let mut unused = of_agent().filter(|(at, _)| !used[*at]);
        let Some(first) = unused.next() else {
            return Err(self.at_its_end(agent, of_agent().count()));
        };
        let fitting = std::iter::once(first)
            .chain(unused)
            .find(|(_, entry)| self.differences_from(entry, asked, digest).is_empty());
        match fitting {
            Some((at, entry)) => {
                used[at] = true;
                Ok(entry)
            }
            None => {
                let differences = self.differences_from(first.1, asked, digest);
                Err(self.mismatch(agent, first.0, &differences))
            }
        }
    }

    /// Returns a sentence per difference between the request `asked`, whose digest is `digest`, and
    /// the recorded request.
    fn differences_from(
        &self,
        entry: &CassetteEntry,
        asked: &RecordedRequest,
        digest: &str,
    ) -> Vec<String> {
        let mut found = differences(&entry.request, asked, &self.ignored);
        let is_elsewhere = !found.is_empty();
        if is_elsewhere {
            // Results name files below the state root, which may be another one now.
            found = differences(
                &without_workspace_paths(&entry.request),
                &without_workspace_paths(asked),
                &self.ignored,
            );
        }
        let is_digest_comparable =
            self.ignored.is_empty() && !is_elsewhere && !self.was_masked(entry);
        // The digest also covers the tools' descriptions and schemas, which the entry omits.
        if found.is_empty() && is_digest_comparable && entry.digest != digest {
            found.push("the descriptions or schemas of the tools differ".to_owned());
        }
        found
    }

    /// Returns whether the entry contains a mask. If so, the digest, which was computed from the
    /// unmasked request, cannot be compared.
    fn was_masked(&self, entry: &CassetteEntry) -> bool {
        serde_json::to_string(&entry.request).is_ok_and(|text| text.contains("***"))
    }

    /// Returns the error of a request after the last of the `recorded` answers.
    fn at_its_end(&self, agent: &str, recorded: usize) -> ModelError {
        configuration(
            format!(
                "the cassette {} has no answer left for agent {agent} ({recorded} were recorded)",
                self.path
            ),
            "record the cassette again with `gdn run --record FILE`",
        )
    }

    /// Returns the error of a request that differs from the entry `at`.
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
