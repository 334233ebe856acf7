//! Work over many items on all cores, in order.

use std::num::NonZero;
use std::thread;

/// Below this many items a chunk is not worth a thread of its own.
const MIN_CHUNK: usize = 32;

/// `work` done to every file, on as many threads as there are cores. The results keep the order of the files. A single
/// one is read on this thread: a thread costs more than its stack, it allocates from memory of its own.
pub(crate) fn map_files<'i, T: Sync, R: Send>(files: &'i [T], work: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    if files.len() < 2 {
        return files.iter().map(work).collect();
    }
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    run(files, files.len().div_ceil(cores), &work)
}

/// As [`map_files`], but on this thread where there are few items.
pub(crate) fn map<'i, T: Sync, R: Send>(items: &'i [T], work: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    if items.len() <= MIN_CHUNK {
        return items.iter().map(work).collect();
    }
    map_files(items, work)
}

fn run<'i, T: Sync, R: Send>(items: &'i [T], chunk: usize, work: &(impl Fn(&'i T) -> R + Sync)) -> Vec<R> {
    thread::scope(|scope| {
        let mut started = Vec::new();
        for part in items.chunks(chunk) {
            let job = move || part.iter().map(work).collect::<Vec<R>>();
            started.push((part, thread::Builder::new().spawn_scoped(scope, job)));
        }
        let finish = |(part, thread): (&'i [T], std::io::Result<thread::ScopedJoinHandle<'_, Vec<R>>>)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // The system has no thread to spare, so this one does the work.
            Err(_) => part.iter().map(work).collect(),
        };
        started.into_iter().flat_map(finish).collect()
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_keep_their_order() {
        let items: Vec<usize> = (0..1000).collect();
        let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
        assert_eq!(super::map(&items, |item| item * 2), doubled);
        assert_eq!(super::map_files(&items[..3], |item| item * 2), doubled[..3]);
        assert!(super::map::<usize, usize>(&[], |item| *item).is_empty());
    }
}
