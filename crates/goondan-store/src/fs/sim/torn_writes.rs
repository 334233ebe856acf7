//! Simulates the loss of unsynced data in a power failure.

use super::SimFileContents;

/// Returns the contents of a file after a power failure.
pub(super) fn contents_after_power_loss(
    contents: &SimFileContents,
    random: Option<&mut SeededRandom>,
) -> Vec<u8> {
    let Some(random) = random else {
        return contents.on_disk.clone();
    };
    match random.number_below(4) {
        0 => contents.now.clone(),
        1 if contents.now.starts_with(&contents.on_disk) => {
            let unsynced = contents.now.len() - contents.on_disk.len();
            contents.now[..contents.on_disk.len() + random.number_below(unsynced + 1)].to_vec()
        }
        2 if contents.now.len() > contents.on_disk.len()
            && contents.now.starts_with(&contents.on_disk) =>
        {
            // The file had grown, but its new blocks were not written.
            let mut bytes = contents.on_disk.clone();
            bytes.resize(contents.now.len(), 0);
            bytes
        }
        _ => contents.on_disk.clone(),
    }
}

/// A small pseudo-random generator that is deterministic for a seed.
pub(super) struct SeededRandom(pub(super) u64);

impl SeededRandom {
    /// Returns a pseudorandom number below `end`.
    pub(super) fn number_below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }
}
