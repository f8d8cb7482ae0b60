//! Random bytes for readers of what comes from outside, where no fuzzer runs. Tests of several crates include this file.

use castell_base::Rank;
use castell_base::random::Philox;
use rand_core::RngCore;

/// Gives 20,000 strings of bytes, the same each time; in half of them small numbers, which make sense more often, stand at every third place.
pub fn try_many(read: impl Fn(&[u8])) {
    for seed in 0..20_000 {
        let mut random = Philox::new(seed, Rank(0), 1, 0);
        let mut bytes = vec![0; (random.next_u32() % 600) as usize];
        random.fill_bytes(&mut bytes);
        if seed % 2 == 0 {
            bytes.iter_mut().step_by(3).for_each(|byte| *byte %= 16);
        }
        read(&bytes);
    }
}
