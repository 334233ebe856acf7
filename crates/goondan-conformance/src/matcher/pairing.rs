//! Pairing of expected items with different actual ones, in any order.

/// Pairs as many expected items as possible with different actual items (maximum bipartite
/// matching). Returns the index of the actual item for each expected item; `None` without a
/// partner.
///
/// `matches(expected, actual)` returns true if two items may be paired.
pub(super) fn maximum_matching(
    expected_count: usize,
    actual_count: usize,
    matches: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let candidates: Vec<Vec<usize>> = (0..expected_count)
        .map(|expected| {
            (0..actual_count)
                .filter(|&actual| matches(expected, actual))
                .collect()
        })
        .collect();
    let mut expected_of_actual = vec![None; actual_count];
    for expected in 0..expected_count {
        let mut visited = vec![false; actual_count];
        try_pair(expected, &candidates, &mut expected_of_actual, &mut visited);
    }
    let mut actual_of_expected = vec![None; expected_count];
    for (actual, expected) in expected_of_actual.into_iter().enumerate() {
        if let Some(expected) = expected {
            actual_of_expected[expected] = Some(actual);
        }
    }
    actual_of_expected
}

/// Pairs `expected` with one of its candidates. If all are taken, moves other expected items to
/// another candidate (augmenting path). Returns true if this succeeded.
///
/// `visited` contains the actual items that this search has already tried.
fn try_pair(
    expected: usize,
    candidates: &[Vec<usize>],
    expected_of_actual: &mut [Option<usize>],
    visited: &mut [bool],
) -> bool {
    for &actual in &candidates[expected] {
        if visited[actual] {
            continue;
        }
        visited[actual] = true;
        let is_free = match expected_of_actual[actual] {
            None => true,
            Some(other) => try_pair(other, candidates, expected_of_actual, visited),
        };
        if is_free {
            expected_of_actual[actual] = Some(expected);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_maximum_matching_revises_a_greedy_choice() {
        // 0 fits both, 1 fits only the first.
        let fits = |l: usize, r: usize| l == 0 || r == 0;
        assert_eq!(maximum_matching(2, 2, fits), [Some(1), Some(0)]);
    }

    proptest! {
        #[test]
        fn a_permutation_is_always_found(order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()) {
            let partners = maximum_matching(8, 8, |l, r| order[l] == r);
            prop_assert_eq!(partners, order.into_iter().map(Some).collect::<Vec<_>>());
        }

        #[test]
        fn matched_partners_fit_and_are_distinct(grid in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 6)) {
            let partners = maximum_matching(6, 5, |l, r| grid[l][r]);
            let mut taken: Vec<usize> = partners.iter().flatten().copied().collect();
            prop_assert!(partners.iter().enumerate().all(|(l, r)| r.is_none_or(|r| grid[l][r])));
            let count = taken.len();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), count);
        }
    }
}
