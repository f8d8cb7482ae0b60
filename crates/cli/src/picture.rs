//! Drawings as files: SVG as it was drawn, PNG and PDF where the name ends so.
//!
//! Everything is drawn as SVG (`castell_trace::svg`); what other formats get is that, read again. Text becomes outlines there, of a
//! font of this machine.

use crate::output;
use anyhow::{Context as _, bail};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content, Filter, Finish as _, Name, Pdf, Rect, Ref, TextStr};
use resvg::tiny_skia::{Color, PathSegment, Pixmap, Transform};
use resvg::usvg::fontdb::{Database, Family, Query};
use resvg::usvg::{FillRule, Group, LineCap, LineJoin, Node, Options, Paint, Path as Outline, Tree};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Pixels of a PNG for one of the drawing: sharp also where it is shown larger.
const SCALE: f32 = 2.0;
/// Points of a PDF for a pixel, as in CSS.
const POINTS: f32 = 0.75;

/// A file for a drawing: the ending of its name says which format it gets.
///
/// # Errors
/// No drawing is written under such a name.
pub fn file(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("svg" | "png" | "pdf") => Ok(path),
        _ => Err("the ending of the name tells the format of a drawing: .svg, .png or .pdf".into()),
    }
}

/// Writes a drawing, unless that loses what somebody else has put into the file.
///
/// # Errors
/// It cannot be written or, as PNG or PDF, not be made.
pub fn write(path: &Path, svg: impl AsRef<[u8]>) -> anyhow::Result<()> {
    let svg = svg.as_ref();
    let made = |what: &str| format!("cannot make a {what} of the drawing; an SVG has it");
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("png") => output::write(path, png(&tree(svg)?).with_context(|| made("PNG"))?),
        Some("pdf") => output::write(path, pdf(&tree(svg)?).with_context(|| made("PDF"))?),
        _ => output::write(path, svg),
    }
}

fn tree(svg: &[u8]) -> anyhow::Result<Tree> {
    let options = Options { fontdb: Arc::new(fonts()?), ..Options::default() };
    Tree::from_data(svg, &options).context("cannot read the drawing again")
}

/// The fonts of this machine, with one for `sans-serif` that is really there.
fn fonts() -> anyhow::Result<Database> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let known =
        |family: Family<'_>| fonts.query(&Query { families: &[family], ..Query::default() }).is_some();
    if known(Family::SansSerif) {
        return Ok(fonts);
    }
    let Some((first, _)) = fonts.faces().next().and_then(|face| face.families.first().cloned()) else {
        bail!(
            "no font is installed here, and a PNG or PDF needs one (on Debian: fonts-dejavu-core); an SVG needs none"
        );
    };
    let usual =
        ["DejaVu Sans", "Liberation Sans", "Noto Sans"].into_iter().find(|name| known(Family::Name(name)));
    fonts.set_sans_serif_family(usual.map_or(first, str::to_owned));
    Ok(fonts)
}

fn png(tree: &Tree) -> anyhow::Result<Vec<u8>> {
    let (width, height) = (tree.size().width() * SCALE, tree.size().height() * SCALE);
    let mut pixels =
        Pixmap::new(width.ceil() as u32, height.ceil() as u32).context("it has too many pixels")?;
    pixels.fill(Color::WHITE);
    resvg::render(tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    Ok(signed(pixels.encode_png()?))
}

/// With a word of who has written it (RFC 2083, section 4.2.7), by which such files are known again.
fn signed(png: Vec<u8>) -> Vec<u8> {
    /// The signature and the header, which comes first.
    const BEFORE: usize = 8 + 25;
    const TEXT: &[u8] = b"tEXtSoftware\0castell";
    let mut signed = png[..BEFORE].to_vec();
    signed.extend_from_slice(&(TEXT.len() as u32 - 4).to_be_bytes());
    signed.extend_from_slice(TEXT);
    let mut sum = flate2::Crc::new();
    sum.update(TEXT);
    signed.extend_from_slice(&sum.sum().to_be_bytes());
    signed.extend_from_slice(&png[BEFORE..]);
    signed
}

fn pdf(tree: &Tree) -> anyhow::Result<Vec<u8>> {
    let [info, catalog, pages, page, content] = [1, 2, 3, 4, 5].map(Ref::new);
    let (width, height) = (tree.size().width() * POINTS, tree.size().height() * POINTS);
    let mut sheet = Sheet { content: Content::new(), opacities: BTreeMap::new() };
    // PDF's origin is below, and y runs upwards.
    sheet.group(tree.root(), Transform::from_row(POINTS, 0.0, 0.0, -POINTS, 0.0, height), 1.0);
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&sheet.content.finish())?;
    let packed = packed.finish()?;

    let mut pdf = Pdf::new();
    pdf.document_info(info).producer(TextStr("castell"));
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut leaf = pdf.page(page);
    leaf.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(content);
    let mut resources = leaf.resources();
    let mut states = resources.ext_g_states();
    for (opacity, name) in &sheet.opacities {
        let opacity = f32::from(*opacity) / 1000.0;
        let mut state =
            states.insert(Name(name.as_bytes())).start::<pdf_writer::writers::ExtGraphicsState<'_>>();
        state.stroking_alpha(opacity).non_stroking_alpha(opacity);
    }
    states.finish();
    resources.finish();
    leaf.finish();
    pdf.stream(content, &packed).filter(Filter::FlateDecode);
    Ok(pdf.finish())
}

/// What is drawn on the page.
struct Sheet {
    content: Content,
    /// Names of the graphics states, by opacity in thousandths.
    opacities: BTreeMap<u16, String>,
}

impl Sheet {
    /// What overlaps in a group that lets light through is darker there: none of castell's drawings has much of that.
    fn group(&mut self, group: &Group, to: Transform, opacity: f32) {
        let (to, opacity) = (to.pre_concat(group.transform()), opacity * group.opacity().get());
        for node in group.children() {
            match node {
                Node::Group(inner) => self.group(inner, to, opacity),
                Node::Path(outline) => self.outline(outline, to, opacity),
                Node::Text(text) => self.group(text.flattened(), to, opacity),
                // Drawings have none.
                Node::Image(_) => {}
            }
        }
    }

    fn outline(&mut self, outline: &Outline, to: Transform, opacity: f32) {
        if !outline.is_visible() {
            return;
        }
        let Transform { sx, kx, ky, sy, tx, ty } = to;
        self.content.save_state();
        self.content.transform([sx, ky, kx, sy, tx, ty]);
        if let Some(fill) = outline.fill()
            && let Paint::Color(colour) = fill.paint()
        {
            self.opacity(opacity * fill.opacity().get());
            let [red, green, blue] =
                [colour.red, colour.green, colour.blue].map(|part| f32::from(part) / 255.0);
            self.content.set_fill_rgb(red, green, blue);
            self.path(outline);
            match fill.rule() {
                FillRule::NonZero => self.content.fill_nonzero(),
                FillRule::EvenOdd => self.content.fill_even_odd(),
            };
        }
        if let Some(stroke) = outline.stroke()
            && let Paint::Color(colour) = stroke.paint()
        {
            self.opacity(opacity * stroke.opacity().get());
            let [red, green, blue] =
                [colour.red, colour.green, colour.blue].map(|part| f32::from(part) / 255.0);
            self.content.set_stroke_rgb(red, green, blue).set_line_width(stroke.width().get());
            self.content.set_line_cap(match stroke.linecap() {
                LineCap::Butt => LineCapStyle::ButtCap,
                LineCap::Round => LineCapStyle::RoundCap,
                LineCap::Square => LineCapStyle::ProjectingSquareCap,
            });
            self.content.set_line_join(match stroke.linejoin() {
                LineJoin::Round => LineJoinStyle::RoundJoin,
                LineJoin::Bevel => LineJoinStyle::BevelJoin,
                LineJoin::Miter | LineJoin::MiterClip => LineJoinStyle::MiterJoin,
            });
            let dashes = stroke.dasharray().unwrap_or_default();
            self.content.set_dash_pattern(dashes.iter().copied(), stroke.dashoffset());
            self.path(outline);
            self.content.stroke();
        }
        self.content.restore_state();
    }

    fn opacity(&mut self, opacity: f32) {
        let thousandths = (opacity * 1000.0).round() as u16;
        let name = self.opacities.entry(thousandths).or_insert_with(|| format!("o{thousandths}"));
        self.content.set_parameters(Name(name.as_bytes()));
    }

    fn path(&mut self, outline: &Outline) {
        let (mut x0, mut y0) = (0.0, 0.0);
        for segment in outline.data().segments() {
            match segment {
                PathSegment::MoveTo(p) => {
                    self.content.move_to(p.x, p.y);
                    (x0, y0) = (p.x, p.y);
                }
                PathSegment::LineTo(p) => {
                    self.content.line_to(p.x, p.y);
                    (x0, y0) = (p.x, p.y);
                }
                // PDF has cubic curves only.
                PathSegment::QuadTo(c, p) => {
                    let third = |from: f32, via: f32| from + (via - from) * 2.0 / 3.0;
                    let (x1, y1, x2, y2) = (third(x0, c.x), third(y0, c.y), third(p.x, c.x), third(p.y, c.y));
                    self.content.cubic_to(x1, y1, x2, y2, p.x, p.y);
                    (x0, y0) = (p.x, p.y);
                }
                PathSegment::CubicTo(c, d, p) => {
                    self.content.cubic_to(c.x, c.y, d.x, d.y, p.x, p.y);
                    (x0, y0) = (p.x, p.y);
                }
                PathSegment::Close => {
                    self.content.close_path();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_trace::{SvgOptions, Theme, Timeline, write_svg};

    fn drawn(theme: Theme) -> Tree {
        let timeline = Timeline { title: "Wavefront".into(), ranks: 2, ..Timeline::default() };
        let mut svg = Vec::new();
        write_svg(&timeline, &SvgOptions { theme, ..SvgOptions::default() }, &mut svg)
            .expect("memory takes it");
        tree(&svg).expect("our own drawing")
    }

    /// Dark pixels in a part of a picture.
    fn ink(pixels: &Pixmap, (left, top, right, bottom): (u32, u32, u32, u32)) -> usize {
        let inside = (top..bottom).flat_map(|y| (left..right).map(move |x| (x, y)));
        inside.filter_map(|(x, y)| pixels.pixel(x, y)).filter(|pixel| pixel.red() < 100).count()
    }

    /// A renderer that is no browser shows the title, whatever theme is asked for.
    #[test]
    fn another_renderer_shows_the_text() {
        for theme in [Theme::Auto, Theme::Light] {
            let picture = png(&drawn(theme)).expect("made");
            let pixels = Pixmap::decode_png(&picture).expect("a PNG");
            assert_eq!(pixels.width(), 2400);
            let title = ink(&pixels, (32, 40, 240, 90));
            assert!(title > 300, "{title} pixels of the title");
            let name = ink(&pixels, (32, 200, 120, 300));
            assert!(name > 30, "{name} pixels of a rank's name");
            assert!(
                picture.starts_with(b"\x89PNG") && picture[..64].windows(7).any(|word| word == b"castell")
            );
        }
    }

    #[test]
    fn a_pdf_has_a_page_of_the_drawings_size() {
        let tree = drawn(Theme::Light);
        let pdf = pdf(&tree).expect("made");
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"));
        assert!(text.contains("/MediaBox [0 0 900 ") && text.contains("castell"), "{text}");
        // A drawing without its texts is much shorter.
        assert!(pdf.len() > 3000, "{} bytes", pdf.len());
    }
}
