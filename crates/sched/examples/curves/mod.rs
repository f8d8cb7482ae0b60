//! The schedulers that the thesis' figures compare, in virtual time and measured.

/// How a curve is called, its scheduler, and whether records come from the slab allocator.
pub type Curve = (&'static str, &'static str, bool);

/// All of them.
pub const CURVES: [Curve; 13] = [
    ("original", "central:priority", false),
    ("original, LIFO", "central:lifo", false),
    ("original, no successor", "central:priority,successor=off", false),
    ("original, neither", "central:priority,successor=off,slots=off", false),
    ("static 20, FIFO", "tree:fifo,threshold=20,rebalance=off,successor=off,pull=off", false),
    ("static 20, LIFO", "tree:lifo,threshold=20,rebalance=off,successor=off,pull=off", false),
    ("dynamic, FIFO", "tree:fifo,rebalance=off,successor=off,pull=off", false),
    ("dynamic, LIFO", "tree:lifo,rebalance=off,successor=off,pull=off", false),
    ("balanced, FIFO", "tree:fifo,successor=off,pull=off", false),
    ("balanced, LIFO", "tree:lifo,successor=off,pull=off", false),
    ("original, allocator", "central:priority", true),
    ("balanced, LIFO, allocator", "tree:lifo,successor=off,pull=off", true),
    ("ours", "tree", true),
];

/// The thesis' profiles: figure, benchmark, curve; each of the smallest block.
pub const PROFILES: [(&str, &str, &str); 6] = [
    ("3.2", "multiaxpy-noop", "original"),
    ("3.4", "cholesky", "original"),
    ("4.7", "multiaxpy-noop", "balanced, LIFO"),
    ("4.9", "cholesky", "balanced, LIFO"),
    ("6.2", "multiaxpy-noop", "balanced, LIFO, allocator"),
    ("6.4", "cholesky", "balanced, LIFO, allocator"),
];
