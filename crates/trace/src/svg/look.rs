//! What all drawings but timelines have in common: colours, font, paper and what stands at the top.

use super::theme::{self, Theme};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// How a drawing looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Colours.
    pub theme: Theme,
    /// Font family that is asked for first; before that of the system where there is none.
    pub font: Option<String>,
    /// A title instead of the drawing's own.
    pub title: Option<String>,
}

impl From<Theme> for Look {
    fn from(theme: Theme) -> Look {
        Look { theme, ..Look::default() }
    }
}

/// What stands at the top.
#[derive(Clone, Debug, Default)]
pub struct Head<'a> {
    /// What is shown.
    pub title: &'a str,
    /// Where it comes from.
    pub subtitle: &'a str,
    /// Where both begin, in pixels.
    pub left: f64,
    /// Rules of this drawing alone.
    pub css: String,
}

impl Look {
    /// Begins a drawing of so many pixels: the root element, style sheet, paper, title and subtitle, down to 56 pixels. What follows may be of the
    /// classes `quiet`, `tiny`, `middle`, `end` (text), `stripe`, `node` (areas), `grid`, `base`, `axis`, `arrow` (lines) and others;
    /// `</svg>` ends it.
    ///
    /// # Errors
    /// Whatever the writer says.
    pub fn open(&self, size: (f64, f64), head: Head<'_>, out: &mut impl Write) -> io::Result<()> {
        let title = self.title.as_deref().unwrap_or(head.title);
        self.begin(size, title, &head.css, out)?;
        let left = Px(head.left);
        writeln!(
            out,
            "<text class=\"title\" x=\"{left}\" y=\"28\">{}</text><text class=\"quiet\" x=\"{left}\" y=\"48\">{}</text>",
            Escaped(title),
            Escaped(head.subtitle)
        )
    }

    /// The same without title and subtitle on the paper.
    pub(super) fn begin(
        &self,
        (width, height): (f64, f64),
        title: &str,
        css: &str,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (width, height) = (Px(width), Px(height));
        let font = self.font.as_deref().map(theme::font).unwrap_or_default();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\">\n<title>{}</title>\n<style>{}{css}{font}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>",
            Escaped(title),
            theme::style(self.theme)
        )
    }
}
