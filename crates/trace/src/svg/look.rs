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
pub(super) struct Head<'a> {
    pub title: &'a str,
    pub subtitle: &'a str,
    /// Where both begin.
    pub left: f64,
    /// Rules of this drawing alone.
    pub css: String,
}

impl Look {
    /// The root element, style sheet, paper, title and subtitle.
    pub(super) fn open(
        &self,
        (width, height): (f64, f64),
        head: Head<'_>,
        out: &mut impl Write,
    ) -> io::Result<()> {
        let (width, height, left) = (Px(width), Px(height), Px(head.left));
        let title = Escaped(self.title.as_deref().unwrap_or(head.title));
        let font = self.font.as_deref().map(theme::font).unwrap_or_default();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
             role=\"img\">\n<title>{title}</title>\n<style>{}{}{font}</style>\n\
             <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
             <text class=\"title\" x=\"{left}\" y=\"28\">{title}</text><text class=\"quiet\" x=\"{left}\" y=\"48\">{}</text>",
            theme::style(self.theme),
            head.css,
            Escaped(head.subtitle)
        )
    }
}
