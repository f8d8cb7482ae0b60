//! Colours. The activities' are from a palette that stays distinct under the usual kinds of colour blindness (Okabe and
//! Ito, "Color Universal Design", 2008), lightened on dark paper; they also differ in lightness.

use crate::Activity;
use crate::kinds::KINDS_MAX;
use std::fmt::Write;

/// Light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Theme {
    /// As the reader's system prefers; light where it does not say.
    #[default]
    Auto,
    /// Dark on white.
    Light,
    /// Light on black.
    Dark,
}

/// One theme's colours.
struct Palette {
    paper: &'static str,
    ink: &'static str,
    /// Less important text.
    quiet: &'static str,
    /// Grid lines and the ranks' base lines.
    line: &'static str,
    /// Every second rank's background.
    stripe: &'static str,
    arrow: &'static str,
    /// The critical path.
    critical: &'static str,
    /// Fill and text of each activity, in the order of [`Activity::ALL`].
    activities: [(&'static str, &'static str); 5],
    /// Fill and text of labels, and at last of all other labels.
    kinds: [(&'static str, &'static str); KINDS],
    /// How much, from little to much: the more, the more it stands out from the paper.
    loads: [&'static str; LOADS],
}

/// Colours of labels, and at last of all other labels.
pub(super) const KINDS: usize = KINDS_MAX + 1;
/// Steps from little to much.
pub(super) const LOADS: usize = 5;

const LIGHT: Palette = Palette {
    paper: "#ffffff",
    ink: "#1b1f24",
    quiet: "#57606a",
    line: "#d5dae0",
    stripe: "#f5f7f9",
    arrow: "#3d444d",
    critical: "#d55e00",
    activities: [
        ("#e69f00", "#1b1f24"),
        ("#009e73", "#ffffff"),
        ("#0072b2", "#ffffff"),
        ("#cc79a7", "#1b1f24"),
        ("#9aa4b0", "#1b1f24"),
    ],
    kinds: [
        ("#0072b2", "#ffffff"),
        ("#e69f00", "#1b1f24"),
        ("#009e73", "#ffffff"),
        ("#cc79a7", "#1b1f24"),
        ("#56b4e9", "#1b1f24"),
        ("#6a4c9c", "#ffffff"),
        ("#8c7a00", "#ffffff"),
        ("#9aa4b0", "#1b1f24"),
    ],
    loads: ["#e3a857", "#d9822b", "#c8511b", "#9e2a1f", "#5c1016"],
};

const DARK: Palette = Palette {
    paper: "#14171c",
    ink: "#e8ebef",
    quiet: "#9da7b3",
    line: "#333a44",
    stripe: "#1a1e25",
    arrow: "#c3cad3",
    critical: "#ff7f2a",
    activities: [
        ("#f0b429", "#14171c"),
        ("#2bbf91", "#14171c"),
        ("#56b4e9", "#14171c"),
        ("#dd9fc2", "#14171c"),
        ("#6b7684", "#e8ebef"),
    ],
    kinds: [
        ("#56b4e9", "#14171c"),
        ("#f0b429", "#14171c"),
        ("#2bbf91", "#14171c"),
        ("#dd9fc2", "#14171c"),
        ("#2f86c4", "#ffffff"),
        ("#a78bda", "#14171c"),
        ("#c9b63a", "#14171c"),
        ("#6b7684", "#e8ebef"),
    ],
    loads: ["#6d5a3f", "#a67c3d", "#d99a3a", "#f0c05a", "#fff0b3"],
};

/// The style sheet.
pub(super) fn style(theme: Theme) -> String {
    let mut css = String::from(
        "text{font-size:12px}\
         .title{font-size:17px;font-weight:600}.tiny{font-size:10px}.end{text-anchor:end}.middle{text-anchor:middle}\
         .grid{stroke-width:1}.base{stroke-width:1}.arrow{fill:none}.critical{stroke-width:2.5;stroke-linejoin:round}.bar:hover,.arrow:hover{opacity:.6}\n",
    );
    css += &families("");
    css + &themed(theme, rules)
}

/// A style sheet that asks for a font first.
pub(super) fn font(family: &str) -> String {
    // Nothing in it ends the string, the sheet or the element.
    let family: String = family.chars().filter(|c| c.is_alphanumeric() || " -_.".contains(*c)).collect();
    families(&format!("'{family}',"))
}

/// Renderers that know neither `system-ui` nor what `sans-serif` is here draw no text in a font that they have not: so the fonts
/// that most systems have are named.
fn families(first: &str) -> String {
    const USUAL: &str = "system-ui,'DejaVu Sans','Liberation Sans','Noto Sans',Helvetica,Arial,sans-serif";
    format!("text{{font-family:{first}{USUAL}}}\n")
}

/// The style sheet of charts: lines `line-0` and so on, areas `fill-0`, and `band-0` for what lies around lines.
pub(super) fn chart_style(theme: Theme) -> String {
    let of = |palette: &Palette| {
        let colours = palette.kinds.iter().enumerate();
        let rules = colours.map(|(at, (colour, _))| {
            format!(
                ".line-{at}{{stroke:{colour};fill:none;stroke-width:2}}.fill-{at}{{fill:{colour}}}.band-{at}{{fill:{colour};opacity:.25}}\n"
            )
        });
        rules.collect::<String>()
    };
    ".small{stroke-width:2.6;stroke-linecap:round}.dot{opacity:.85}.faint{opacity:.5}.whisker{stroke-width:1.5}\n".to_owned()
        + &themed(theme, of)
}

/// The style sheet of labels: `kind-0` and so on.
pub(super) fn kind_style(theme: Theme) -> String {
    let of = |palette: &Palette| {
        let rules = palette.kinds.iter().enumerate();
        let rules = rules
            .map(|(at, (fill, text))| format!(".kind-{at}{{fill:{fill}}}.on-kind-{at}{{fill:{text}}}\n"));
        rules.collect::<String>()
    };
    themed(theme, of)
}

/// The style sheet of loads: lines `load-0` to `load-4`, and areas `on-load-0` to `on-load-4`.
pub(super) fn load_style(theme: Theme) -> String {
    let of = |palette: &Palette| {
        let rules = palette.loads.iter().enumerate();
        let rules = rules.map(|(at, colour)| {
            format!(".load-{at}{{stroke:{colour};fill:none}}.on-load-{at}{{fill:{colour}}}\n")
        });
        rules.collect::<String>()
    };
    themed(theme, of)
}

/// The rules of a theme, or of both where the reader's system decides.
fn themed(theme: Theme, of: impl Fn(&Palette) -> String) -> String {
    match theme {
        Theme::Light => of(&LIGHT),
        Theme::Dark => of(&DARK),
        Theme::Auto => format!("{}@media (prefers-color-scheme:dark){{\n{}}}\n", of(&LIGHT), of(&DARK)),
    }
}

fn rules(palette: &Palette) -> String {
    let Palette { paper, ink, quiet, line, stripe, arrow, critical, activities, .. } = palette;
    let mut css = format!(
        ".paper{{fill:{paper}}}text{{fill:{ink}}}.quiet{{fill:{quiet}}}.grid,.base,.axis{{stroke:{line}}}\
         .stripe{{fill:{stripe}}}.arrow{{stroke:{arrow}}}.head{{fill:{arrow}}}.node{{fill:{paper};stroke:{quiet}}}.critical{{stroke:{critical};fill:none}}\n"
    );
    for (activity, (fill, text)) in Activity::ALL.iter().zip(activities) {
        let name = activity.name();
        let _ = writeln!(css, ".{name}{{fill:{fill}}}.on-{name}{{fill:{text}}}");
    }
    css
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance and contrast as in WCAG 2.1, section 1.4.
    fn luminance(colour: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).expect("two digits")) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn everything_can_be_told_from_the_paper() {
        for palette in [LIGHT, DARK] {
            for background in [palette.paper, palette.stripe] {
                assert!(contrast(palette.ink, background) > 7.0);
                assert!(contrast(palette.quiet, background) > 4.5);
                assert!(contrast(palette.arrow, background) > 4.5);
                assert!(contrast(palette.critical, background) > 3.0);
                let seen = palette.loads.map(|load| contrast(load, background));
                assert!(seen[0] > 1.9 && seen.is_sorted(), "{seen:?}");
                for (fill, text) in palette.activities.into_iter().chain(palette.kinds) {
                    let seen = contrast(fill, background);
                    assert!(seen > 2.0, "{fill} on {background}: {seen:.2}");
                    let read = contrast(text, fill);
                    assert!(read > 3.0, "{text} on {fill}: {read:.2}");
                }
            }
        }
    }
}
