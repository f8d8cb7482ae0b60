//! Several timelines of one program on one axis of time, below each other: what was measured, and what a model says.

use super::{SvgOptions, write_svg};
use crate::Timeline;
use crate::svg::xml::Px;
use std::io::{self, Write};

/// Writes the timelines as one SVG drawing, the first one on top; a unit of time has the same length in all of them.
///
/// # Errors
/// Whatever the writer says.
///
/// # Panics
/// As [`write_svg`].
pub fn write_svg_beside(
    timelines: &[Timeline],
    options: &SvgOptions,
    out: &mut impl Write,
) -> io::Result<()> {
    let end_ps = timelines.iter().map(Timeline::end_ps).max().unwrap_or(0);
    let options = SvgOptions { until_ps: end_ps, ..options.clone() };
    let (mut drawings, mut height) = (String::new(), 0.0);
    for (at, timeline) in timelines.iter().enumerate() {
        let mut drawing = Vec::new();
        write_svg(timeline, &options, &mut drawing)?;
        let drawing = String::from_utf8_lossy(&drawing);
        // Each has names of its own for what it refers to.
        let drawing = drawing.replacen("<svg ", &format!("<svg y=\"{}\" ", Px(height)), 1);
        for name in ["head", "title", "summary"] {
            debug_assert!(drawing.contains(&format!("id=\"{name}\"")));
        }
        let drawing = drawing
            .replace("id=\"head\"", &format!("id=\"head-{at}\""))
            .replace("url(#head)", &format!("url(#head-{at})"))
            .replace("id=\"title\"", &format!("id=\"title-{at}\""))
            .replace("id=\"summary\"", &format!("id=\"summary-{at}\""))
            .replace(
                "aria-labelledby=\"title summary\"",
                &format!("aria-labelledby=\"title-{at} summary-{at}\""),
            );
        height += height_of(&drawing);
        drawings.push_str(&drawing);
    }
    let (width, height) = (options.width.clamp(400, 10_000), Px(height));
    writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         role=\"img\">\n{drawings}</svg>"
    )
}

/// What the drawing itself says.
fn height_of(drawing: &str) -> f64 {
    let height = drawing.split_once("height=\"").and_then(|(_, rest)| rest.split_once('"'));
    height.and_then(|(height, _)| height.parse().ok()).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Activity, Span};
    use castell_base::Rank;

    #[test]
    fn a_unit_of_time_is_as_long_in_both() {
        let timeline = |title: &str, end_ps| Timeline {
            title: title.into(),
            ranks: 2,
            spans: vec![Span {
                rank: Rank(1),
                name: "it".into(),
                activity: Activity::Compute,
                start_ps: 0,
                end_ps,
            }],
            ..Timeline::default()
        };
        let mut out = Vec::new();
        let both = [timeline("measured", 10_000), timeline("predicted", 2_500)];
        write_svg_beside(&both, &SvgOptions::default(), &mut out).expect("memory takes it");
        let text = String::from_utf8(out).expect("UTF-8");
        let document = roxmltree::Document::parse(&text).expect("valid XML");
        let bars = document.descendants().filter(|node| node.attribute("class") == Some("bar compute"));
        let widths: Vec<f64> = bars.filter_map(|bar| bar.attribute("width")?.parse().ok()).collect();
        assert!(widths.len() == 2 && (widths[0] / widths[1] - 4.0).abs() < 0.1, "{widths:?}");
        let inner: Vec<_> =
            document.root_element().children().filter(|node| node.has_tag_name("svg")).collect();
        assert!(inner.len() == 2 || text.matches("<svg ").count() == 3);
        let ids: Vec<_> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), distinct.len(), "{ids:?}");
    }
}
