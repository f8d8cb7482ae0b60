//! Meshes, tori and hypercubes: ranks are linked to ranks.

use super::Routes;

/// A mesh, or a torus with links around. Rank r is at (r mod d₀, r / d₀ mod d₁, …).
///
/// Links: for each rank and dimension, one to the next rank in it and one to the rank before. (At the ends of a mesh they
/// lead back to where they started, and nothing goes over them.)
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub dims: Vec<u32>,
    pub around: bool,
}

impl Grid {
    fn link(&self, rank: u32, dimension: usize, backwards: bool) -> u32 {
        (rank * self.dims.len() as u32 + dimension as u32) * 2 + u32::from(backwards)
    }

    /// The neighbour in a dimension whose ranks are `stride` apart.
    fn neighbour(&self, rank: u32, size: u32, stride: u32, backwards: bool) -> u32 {
        let at = rank / stride % size;
        let next = match (backwards, at) {
            (false, at) if at + 1 < size => at + 1,
            (false, _) if self.around => 0,
            (true, at) if at > 0 => at - 1,
            (true, _) if self.around => size - 1,
            _ => at,
        };
        rank - at * stride + next * stride
    }
}

impl Routes for Grid {
    fn ranks(&self) -> u32 {
        self.dims.iter().product()
    }

    fn links(&self) -> u64 {
        u64::from(self.ranks()) * self.dims.len() as u64 * 2
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let (rank, rest) = (link / (2 * self.dims.len() as u32), link % (2 * self.dims.len() as u32));
        let (dimension, backwards) = ((rest / 2) as usize, rest % 2 == 1);
        let stride = self.dims[..dimension].iter().product();
        (rank, self.neighbour(rank, self.dims[dimension], stride, backwards))
    }

    /// Dimension by dimension, the shorter way around; upwards if both are as long.
    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let (mut rank, mut stride) = (from, 1);
        for (dimension, &size) in self.dims.iter().enumerate() {
            let (at, target) = (rank / stride % size, to / stride % size);
            let upwards = if target >= at { target - at } else { target + size - at };
            let backwards = if self.around { upwards > size / 2 } else { target < at };
            let hops = match (backwards, self.around) {
                (false, _) => upwards,
                (true, true) => size - upwards,
                (true, false) => at - target,
            };
            for _ in 0..hops {
                links.push(self.link(rank, dimension, backwards));
                rank = self.neighbour(rank, size, stride, backwards);
            }
            stride *= size;
        }
    }
}

/// Ranks whose numbers differ in one bit are linked. Links: for each rank one for each bit.
#[derive(Clone, Debug)]
pub(super) struct Hypercube {
    pub dims: u32,
}

impl Routes for Hypercube {
    fn ranks(&self) -> u32 {
        1 << self.dims
    }

    fn links(&self) -> u64 {
        u64::from(self.ranks()) * u64::from(self.dims)
    }

    fn ends(&self, link: u32) -> (u32, u32) {
        let (rank, bit) = (link / self.dims, link % self.dims);
        (rank, rank ^ 1 << bit)
    }

    /// The lowest bit that differs first.
    fn route(&self, from: u32, to: u32, links: &mut Vec<u32>) {
        let mut rank = from;
        for bit in (0..self.dims).filter(|bit| (from ^ to) >> bit & 1 == 1) {
            links.push(rank * self.dims + bit);
            rank ^= 1 << bit;
        }
    }
}
