//! Whether what is printed has colours.

use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicU8, Ordering};

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum When {
    /// On terminals, unless NO_COLOR is set or TERM is dumb
    Auto,
    /// Also into files and pipes
    Always,
    /// Nowhere
    Never,
}

/// Set once, before anything is printed.
static WHEN: AtomicU8 = AtomicU8::new(0);

/// The choice among a command line's words, which clap has to know before it reads them: help and its errors have colours, too.
pub fn asked(words: impl Iterator<Item = String>) -> When {
    use clap::ValueEnum as _;
    let mut words = words.take_while(|word| word != "--");
    let mut asked = When::Auto;
    while let Some(word) = words.next() {
        let value = match word.strip_prefix("--color") {
            Some("") => words.next(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        };
        if let Some(value) = value {
            asked = When::from_str(&value, false).unwrap_or(asked);
        }
    }
    asked
}

/// From now on.
pub fn choose(when: When) {
    WHEN.store(when as u8, Ordering::Relaxed);
}

impl When {
    /// For clap's own texts.
    pub fn for_clap(self) -> clap::ColorChoice {
        match self {
            When::Auto => clap::ColorChoice::Auto,
            When::Always => clap::ColorChoice::Always,
            When::Never => clap::ColorChoice::Never,
        }
    }

    fn applies(self, is_terminal: bool, variable: impl Fn(&str) -> Option<String>) -> bool {
        match self {
            When::Always => true,
            When::Never => false,
            When::Auto => {
                let no_color = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
                is_terminal && !no_color && variable("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// Where something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    has_colours: bool,
}

impl Stream {
    /// One without colours.
    #[cfg(test)]
    pub const PLAIN: Stream = Stream { has_colours: false };

    /// The standard output.
    pub fn output() -> Stream {
        Stream::new(std::io::stdout().is_terminal())
    }

    /// The standard error.
    pub fn error() -> Stream {
        Stream::new(std::io::stderr().is_terminal())
    }

    fn new(is_terminal: bool) -> Stream {
        let when = match WHEN.load(Ordering::Relaxed) {
            0 => When::Auto,
            1 => When::Always,
            _ => When::Never,
        };
        Stream { has_colours: when.applies(is_terminal, |name| std::env::var(name).ok()) }
    }

    /// Whether it has colours.
    pub fn has_colours(self) -> bool {
        self.has_colours
    }

    /// What is wrong.
    pub fn red(self, text: &str) -> String {
        self.dyed("1;31", text)
    }

    /// What may be wrong.
    pub fn yellow(self, text: &str) -> String {
        self.dyed("1;33", text)
    }

    /// What stands beside.
    pub fn dim(self, text: &str) -> String {
        self.dyed("34", text)
    }

    fn dyed(self, code: &str, text: &str) -> String {
        if self.has_colours { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_found_before_the_program_that_is_started() {
        let of = |words: &str| asked(words.split(' ').map(str::to_owned));
        assert_eq!(of("castell goal check x.goal"), When::Auto);
        assert_eq!(of("castell --color never goal"), When::Never);
        assert_eq!(of("castell goal --color=always"), When::Always);
        assert_eq!(of("castell launch -n 2 -- ls --color=never"), When::Auto);
        assert_eq!(of("castell --color"), When::Auto);
        assert_eq!(of("castell --color=mauve"), When::Auto);
    }

    #[test]
    fn terminals_have_colours_unless_somebody_objects() {
        let with = |when: When, terminal, set: &[(&str, &str)]| {
            when.applies(terminal, |name| {
                set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(with(When::Auto, true, &[]) && !with(When::Auto, false, &[]));
        assert!(!with(When::Auto, true, &[("NO_COLOR", "1")]) && with(When::Auto, true, &[("NO_COLOR", "")]));
        assert!(!with(When::Auto, true, &[("TERM", "dumb")]));
        assert!(with(When::Always, false, &[("NO_COLOR", "1")]) && !with(When::Never, true, &[]));
    }
}
