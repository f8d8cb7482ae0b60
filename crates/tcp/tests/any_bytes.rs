//! Any bytes may come over a connection; the fuzz target `tcp` tries many more.

#[path = "../../../fuzz/src/tcp.rs"]
mod tcp;

use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;

#[test]
fn any_bytes_may_come() {
    for seed in 0..20_000 {
        let mut random = Philox::new(seed, Rank(0), 1, 0);
        let mut bytes = vec![0; (random.next_u32() % 600) as usize];
        random.fill_bytes(&mut bytes);
        // Most of what makes sense is small.
        if seed % 2 == 0 {
            bytes.iter_mut().step_by(3).for_each(|byte| *byte %= 16);
        }
        tcp::any_bytes(&bytes);
    }
}
