//! Regions of memory: ranges of bytes, and strided sets of them.

use std::fmt;

/// A range of bytes `start … start + length - 1`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Region {
    start: usize,
    length: usize,
}

impl Region {
    /// The region of `length` bytes from address `start`; `None` if it is empty or passes the end of the address space.
    #[inline]
    pub const fn new(start: usize, length: usize) -> Option<Region> {
        if length == 0 || start.checked_add(length).is_none() {
            return None;
        }
        Some(Region { start, length })
    }

    /// The bytes from `start` up to but not including `end`; `None` if there are none.
    #[inline]
    pub const fn between(start: usize, end: usize) -> Option<Region> {
        if start < end { Some(Region { start, length: end - start }) } else { None }
    }

    /// The address of the first byte.
    #[inline]
    pub const fn start(self) -> usize {
        self.start
    }

    /// The number of bytes, at least one.
    #[inline]
    pub const fn length(self) -> usize {
        self.length
    }

    /// The address behind the last byte.
    #[inline]
    pub const fn end(self) -> usize {
        self.start + self.length
    }

    /// Whether the two share a byte.
    #[inline]
    pub const fn overlaps(self, other: Region) -> bool {
        self.start < other.end() && other.start < self.end()
    }

    /// Whether every byte of `other` is in this region.
    #[inline]
    pub const fn covers(self, other: Region) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    /// The bytes in both, if any.
    #[inline]
    pub fn intersection(self, other: Region) -> Option<Region> {
        Region::between(self.start.max(other.start), self.end().min(other.end()))
    }

    /// What lies before and behind `hole` in this region.
    #[inline]
    pub fn without(self, hole: Region) -> (Option<Region>, Option<Region>) {
        let before = Region::between(self.start, self.end().min(hole.start));
        let behind = Region::between(self.start.max(hole.end()), self.end());
        (before, behind)
    }
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{:#x}, {:#x})", self.start, self.end())
    }
}

/// Rows of equal length at equal distances, such as a block of a matrix: row `i` starts at `start + i * stride`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strided {
    /// The first row.
    pub first: Region,
    /// Bytes from the start of a row to the start of the next.
    pub stride: usize,
    /// The number of rows, at least one.
    pub rows: usize,
}

impl Strided {
    /// `rows` rows of `length` bytes, `stride` bytes apart; `None` if there is no byte, if rows overlap, or if the last row
    /// passes the end of the address space.
    #[inline]
    pub fn new(start: usize, length: usize, stride: usize, rows: usize) -> Option<Strided> {
        let first = Region::new(start, length)?;
        if rows == 0 || (rows > 1 && stride < length) {
            return None;
        }
        Region::new(start.checked_add(stride.checked_mul(rows - 1)?)?, length)?;
        Some(Strided { first, stride, rows })
    }

    /// The rows as contiguous regions in ascending order; rows that touch come as one region.
    pub fn regions(self) -> impl Iterator<Item = Region> {
        let dense = self.stride == self.first.length || self.rows == 1;
        let (count, length) =
            if dense { (1, self.first.length * self.rows) } else { (self.rows, self.first.length) };
        (0..count).map(move |row| Region { start: self.first.start + row * self.stride, length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: usize, end: usize) -> Region {
        Region::between(start, end).expect("not empty")
    }

    #[test]
    fn empty_and_wrapping_regions_do_not_exist() {
        assert_eq!(Region::new(5, 0), None);
        assert_eq!(Region::new(usize::MAX, 2), None);
        assert_eq!(Strided::new(0, 4, 3, 2), None);
        assert_eq!(Strided::new(0, 4, usize::MAX, 3), None);
    }

    #[test]
    fn pieces_of_a_region() {
        let whole = region(10, 20);
        assert_eq!(whole.without(region(12, 15)), (Some(region(10, 12)), Some(region(15, 20))));
        assert_eq!(whole.without(region(0, 15)), (None, Some(region(15, 20))));
        assert_eq!(whole.without(whole), (None, None));
        assert_eq!(whole.intersection(region(20, 30)), None);
        assert!(whole.covers(region(10, 20)) && !whole.covers(region(9, 11)));
        assert_eq!(whole.to_string(), "[0xa, 0x14)");
    }

    #[test]
    fn dense_rows_are_one_region() {
        let dense: Vec<_> = Strided::new(100, 8, 8, 4).expect("valid").regions().collect();
        assert_eq!(dense, [region(100, 132)]);
        let sparse: Vec<_> = Strided::new(100, 8, 20, 3).expect("valid").regions().collect();
        assert_eq!(sparse, [region(100, 108), region(120, 128), region(140, 148)]);
    }
}
