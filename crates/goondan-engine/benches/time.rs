//! How long the inner pieces take: `cargo bench -p goondan-engine --bench time`.

mod pieces;

use criterion::{Criterion, criterion_group, criterion_main};

fn pieces(criterion: &mut Criterion) {
    for piece in pieces::PIECES {
        let mut once = (piece.prepare)();
        criterion.bench_function(piece.name, |bencher| bencher.iter(&mut once));
    }
}

criterion_group!(benches, pieces);
criterion_main!(benches);
