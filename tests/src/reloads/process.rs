//! What the system knows of this process. Everything is 0 where it does not tell.

/// Figures at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Figures {
    /// Resident memory in KiB.
    pub(super) resident: usize,
    /// The part of it that is mapped from copies of libraries, in KiB.
    pub(super) in_libraries: usize,
    /// Mappings of copies of libraries.
    pub(super) library_mappings: usize,
    /// All mappings.
    pub(super) mappings: usize,
    /// Open file descriptors.
    pub(super) descriptors: usize,
    /// Threads.
    pub(super) threads: usize,
}

impl Figures {
    /// As they are now. Copies of libraries are files with `copies` in their path.
    pub(super) fn now(copies: &str) -> Self {
        let mut figures = Figures {
            descriptors: count("/proc/self/fd"),
            threads: count("/proc/self/task"),
            ..Figures::default()
        };
        let mut of_library = false;
        for line in std::fs::read_to_string("/proc/self/smaps")
            .unwrap_or_default()
            .lines()
        {
            let first = line.split_whitespace().next().unwrap_or_default();
            if !first.ends_with(':') {
                of_library = line.contains(copies);
                figures.mappings += 1;
                figures.library_mappings += usize::from(of_library);
            } else if first == "Rss:" {
                let size: usize = line
                    .split_whitespace()
                    .nth(1)
                    .and_then(|size| size.parse().ok())
                    .unwrap_or(0);
                figures.resident += size;
                figures.in_libraries += if of_library { size } else { 0 };
            }
        }
        figures
    }
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).map_or(0, |entries| entries.count())
}
