//! Sizes from the command line.

/// The number that is the program's argument `at`, counted from 1, or `usual` if there are not so many; at least 1.
pub fn argument(at: usize, usual: usize) -> usize {
    let number = |text: String| {
        text.parse().ok().filter(|&number| number > 0).unwrap_or_else(|| {
            eprintln!("`{text}`: a number above 0 is expected, as {usual}");
            std::process::exit(2);
        })
    };
    std::env::args().nth(at).map_or(usual, number)
}
