//! Work over many items on all cores, in order.

use std::num::NonZero;
use std::thread;

/// A YAML document may nest deeply enough to need more than a thread's usual stack, above all in a debug build. Only
/// what is touched is paid for.
pub(crate) const STACK_SIZE: usize = 16 * 1024 * 1024;
/// Below this many items a chunk is not worth a thread of its own.
const MIN_CHUNK: usize = 32;

/// `work` done to every item, on threads with a deep stack. The results keep the order of the items.
pub(crate) fn map_deep<'i, T: Sync, R: Send>(items: &'i [T], work: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    run(&[], items, share(items.len()), &work)
}

/// As [`map_deep`], but with no deeper stack than this thread has: it does its share, or all where there are few items.
pub(crate) fn map<'i, T: Sync, R: Send>(items: &'i [T], work: impl Fn(&'i T) -> R + Sync) -> Vec<R> {
    let share = if items.len() <= MIN_CHUNK { items.len() } else { share(items.len()) };
    let (here, elsewhere) = items.split_at(share.min(items.len()));
    run(here, elsewhere, share, &work)
}

/// How many of `count` items are for each core.
fn share(count: usize) -> usize {
    // Counting the cores means reading several files.
    let cores = if count < 2 { 1 } else { thread::available_parallelism().map_or(1, NonZero::get) };
    count.div_ceil(cores).max(1)
}

/// `here` is done on this thread, of `elsewhere` each `chunk` on one of its own.
fn run<'i, T: Sync, R: Send>(
    here: &'i [T],
    elsewhere: &'i [T],
    chunk: usize,
    work: &(impl Fn(&'i T) -> R + Sync),
) -> Vec<R> {
    thread::scope(|scope| {
        let mut started = Vec::new();
        for part in elsewhere.chunks(chunk.max(1)) {
            let job = move || part.iter().map(work).collect::<Vec<R>>();
            started.push((part, thread::Builder::new().stack_size(STACK_SIZE).spawn_scoped(scope, job)));
        }
        let finish = |(part, thread): (&'i [T], std::io::Result<thread::ScopedJoinHandle<'_, Vec<R>>>)| match thread {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
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
        assert_eq!(super::map_deep(&items[..3], |item| item * 2), doubled[..3]);
        assert!(super::map::<usize, usize>(&[], |item| *item).is_empty());
    }
}
