//! The middles of equally likely parts of a normal distribution.

/// Middles of eleven parts, each as likely as the others, of the normal distribution with mean 0 and standard deviation 1.
pub(crate) const ELEVENTHS: [f64; 11] = [
    -1.690_621_6,
    -1.096_803_6,
    -0.747_858_6,
    -0.472_789_1,
    -0.229_884_1,
    0.0,
    0.229_884_1,
    0.472_789_1,
    0.747_858_6,
    1.096_803_6,
    1.690_621_6,
];
