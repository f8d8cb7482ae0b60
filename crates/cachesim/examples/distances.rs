//! What an access costs: nanoseconds of a processor's time an access, over traces of 2^10 to 2^24 blocks.
//!
//! `cargo run --release -p castell-cachesim --example distances`; with a number, what so many accesses to 2^12 blocks cost, and a
//! tenth, a hundredth and a thousandth of them: `... --example distances -- 10000000000`; with a second one, to 2^that blocks

use castell_cachesim::StackDistances;

/// What this thread has had of a processor. Nanoseconds.
fn processor_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
}

fn main() {
    let number = |at| std::env::args().nth(at).and_then(|word| word.parse::<u64>().ok());
    if let Some(accesses) = number(1) {
        return grow(accesses, 1 << number(2).unwrap_or(12));
    }
    println!("blocks      stream   random  (ns an access)  bytes a block");
    for power in (10..=24).step_by(2) {
        let blocks = 1u64 << power;
        let accesses = 20_000_000u64;
        let measure = |next: &dyn Fn(u64) -> u64| {
            let mut distances = StackDistances::new();
            let start = processor_ns();
            let mut sum = 0u64;
            distances.access_all((0..accesses).map(next), |_, distance| sum += distance.unwrap_or(0));
            std::hint::black_box(sum);
            ((processor_ns() - start) as f64 / accesses as f64, distances.bytes() as f64 / blocks as f64)
        };
        let (stream, _) = measure(&|at| at % blocks);
        let (random, bytes) = measure(&|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % blocks);
        println!("2^{power:<6} {stream:8.1} {random:8.1} {bytes:30.1}");
    }
}

/// The cost of an access must not depend on how many there were.
fn grow(accesses: u64, blocks: u64) {
    let mut distances = StackDistances::new();
    let (mut sum, mut at) = (0u64, 0u64);
    println!("accesses        ns an access  bytes a block");
    for part in [accesses / 1000, accesses / 100, accesses / 10, accesses] {
        let (from, before) = (at, processor_ns());
        let next = |at: u64| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % blocks;
        distances
            .access_all((at..part).map(next), |_, distance| sum = sum.wrapping_add(distance.unwrap_or(0)));
        at = part;
        let ns = (processor_ns() - before) as f64 / (at - from).max(1) as f64;
        println!("{part:<14} {ns:13.2} {:14.1}", distances.bytes() as f64 / blocks as f64);
    }
    std::hint::black_box(sum);
}
