//! A fast hash for what nobody else chooses.

use std::hash::Hasher;

/// For maps by numbers that follow each other, and by addresses: these need little mixing.
#[derive(Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // The lowest bits of addresses are all zero, and a product leaves them so.
        self.0 = mixed ^ mixed >> 32;
    }
}
