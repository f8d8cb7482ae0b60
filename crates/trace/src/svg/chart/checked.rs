//! A chart from JSON, and what is wrong with it.

use super::{Axis, CHART_COLOURS, Chart, Kind, Panel, Place, Point, Powers, Spread};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};
use std::fmt;

/// More of them nobody sees.
const PANELS_MAX: usize = 200;
/// More of them make drawings that no program shows.
const POINTS_MAX: usize = 200_000;

/// Why a chart cannot be drawn.
#[derive(Debug)]
pub enum ChartError {
    /// It is no JSON, or none of a chart; knows line and column.
    Json(serde_json::Error),
    /// It cannot be shown so; says where in the chart, and what to do.
    Chart(String),
}

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChartError::Json(error) => error.fmt(f),
            ChartError::Chart(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for ChartError {}

impl Chart {
    /// Reads a chart, as the types' fields say.
    ///
    /// ```
    /// use castell_trace::svg::Chart;
    /// let chart = Chart::from_json(br#"{"series": [{"points": [[1, 2.5], [2, 3.5]]}]}"#)?;
    /// assert_eq!(chart.series.len(), 1);
    /// # Ok::<(), castell_trace::svg::ChartError>(())
    /// ```
    ///
    /// # Errors
    /// It is no chart, or one that cannot be drawn.
    pub fn from_json(json: &[u8]) -> Result<Chart, ChartError> {
        let chart: Chart = serde_json::from_slice(json).map_err(ChartError::Json)?;
        chart.check().map_err(ChartError::Chart)?;
        Ok(chart)
    }

    fn check(&self) -> Result<(), String> {
        let first = Panel { series: self.series.clone(), ..Panel::default() };
        let first = (!self.series.is_empty()).then_some((String::new(), &first));
        let name = |(at, panel): (usize, &Panel)| match panel.title.as_str() {
            "" => format!("panel {}: ", at + 1),
            title => format!("panel {} ({title}): ", at + 1),
        };
        let panels = self.panels.iter().enumerate().map(|(at, panel)| (name((at, panel)), panel));
        let panels: Vec<(String, &Panel)> = first.into_iter().chain(panels).collect();
        if panels.is_empty() {
            return Err("there is nothing to draw: give `series`, or `panels` with `series` each".into());
        }
        let all = self.panels.iter().flat_map(|panel| &panel.series).chain(&self.series);
        let points: usize = all.map(|series| series.points.len()).sum();
        if panels.len() > PANELS_MAX || points > POINTS_MAX {
            return Err(format!(
                "{} panels with {points} points are too much for a drawing: {PANELS_MAX} and {POINTS_MAX} are drawn at most",
                panels.len()
            ));
        }
        for (place, panel) in panels {
            check_axis(&self.x, "x").and_then(|()| check_axis(&self.y, "y"))?;
            let own = |axis: &Option<Axis>, name| axis.as_ref().map_or(Ok(()), |axis| check_axis(axis, name));
            own(&panel.x, "x")
                .and_then(|()| own(&panel.y, "y"))
                .map_err(|error| format!("{place}{error}"))?;
            let (x, y) = (panel.x.as_ref().unwrap_or(&self.x), panel.y.as_ref().unwrap_or(&self.y));
            check_panel(panel, x, y).map_err(|error| format!("{place}{error}"))?;
        }
        Ok(())
    }
}

fn check_axis(axis: &Axis, name: &str) -> Result<(), String> {
    if let (Some(from), Some(to)) = (axis.from, axis.to)
        && from >= to
    {
        return Err(format!("`{name}` goes from {from} to {to}: `to` has to be above `from`"));
    }
    let marks = axis.marks.iter().map(|mark| mark.at);
    let all =
        axis.from.into_iter().chain(axis.to).chain(axis.base).chain(axis.ticks.iter().copied()).chain(marks);
    match all.into_iter().find(|value| axis.scale != Powers::None && *value <= 0.0) {
        Some(value) => Err(format!(
            "{value} has no place on `{name}`, which goes by powers: only what is above 0 has one"
        )),
        None => Ok(()),
    }
}

fn check_panel(panel: &Panel, x: &Axis, y: &Axis) -> Result<(), String> {
    if panel.series.is_empty() {
        return Err("it has no `series`: leave it out, or give it some".into());
    }
    let mut kinds = [None; 2];
    for (at, series) in panel.series.iter().enumerate() {
        let place = match series.name.as_str() {
            "" => format!("series {}", at + 1),
            name => format!("series `{name}`"),
        };
        if series.points.iter().all(|point| point.both().is_none()) {
            return Err(format!(
                "{place} has no point: leave it out, or give it `points` such as [[1, 2.5], [2, 3.5]]"
            ));
        }
        if series.colour.is_some_and(|colour| colour >= CHART_COLOURS) {
            return Err(format!("{place}: there are colours 0 to {}", CHART_COLOURS - 1));
        }
        for (number, point) in series.points.iter().enumerate() {
            check_point(point, series.kind, x, y, &mut kinds)
                .map_err(|error| format!("{place}, point {}: {error}", number + 1))?;
        }
    }
    Ok(())
}

/// `kinds`: whether the axes have names, as far as is known.
fn check_point(
    point: &Point,
    kind: Kind,
    x: &Axis,
    y: &Axis,
    kinds: &mut [Option<bool>; 2],
) -> Result<(), String> {
    match (kind, point.spread) {
        (Kind::Histogram, Spread::Width(from, to)) if from < to => {}
        (Kind::Histogram, _) => {
            return Err("of a histogram it is [from, to, y], with `to` above `from`".into());
        }
        (_, Spread::Width(..)) => {
            return Err("it is [x, y] or [x, y, least, most]; three numbers are a histogram's".into());
        }
        _ => {}
    }
    let Some((along, up)) = point.both() else { return Ok(()) };
    for ((place, axis), (name, kind)) in
        [(along, x), (up, y)].into_iter().zip(["x", "y"].into_iter().zip(kinds))
    {
        let is_name = matches!(place, Place::Name(_));
        if *kind.get_or_insert(is_name || !axis.names.is_empty()) != is_name {
            return Err(format!("`{name}` has names and numbers: an axis shows either"));
        }
        let spread = match (point.spread, is_name) {
            (Spread::Width(from, _), _) if name == "x" => Some(from),
            _ => None,
        };
        let numbers = place.number().into_iter().chain(spread);
        if let Some(number) = numbers.into_iter().find(|number| axis.scale != Powers::None && *number <= 0.0)
        {
            return Err(format!(
                "{number} has no place on `{name}`, which goes by powers: only what is above 0 has one; null leaves a gap"
            ));
        }
    }
    match (along, up, kind) {
        (Place::Name(_), Place::Name(_), Kind::Bars | Kind::Line) => Err(
            "both are names, so that there is nothing to draw: one has to be a number, or `kind` \"dots\""
                .into(),
        ),
        _ => Ok(()),
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Place, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Place;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, a name, or null")
            }
            fn visit_f64<E>(self, value: f64) -> Result<Place, E> {
                Ok(Place::Number(value))
            }
            fn visit_u64<E>(self, value: u64) -> Result<Place, E> {
                Ok(Place::Number(value as f64))
            }
            fn visit_i64<E>(self, value: i64) -> Result<Place, E> {
                Ok(Place::Number(value as f64))
            }
            fn visit_str<E>(self, value: &str) -> Result<Place, E> {
                Ok(Place::Name(value.to_owned()))
            }
        }
        deserializer.deserialize_any(Reader)
    }
}

impl<'de> Deserialize<'de> for Point {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Point, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Point;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a point: [x, y], [x, y, least, most] or, of a histogram, [from, to, y]")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Point, A::Error> {
                let mut all = Vec::new();
                while let Some(part) = parts.next_element::<Option<Place>>()? {
                    if all.len() == 4 {
                        return Err(A::Error::invalid_length(5, &self));
                    }
                    all.push(part);
                }
                let number = |part: &Option<Place>| part.as_ref().and_then(Place::number);
                let numbers: Vec<Option<f64>> = all.iter().map(number).collect();
                let spread = match (numbers.as_slice(), all.len()) {
                    ([Some(from), Some(to), _], _) => Spread::Width(*from, *to),
                    ([_, _, Some(least), Some(most)], _) => Spread::Range(*least, *most),
                    (_, 2) | ([_, _, None, None], _) => Spread::None,
                    (_, length) => return Err(A::Error::invalid_length(length, &self)),
                };
                let mut all = all.into_iter();
                let x = all.next().flatten();
                let y = if matches!(spread, Spread::Width(..)) { all.nth(1) } else { all.next() };
                Ok(Point { x, y: y.flatten(), spread })
            }
        }
        deserializer.deserialize_seq(Reader)
    }
}
