//! Pairing of expected items with different actual ones, in any order.

/// Returns the index of each item's partner in `right`, for a maximum matching (augmenting paths).
pub(super) fn pair(
    left: usize,
    right: usize,
    fits: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let edges: Vec<Vec<usize>> = (0..left)
        .map(|l| (0..right).filter(|&r| fits(l, r)).collect())
        .collect();
    let mut owner = vec![None; right];
    for start in 0..left {
        let mut seen = vec![false; right];
        claim(start, &edges, &mut owner, &mut seen);
    }
    let mut partner = vec![None; left];
    for (r, l) in owner.into_iter().enumerate() {
        if let Some(l) = l {
            partner[l] = Some(r);
        }
    }
    partner
}

/// Finds a partner for `l`, and moves other items to a new partner if that helps. `seen` bounds the
/// depth.
fn claim(l: usize, edges: &[Vec<usize>], owner: &mut [Option<usize>], seen: &mut [bool]) -> bool {
    for &r in &edges[l] {
        if std::mem::replace(&mut seen[r], true) {
            continue;
        }
        let free = match owner[r] {
            None => true,
            Some(other) => claim(other, edges, owner, seen),
        };
        if free {
            owner[r] = Some(l);
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
    fn a_greedy_choice_is_revised() {
        // 0 fits both, 1 fits only the first.
        let fits = |l: usize, r: usize| l == 0 || r == 0;
        assert_eq!(pair(2, 2, fits), [Some(1), Some(0)]);
    }

    proptest! {
        #[test]
        fn a_permutation_is_always_found(order in Just((0..8usize).collect::<Vec<_>>()).prop_shuffle()) {
            let partners = pair(8, 8, |l, r| order[l] == r);
            prop_assert_eq!(partners, order.into_iter().map(Some).collect::<Vec<_>>());
        }

        #[test]
        fn partners_fit_and_differ(grid in prop::collection::vec(prop::collection::vec(any::<bool>(), 5), 6)) {
            let partners = pair(6, 5, |l, r| grid[l][r]);
            let mut taken: Vec<usize> = partners.iter().flatten().copied().collect();
            prop_assert!(partners.iter().enumerate().all(|(l, r)| r.is_none_or(|r| grid[l][r])));
            let count = taken.len();
            taken.sort_unstable();
            taken.dedup();
            prop_assert_eq!(taken.len(), count);
        }
    }
}
