//! The blocks touched last, in the order of their last accesses: most accesses go to one of them.

/// How many there are at most.
pub(crate) const FRONT: usize = 16;

/// Up to [`FRONT`] blocks, and where a table has each.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    blocks: [u64; FRONT],
    places: [u32; FRONT],
    /// Which of them are blocks, a bit each.
    filled: u32,
    /// Their numbers, four bits each, that of the block touched last in the lowest.
    order: u64,
}

/// In every four bits the lowest one, and the highest one.
const LOWEST: u64 = 0x1111_1111_1111_1111;
const HIGHEST: u64 = 0x8888_8888_8888_8888;

impl Front {
    pub(crate) fn new() -> Front {
        Front { blocks: [0; FRONT], places: [0; FRONT], filled: 0, order: 0xfedc_ba98_7654_3210 }
    }

    /// How many of these blocks were touched since the last access to `block`, which is touched now; `None`: it is not among them.
    #[inline(always)]
    pub(crate) fn touch(&mut self, block: u64) -> Option<u64> {
        // Loops over a few vectors come back to one of the last.
        for bit in [4, 8, 12] {
            let number = self.order >> bit & 0xf;
            if self.blocks[number as usize] == block && self.filled >> number & 1 == 1 {
                return Some(self.raise(number, bit));
            }
        }
        let mut same = 0u32;
        for (number, own) in self.blocks.iter().enumerate() {
            same |= u32::from(*own == block) << number;
        }
        same &= self.filled;
        if same == 0 {
            return None;
        }
        let number = u64::from(same.trailing_zeros());
        // Where its number stands: the lowest four bits that are equal to it.
        let other = self.order ^ (LOWEST * number);
        let bit = (other.wrapping_sub(LOWEST) & !other & HIGHEST).trailing_zeros() & !3;
        Some(self.raise(number, bit))
    }

    /// The block whose number stands at this bit becomes the last touched; returns before how many it stood.
    #[inline(always)]
    fn raise(&mut self, number: u64, bit: u32) -> u64 {
        let before = self.order & !(u64::MAX << bit);
        let behind = self.order & !(0xf << bit) & (u64::MAX << bit);
        self.order = behind | before << 4 | number;
        u64::from(bit / 4)
    }

    /// Touches a block that is not among them. Returns the place of the one that leaves, which was touched before all others.
    #[inline(always)]
    pub(crate) fn push(&mut self, block: u64, place: u32) -> Option<u32> {
        let number = (self.order >> 60) as usize;
        let leaves = (self.filled >> number & 1 == 1).then_some(self.places[number]);
        (self.blocks[number], self.places[number]) = (block, place);
        self.filled |= 1 << number;
        self.order = self.order << 4 | number as u64;
        leaves
    }

    /// The table has moved: asks for all places again.
    pub(crate) fn move_to(&mut self, place: impl Fn(u64) -> u32) {
        for number in (0..FRONT).filter(|number| self.filled >> number & 1 == 1) {
            self.places[number] = place(self.blocks[number]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_a_stack_of_sixteen() {
        let (mut front, mut stack) = (Front::new(), Vec::<u64>::new());
        let mut state = 7u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let block = (state >> 40) % 20;
            let at = stack.iter().position(|own| *own == block);
            assert_eq!(front.touch(block), at.map(|at| at as u64), "{block} of {stack:?}");
            if let Some(at) = at {
                stack.remove(at);
            } else {
                let leaves = front.push(block, block as u32 + 100);
                let last = if stack.len() == FRONT { stack.pop() } else { None };
                assert_eq!(leaves, last.map(|block| block as u32 + 100));
            }
            stack.insert(0, block);
        }
        front.move_to(|block| block as u32 + 200);
        assert_eq!(front.push(99, 0), stack.last().map(|block| *block as u32 + 200));
    }
}
