//! Programs with the flows of the seed's nineteen (Haritatos et al., COSH 2016, table 2).

use super::Program;
use super::mixture::{Flows, mixture};
use crate::machine::Chip;

/// Name, GB/s from memory, CR of the shared cache and of L2 (the printed columns exchanged, which is how they agree with the printed classes),
/// and what is ours: the requests that its four cores can have under way (a list 1 a core, strides 4, what hardware prefetches 10), and MB that
/// it uses again in the shared cache, by the size of its arrays where the seed's sources tell it.
const PROGRAMS: [(&str, f64, f64, f64, usize, f64); 19] = [
    ("jacobi_l", 10.321, 1.02, 1.50, 40, 0.5),
    ("stream", 11.646, 1.03, 1.00, 40, 0.5),
    ("bt", 8.566, 1.36, 0.97, 40, 1.0),
    ("fw", 7.468, 1.16, 1.02, 40, 0.5),
    ("dynprog", 8.220, 1.54, 0.98, 40, 1.0),
    ("mvt_1000", 0.006, 565.29, 4.21, 16, 8.0),
    ("mvt_6000", 2.274, 8.31, 0.92, 16, 0.4),
    ("atax", 2.426, 8.61, 0.82, 16, 0.4),
    ("cg", 5.955, 4.38, 1.37, 16, 0.6),
    ("syr2k", 5.883, 2.00, 2.07, 40, 4.0),
    ("gemver", 2.873, 7.23, 0.82, 16, 0.4),
    ("cholesky", 0.156, 195.56, 0.85, 40, 8.0),
    ("pchase", 0.135, 222.01, 1.00, 4, 8.0),
    ("lu_t", 0.009, 178.91, 8.67, 40, 8.0),
    ("jacobi_s", 0.534, 35.17, 1.15, 40, 4.0),
    ("fw_t", 0.063, 34.45, 9.92, 40, 8.0),
    ("ep", 0.000, 2644.41, 0.97, 40, 0.5),
    ("mm_t", 0.030, 5.68, 17.82, 40, 6.0),
    ("blackscholes", 0.186, 5.63, 0.65, 40, 1.0),
];

/// Megabytes of the seed's shared cache.
const LLC_MB: f64 = 16.0;

/// The nineteen, on a chip.
pub fn programs(chip: &Chip) -> Vec<Program> {
    let program = |(name, gb_s, llc_reuse, l2_reuse, window, llc_mb)| {
        let into_llc = gb_s * 1e9;
        mixture(name, &Flows { into_llc, llc_reuse, l2_reuse, window, llc_part: llc_mb / LLC_MB }, chip)
    };
    PROGRAMS.into_iter().map(program).collect()
}
