//! Work over many items on all cores, in order.

use std::num::NonZero;
use std::thread;

/// Below this many items a chunk is not worth a thread of its own.
const MIN_CHUNK: usize = 32;

/// `work` done to every file, on as many threads as there are cores. The results keep the order of the files. This thread does
/// its share, or all of a single file: a thread costs more than its stack, it allocates from memory of its own.
pub(crate) fn map_files<'i, T: Sync, R: Send>(
    files: &'i [T],
    work: impl Fn(&'i T) -> R + Sync,
) -> Vec<R> {
    run(files, share(files.len()), &work)
}

/// As [`map_files`], but on this thread alone where there are few items.
pub(crate) fn map<'i, T: Sync, R: Send>(
    items: &'i [T],
    work: impl Fn(&'i T) -> R + Sync,
) -> Vec<R> {
    let share = if items.len() <= MIN_CHUNK {
        items.len()
    } else {
        share(items.len())
    };
    run(items, share, &work)
}

/// How many of `count` items are for each core.
fn share(count: usize) -> usize {
    // Counting the cores means reading several files.
    let cores = if count < 2 {
        1
    } else {
        thread::available_parallelism().map_or(1, NonZero::get)
    };
    count.div_ceil(cores)
}

/// The first `share` of the items is done on this thread, each further one on a thread of its own.
fn run<'i, T: Sync, R: Send>(
    items: &'i [T],
    share: usize,
    work: &(impl Fn(&'i T) -> R + Sync),
) -> Vec<R> {
    let (here, elsewhere) = items.split_at(share.min(items.len()));
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
            // The system has no thread to spare, so this one does the work.
            Err(_) => part.iter().map(work).collect(),
        };
        let mut done: Vec<R> = here.iter().map(work).collect();
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
