//! Parallel map over slices that keeps the order.

use std::num::NonZero;
use std::thread;

/// Number of items up to which all work runs on the current thread.
const MIN_CHUNK_ITEMS: usize = 32;

/// Applies `work` to every file on as many threads as cores. The current thread does its share, or
/// all of a single file. An extra thread is expensive, because it also gets its own allocator
/// arena.
pub(crate) fn map_files<'i, T: Sync, R: Send>(
    files: &'i [T],
    work: impl Fn(&'i T) -> R + Sync,
) -> Vec<R> {
    run(files, chunk_size(files.len()), &work)
}

/// Applies a function to all items in parallel like [`map_files`], but uses only the current thread
/// for few items.
pub(crate) fn map<'i, T: Sync, R: Send>(
    items: &'i [T],
    work: impl Fn(&'i T) -> R + Sync,
) -> Vec<R> {
    let share = if items.len() <= MIN_CHUNK_ITEMS {
        items.len()
    } else {
        chunk_size(items.len())
    };
    run(items, share, &work)
}

/// Returns the number of items per core.
fn chunk_size(count: usize) -> usize {
    // Counting the cores requires reading several files.
    let cores = if count < 2 {
        1
    } else {
        thread::available_parallelism().map_or(1, NonZero::get)
    };
    count.div_ceil(cores)
}

/// Processes the first `share` items on the current thread and each further part on a new one.
fn run<'i, T: Sync, R: Send>(
    items: &'i [T],
    share: usize,
    work: &(impl Fn(&'i T) -> R + Sync),
) -> Vec<R> {
    let (own_share, elsewhere) = items.split_at(share.min(items.len()));
    thread::scope(|scope| {
        let mut started = Vec::new();
        for part in elsewhere.chunks(share.max(1)) {
            let job = move || part.iter().map(work).collect::<Vec<R>>();
            started.push((part, thread::Builder::new().spawn_scoped(scope, job)));
        }
        let finish = |(part, thread): (
            &'i [T],
            std::io::Result<thread::ScopedJoinHandle<'_, Vec<R>>>,
        )| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // If no thread can be started, the current one does the work.
            Err(_) => part.iter().map(work).collect(),
        };
        let mut done: Vec<R> = own_share.iter().map(work).collect();
        done.extend(started.into_iter().flat_map(finish));
        done
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
