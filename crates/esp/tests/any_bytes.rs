//! Any bytes may come as frames; the fuzz target `esp` tries many more.

#[path = "../../../fuzz/src/esp.rs"]
mod esp;

use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;

#[test]
fn any_bytes_may_come() {
    for seed in 0..20_000 {
        let mut random = Philox::new(seed, Rank(0), 1, 0);
        let mut bytes = vec![0; (random.next_u32() % 600) as usize];
        random.fill_bytes(&mut bytes);
        // Most of what makes sense is small, or a flag.
        if seed % 2 == 0 {
            bytes.iter_mut().step_by(3).for_each(|byte| *byte %= 16);
        }
        esp::any_bytes(&bytes);
    }
}
