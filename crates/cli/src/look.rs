//! `--theme`, `--font` and `--title`: the options of every command that draws.

use castell_trace::{Look, Theme};

/// How a drawing looks. The options that name a drawing's file are in the group `drawn`.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LookArgs {
    /// Colours of the drawing
    #[arg(long, value_enum, default_value_t = Colours::Auto, requires = "drawn")]
    theme: Colours,
    /// Font of the drawing; without it the reader's own
    #[arg(long, value_name = "FAMILY", requires = "drawn")]
    font: Option<String>,
    /// Title of the drawing
    #[arg(long, value_name = "TEXT", requires = "drawn")]
    title: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Colours {
    /// As the reader's system prefers
    #[default]
    Auto,
    /// Dark on white
    Light,
    /// Light on black
    Dark,
}

impl LookArgs {
    /// As drawings take it.
    pub fn look(&self) -> Look {
        let theme = match self.theme {
            Colours::Auto => Theme::Auto,
            Colours::Light => Theme::Light,
            Colours::Dark => Theme::Dark,
        };
        Look { theme, font: self.font.clone(), title: self.title.clone() }
    }
}
