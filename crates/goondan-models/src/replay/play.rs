//! Answers model calls from the recorded calls of a cassette.

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
use crate::errors::configuration_error;

/// The cassettes in use, by Model. After a reload, an unchanged cassette continues at its position.
#[derive(Debug, Default)]
pub(crate) struct CassettePlayers {
    players: Mutex<BTreeMap<ResourceId, Arc<CassettePlayer>>>,
}

impl CassettePlayers {
    /// Returns a client for `model`, which has the provider `replay`. A client that is created
    /// after a reload continues at the position of an unchanged cassette.
    ///
    /// # Errors
    /// Fails if the model names no cassette, or if the cassette cannot be read.
    pub(crate) fn client(
        &self,
        model: &Resource<Model>,
        root: &Path,
        environment: &Environment,
    ) -> Result<Arc<dyn ModelClient>, ModelError> {
        let path = model.spec.options.cassette.as_deref().ok_or_else(|| {
            configuration_error(
                format!("{} has no cassette", model.id),
                "write `options: {cassette: FILE}`, and record the file with `gdn run --record \
                FILE`",
            )
        })?;
        let entries = cassette::read(root, path)?;
        let ignored = IgnoredParts::from_model(model);
        Ok(Arc::new(ReplayClient {
            player: self.player(&model.id, path, entries, ignored),
            mask: CassetteMask::for_model(model, environment),
        }))
    }

    /// Returns the player of the Model `id`. Creates a player if the cassette or the ignored parts
    /// have changed.
    fn player(
        &self,
        id: &ResourceId,
        path: &str,
        entries: Vec<CassetteEntry>,
        ignored: IgnoredParts,
    ) -> Arc<CassettePlayer> {
        let mut players = self.players.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(player) = players.get(id)
            && player.entries == entries
            && player.ignored == ignored
        {
            return Arc::clone(player);
        }
        let player = Arc::new(CassettePlayer {
            path: path.to_owned(),
            used: Mutex::new(vec![false; entries.len()]),
            entries,
            ignored,
        });
        players.insert(id.clone(), Arc::clone(&player));
        player
    }
}

struct ReplayClient {
    player: Arc<CassettePlayer>,
    mask: CassetteMask,
}

/// A cassette with the position of its playback.
#[derive(Debug)]
struct CassettePlayer {
    path: String,
    entries: Vec<CassetteEntry>,
    ignored: IgnoredParts,
    /// By the index of an entry, true if it was already replayed.
    used: Mutex<Vec<bool>>,
}

#[async_trait]
impl ModelClient for ReplayClient {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let requested = RecordedRequest::of(&request);
        let digest = digest(&requested, &request);
        let entry = self.player.next(
            &request.instance.agent,
            &self.mask_request(requested)?,
            &digest,
        )?;
        if let [RecordedPiece::Error(error)] = entry.answer.as_slice() {
            return Err(error.clone());
        }
        Ok(futures::stream::iter(RecordedPiece::answer_chunks(&entry.answer)).boxed())
    }

    /// Returns true if the recorded requests had an output schema. Without one, they had the answer
    /// tool.
    fn is_schema_sent(&self) -> bool {
        let has_answer_tool =
            |entry: &CassetteEntry| entry.request.tools.iter().any(|tool| tool == ANSWER_TOOL);
        !self.player.entries.iter().any(has_answer_tool)
    }
}

impl ReplayClient {
    /// Returns `requested` with the masks of a recording applied.
    fn mask_request(&self, requested: RecordedRequest) -> Result<RecordedRequest, ModelError> {
        let masked = serde_json::to_value(requested)
            .map(|requested| self.mask.apply(requested))
            .and_then(serde_json::from_value);
        masked.map_err(|error| {
            configuration_error(
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
        requested: &RecordedRequest,
        digest: &str,
    ) -> Result<&CassetteEntry, ModelError> {
        let mut used_entries = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut entry_count = 0;
        let mut first_mismatch = None;
        for (index, entry) in self.entries.iter().enumerate() {
            if entry.agent != agent {
                continue;
            }
            entry_count += 1;
            if used_entries[index] {
                continue;
            }
            let differences = self.differences_from(entry, requested, digest);
            if differences.is_empty() {
                used_entries[index] = true;
                return Ok(entry);
            }
            first_mismatch.get_or_insert((index, differences));
        }
        match first_mismatch {
            Some((index, differences)) => Err(self.mismatch_error(agent, index, &differences)),
            None => Err(self.end_of_cassette_error(agent, entry_count)),
        }
    }

    /// Returns a sentence per difference between the request `requested`, whose digest is `digest`,
    /// and the recorded request.
    fn differences_from(
        &self,
        entry: &CassetteEntry,
        requested: &RecordedRequest,
        digest: &str,
    ) -> Vec<String> {
        let mut found = differences(&entry.request, requested, &self.ignored);
        let is_elsewhere = !found.is_empty();
        if is_elsewhere {
            // Results name files below the state root, which may be another one now.
            found = differences(
                &without_workspace_paths(&entry.request),
                &without_workspace_paths(requested),
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

    /// Returns true if the entry contains a mask. If so, the digest, which was computed from the
    /// unmasked request, cannot be compared.
    fn was_masked(&self, entry: &CassetteEntry) -> bool {
        serde_json::to_string(&entry.request).is_ok_and(|text| text.contains("***"))
    }

    /// Returns the error of a request after the last of the `recorded` answers.
    fn end_of_cassette_error(&self, agent: &str, recorded: usize) -> ModelError {
        configuration_error(
            format!(
                "the cassette {} has no answer left for agent {agent} ({recorded} were recorded)",
                self.path
            ),
            "record the cassette again with `gdn run --record FILE`",
        )
    }

    /// Returns the error of a request that differs from the entry `at`.
    fn mismatch_error(&self, agent: &str, at: usize, differences: &[String]) -> ModelError {
        configuration_error(
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
