//! A network with the load of its links: a line a direction, the darker and thicker the more went over it; below, the busiest as bars.

use super::look::{Head, Look};
use super::theme::{self, LOADS};
use super::xml::{Escaped, Px};
use std::io::{self, Write};

/// A network and what went over it.
#[derive(Clone, Debug, Default)]
pub struct NetworkPlot {
    /// What is shown.
    pub title: String,
    /// Where it comes from.
    pub subtitle: String,
    /// What of it all is worth a line.
    pub summary: String,
    /// What a load is, as `busy, share of the run`.
    pub load: String,
    /// What stands behind the number of a load, as ` %`.
    pub unit: String,
    /// Ranks and switches; without any, or where they are too many for paper, only bars are drawn.
    pub nodes: Vec<NetworkNode>,
    /// All directed links.
    pub links: Vec<NetworkLink>,
}

/// A rank or a switch.
#[derive(Clone, Debug, Default)]
pub struct NetworkNode {
    /// Where it lies, in steps between neighbours.
    pub at: (f64, f64),
    /// What is written on it, if there is room.
    pub name: String,
    /// Whether it only hands messages on.
    pub is_switch: bool,
}

/// A link in one direction.
#[derive(Clone, Debug, Default)]
pub struct NetworkLink {
    /// Numbers of the nodes at which it starts and ends.
    pub ends: (usize, usize),
    /// It leads around, to the other side: both of its ends are drawn, and nothing between.
    pub leads_around: bool,
    /// How much of it was used; 0: nothing went over it.
    pub load: f64,
    /// Its name.
    pub name: String,
    /// What is said of it.
    pub told: String,
}

/// Of more links, or nodes that would lie closer, only bars are drawn.
const LINKS_MAX: usize = 8_000;
const PITCH_MIN: f64 = 26.0;
const PITCH_MAX: f64 = 120.0;
const RADIUS_MAX: f64 = 13.0;
const WIDTH: f64 = 900.0;
const HEIGHT_MAX: f64 = 1_200.0;
const MARGIN: f64 = 20.0;
const HEAD: f64 = 112.0;
const BARS: usize = 8;
const BAR: f64 = 22.0;
const BAR_LEFT: f64 = 190.0;
const BAR_WIDTH: f64 = 240.0;

/// Writes the network as an SVG drawing.
///
/// # Errors
/// Whatever the writer says.
pub fn write_network(plot: &NetworkPlot, look: &Look, out: &mut impl Write) -> io::Result<()> {
    let places = Places::of(plot);
    let below = places.as_ref().map_or(0.0, |places| places.height);
    let mut busiest: Vec<&NetworkLink> = plot.links.iter().filter(|link| link.load > 0.0).collect();
    busiest.sort_by(|one, other| other.load.total_cmp(&one.load));
    let most = busiest.first().map_or(0.0, |link| link.load);
    busiest.truncate(BARS);
    let height = HEAD + below + 34.0 + busiest.len() as f64 * BAR + MARGIN;
    let head = Head {
        title: &plot.title,
        subtitle: &plot.subtitle,
        left: MARGIN,
        css: theme::load_style(look.theme),
    };
    look.open((WIDTH, height), head, out)?;
    writeln!(out, "<text class=\"quiet\" x=\"{MARGIN}\" y=\"66\">{}</text>", Escaped(&plot.summary))?;
    legend(plot, most, out)?;
    if let Some(places) = &places {
        let mut order: Vec<&NetworkLink> = plot.links.iter().collect();
        order.sort_by(|one, other| one.load.total_cmp(&other.load));
        for link in order {
            draw_link(link, most, places, out)?;
        }
        for (node, &at) in plot.nodes.iter().zip(&places.at) {
            draw_node(node, at, places.radius, out)?;
        }
    }
    bars(plot, &busiest, most, HEAD + below, out)?;
    writeln!(out, "</svg>")
}

/// Pixels of the nodes.
struct Places {
    at: Vec<(f64, f64)>,
    pitch: f64,
    radius: f64,
    height: f64,
}

impl Places {
    fn of(plot: &NetworkPlot) -> Option<Places> {
        let around = if plot.links.iter().any(|link| link.leads_around) { 0.6 } else { 0.3 };
        let (mut low, mut high) = ((f64::INFINITY, f64::INFINITY), (f64::NEG_INFINITY, f64::NEG_INFINITY));
        for NetworkNode { at: (x, y), .. } in &plot.nodes {
            (low, high) = ((low.0.min(*x), low.1.min(*y)), (high.0.max(*x), high.1.max(*y)));
        }
        if plot.nodes.is_empty() || plot.links.len() > LINKS_MAX {
            return None;
        }
        let (wide, tall) = (high.0 - low.0 + 2.0 * around, high.1 - low.1 + 2.0 * around);
        let pitch = ((WIDTH - 2.0 * MARGIN) / wide).min(HEIGHT_MAX / tall).min(PITCH_MAX);
        let left = (WIDTH - wide * pitch) / 2.0;
        let place = |node: &NetworkNode| {
            let (x, y) = (node.at.0 - low.0 + around, node.at.1 - low.1 + around);
            (left + x * pitch, HEAD + y * pitch)
        };
        let at = plot.nodes.iter().map(place).collect();
        let radius = (pitch * 0.14).clamp(3.0, RADIUS_MAX);
        (pitch >= PITCH_MIN).then_some(Places { at, pitch, radius, height: tall * pitch })
    }
}

/// Which of the colours a load has; `None`: nothing went over it.
fn colour(load: f64, most: f64) -> Option<usize> {
    (load > 0.0).then(|| ((load / most * LOADS as f64).ceil() as usize).clamp(1, LOADS) - 1)
}

fn thickness(colour: usize) -> f64 {
    1.5 + colour as f64
}

/// A sample of each colour, and up to how much it stands for.
fn legend(plot: &NetworkPlot, most: f64, out: &mut impl Write) -> io::Result<()> {
    let mut x = MARGIN;
    let y = 94.0;
    let text = |x: f64, text: &str| format!("<text x=\"{}\" y=\"{y}\">{}</text>", Px(x), Escaped(text));
    writeln!(out, "{}", text(x, &plot.load))?;
    x += plot.load.chars().count() as f64 * 6.6 + 18.0;
    let nothing = "<path class=\"grid\" d=\"M";
    writeln!(out, "{nothing}{} {}h18\"/>{}", Px(x), Px(y - 4.0), text(x + 24.0, "nothing"))?;
    x += 24.0 + 7.0 * 6.6 + 18.0;
    for colour in (0..LOADS).filter(|_| most > 0.0) {
        let told = format!("to {}{}", number(most * (colour + 1) as f64 / LOADS as f64), plot.unit);
        let (line, thick) = (Px(y - 4.0), thickness(colour));
        writeln!(
            out,
            "<path class=\"load-{colour}\" stroke-width=\"{thick}\" d=\"M{} {line}h18\"/>{}",
            Px(x),
            text(x + 24.0, &told)
        )?;
        x += 24.0 + told.chars().count() as f64 * 6.6 + 18.0;
    }
    Ok(())
}

fn draw_link(link: &NetworkLink, most: f64, places: &Places, out: &mut impl Write) -> io::Result<()> {
    let (from, to) = (places.at[link.ends.0], places.at[link.ends.1]);
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let long = dx.hypot(dy);
    // The links of a mesh's border lead nowhere.
    if long == 0.0 {
        return Ok(());
    }
    let (dx, dy) = (dx / long, dy / long);
    let aside = places.radius * 0.4;
    // On the right of who goes along, so that both directions are seen.
    let beside = |(x, y): (f64, f64), along: f64| (x - dy * aside + dx * along, y + dx * aside + dy * along);
    let radius = places.radius;
    let parts = if link.leads_around {
        let stub = places.pitch * 0.5;
        vec![(beside(from, -radius), beside(from, -stub)), (beside(to, stub), beside(to, radius))]
    } else {
        vec![(beside(from, radius), beside(to, -radius))]
    };
    let path: String =
        parts.iter().map(|(a, b)| format!("M{} {}L{} {}", Px(a.0), Px(a.1), Px(b.0), Px(b.1))).collect();
    let told = format!("<title>{}: {}</title>", Escaped(&link.name), Escaped(&link.told));
    let Some(colour) = colour(link.load, most) else {
        return writeln!(out, "<path class=\"grid\" fill=\"none\" d=\"{path}\">{told}</path>");
    };
    let thick = thickness(colour) * (radius / RADIUS_MAX).max(0.4);
    writeln!(out, "<path class=\"load-{colour}\" stroke-width=\"{}\" d=\"{path}\">{told}</path>", Px(thick))?;
    let size = (thick + 2.5).min(places.pitch * 0.12);
    for (a, b) in parts {
        // The head of an arrow, a bit behind the middle; it points from a to b.
        let (wide, tall) = (b.0 - a.0, b.1 - a.1);
        let length = wide.hypot(tall).max(1e-9);
        let (ux, uy) = (wide / length, tall / length);
        let tip = (a.0 + wide * 0.6 + ux * size, a.1 + tall * 0.6 + uy * size);
        let corner = |side: f64| {
            let (x, y) = (tip.0 - ux * 2.0 * size, tip.1 - uy * 2.0 * size);
            (Px(x - uy * side), Px(y + ux * side))
        };
        let ((x1, y1), (x2, y2)) = (corner(size * 0.8), corner(-size * 0.8));
        writeln!(
            out,
            "<path class=\"on-load-{colour}\" d=\"M{} {}L{x1} {y1}L{x2} {y2}z\"/>",
            Px(tip.0),
            Px(tip.1)
        )?;
    }
    Ok(())
}

fn draw_node(node: &NetworkNode, (x, y): (f64, f64), radius: f64, out: &mut impl Write) -> io::Result<()> {
    let (left, top, size) = (Px(x - radius), Px(y - radius), Px(2.0 * radius));
    let (round, name) = (if node.is_switch { 2.0 } else { radius }, Escaped(&node.name));
    writeln!(
        out,
        "<rect class=\"node\" x=\"{left}\" y=\"{top}\" width=\"{size}\" height=\"{size}\" rx=\"{}\"><title>{name}</title></rect>",
        Px(round)
    )?;
    let short = node.name.rsplit(' ').next().unwrap_or_default();
    if short.chars().count() as f64 * 6.0 > 2.0 * radius {
        return Ok(());
    }
    writeln!(
        out,
        "<text class=\"tiny middle\" x=\"{}\" y=\"{}\">{}</text>",
        Px(x),
        Px(y + 3.5),
        Escaped(short)
    )
}

fn bars(
    plot: &NetworkPlot,
    busiest: &[&NetworkLink],
    most: f64,
    top: f64,
    out: &mut impl Write,
) -> io::Result<()> {
    let heading = if busiest.is_empty() { "nothing went over any link" } else { "the busiest links" };
    writeln!(out, "<text x=\"{MARGIN}\" y=\"{}\">{heading}</text>", Px(top + 20.0))?;
    for (at, link) in busiest.iter().enumerate() {
        let y = top + 34.0 + at as f64 * BAR;
        let long = link.load / most * BAR_WIDTH;
        writeln!(
            out,
            "<text class=\"end\" x=\"{}\" y=\"{1}\">{2}</text>\
             <rect class=\"on-load-{3}\" x=\"{BAR_LEFT}\" y=\"{4}\" width=\"{5}\" height=\"{6}\"/>\
             <text x=\"{7}\" y=\"{1}\">{8}{9}</text><text class=\"quiet\" x=\"{10}\" y=\"{1}\">{11}</text>",
            Px(BAR_LEFT - 8.0),
            Px(y + 13.0),
            Escaped(&link.name),
            colour(link.load, most).unwrap_or(0),
            Px(y + 2.0),
            Px(long),
            Px(BAR - 6.0),
            Px(BAR_LEFT + BAR_WIDTH + 8.0),
            number(link.load),
            Escaped(&plot.unit),
            Px(BAR_LEFT + BAR_WIDTH + 90.0),
            Escaped(&link.told)
        )?;
    }
    Ok(())
}

/// With three digits, or as many as it has before the point.
fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => super::chart::short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(plot: &NetworkPlot) -> String {
        let mut out = Vec::new();
        write_network(plot, &Look::default(), &mut out).expect("memory");
        let text = String::from_utf8(out).expect("text");
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"), "{text}");
        text
    }

    fn plot() -> NetworkPlot {
        let node = |x, name: &str| NetworkNode { at: (x, 0.0), name: name.into(), is_switch: false };
        let link = |ends, load, leads_around| NetworkLink {
            ends,
            load,
            leads_around,
            name: format!("{} < {}", ends.0, ends.1),
            told: "8 bytes".into(),
        };
        NetworkPlot {
            load: "busy".into(),
            unit: " %".into(),
            nodes: vec![node(0.0, "rank 0"), node(1.0, "rank 1"), node(2.0, "rank 2")],
            links: vec![link((0, 1), 50.0, false), link((1, 0), 0.0, false), link((2, 0), 10.0, true)],
            ..NetworkPlot::default()
        }
    }

    #[test]
    fn loads_are_colours_and_the_busiest_are_named() {
        let text = drawn(&plot());
        assert!(text.contains("class=\"load-4\"") && text.contains(">50.0 %<"), "{text}");
        // What leads around is two ends; with the sample in the legend.
        assert_eq!(text.matches("<path class=\"load-0\"").count(), 2, "{text}");
        assert_eq!(text.matches("<path class=\"on-load-0\"").count(), 2, "{text}");
        assert_eq!(text.matches("class=\"node\"").count(), 3);
        assert!(
            text.contains("0 &lt; 1") && text.contains("to 10.0 %") && text.contains("to 50.0 %"),
            "{text}"
        );
        let (first, second) = (text.find(">0 &lt; 1<"), text.find(">2 &lt; 0<"));
        assert!(first < second && first.is_some(), "the busiest comes first: {text}");
    }

    #[test]
    fn where_there_is_no_room_there_are_bars() {
        let many = NetworkNode { at: (1e4, 0.0), ..NetworkNode::default() };
        let crowded = NetworkPlot { nodes: [plot().nodes, vec![many]].concat(), ..plot() };
        for plot in [crowded, NetworkPlot { nodes: Vec::new(), ..plot() }] {
            let text = drawn(&plot);
            assert!(!text.contains("class=\"node\"") && text.contains(">50.0 %<"), "{text}");
        }
        let idle = NetworkPlot { links: Vec::new(), ..plot() };
        assert!(drawn(&idle).contains("nothing went over any link"));
    }
}
