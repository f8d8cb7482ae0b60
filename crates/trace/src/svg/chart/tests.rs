use super::*;

fn drawn(chart: &Chart) -> String {
    let mut text = Vec::new();
    write_chart(chart, &Look::default(), &mut text).expect("memory takes it");
    String::from_utf8(text).expect("UTF-8")
}

#[track_caller]
fn chart(json: &str) -> Chart {
    Chart::from_json(json.as_bytes()).unwrap_or_else(|error| panic!("{error}: {json}"))
}

#[track_caller]
fn refused(json: &str) -> String {
    Chart::from_json(json.as_bytes()).expect_err(json).to_string()
}

/// Numbers of an attribute, in the order in which they come.
fn numbers(text: &str, attribute: &str) -> Vec<f64> {
    let before = format!(" {attribute}=\"");
    let values = text.split(&before).skip(1);
    values.map(|rest| rest.split('"').next().and_then(|x| x.parse().ok()).expect("a number")).collect()
}

/// Of all bars, in the order in which they are drawn: x, y, width, height.
fn bars(text: &str) -> Vec<[f64; 4]> {
    let bars = text.lines().filter(|line| line.starts_with("<rect class=\"bar "));
    bars.map(|line| ["x", "y", "width", "height"].map(|name| numbers(line, name)[0])).collect()
}

#[test]
fn everything_lies_on_the_paper_whatever_the_numbers() {
    let odd = [f64::NAN, f64::INFINITY, -1e9, 0.0, f64::MIN_POSITIVE, 1.0, 1e18, f64::MAX];
    let mut points: Vec<Point> =
        odd.iter().flat_map(|x| odd.map(|y| Point::between(*x, Some(y), y, -y))).collect();
    points.push(Point::new(3.0, None));
    points.extend(odd.map(|y| Point { x: Some(Place::Name("x < y".into())), ..Point::new(0.0, Some(y)) }));
    points.extend(odd.map(|x| Point { y: Some(Place::Name("x < y".into())), ..Point::new(x, None) }));
    points.extend(odd.map(|to| Point::wide(1.0, to, 2.0)));
    for scale in [Powers::None, Powers::Two, Powers::Ten] {
        for kind in [Kind::Line, Kind::Dots, Kind::Bars, Kind::Histogram] {
            for part in
                [&points[..1], &points[..64], &points[64..73], &points[73..81], &points[81..], &points, &[]]
            {
                let mark = Mark { at: 32768.0, text: "L1 & more".into() };
                let axis = Axis {
                    scale,
                    unit: "bytes".into(),
                    base: Some(1.0),
                    marks: vec![mark],
                    ..Axis::default()
                };
                let series =
                    Series { name: "a < b".into(), kind, points: part.to_vec(), ..Series::default() };
                let panel = Panel {
                    title: "t".into(),
                    series: vec![series; 9],
                    stacked: scale == Powers::None,
                    ..Panel::default()
                };
                let chart = Chart {
                    x: axis.clone(),
                    y: axis,
                    panels: vec![panel; 3],
                    columns: 2,
                    ..Chart::default()
                };
                let text = drawn(&chart);
                assert!(
                    !text.contains("NaN") && !text.contains("inf") && !text.contains("a < b"),
                    "{scale:?} {kind:?}: {}",
                    text.lines()
                        .find(|line| line.contains("NaN") || line.contains("inf"))
                        .unwrap_or_default()
                );
                roxmltree::Document::parse(&text).expect("XML");
                for x in numbers(&text, "x").into_iter().chain(numbers(&text, "cx")) {
                    assert!((0.0..=900.0).contains(&x), "{scale:?} {kind:?} {x}");
                }
            }
        }
    }
    assert!(drawn(&Chart::default()).ends_with("</svg>\n"));
}

#[test]
fn a_line_is_interrupted_where_a_point_is_missing() {
    let text = drawn(&chart(
        r#"{"series": [{"name": "it", "points": [[0, 1], [1, 2], [2, null], [3, 1], [4, 3]]}]}"#,
    ));
    let path = text
        .lines()
        .find(|row| row.starts_with("<path class=\"line-0\" d=\"M") && row.contains("<title>it<"));
    assert_eq!(path.expect("a line").matches('M').count(), 2, "{text}");
}

#[test]
fn bars_stand_beside_each_other_or_on_each_other() {
    let of = |stacked: bool| {
        let series = r#"{"kind": "bars", "points": [["a", 10], ["b", 20]]}, {"kind": "bars", "points": [["a", 30], ["b", 20]]}"#;
        bars(&drawn(&chart(&format!(r#"{{"panels": [{{"stacked": {stacked}, "series": [{series}]}}]}}"#))))
    };
    let [a, b, second_a, _] = of(false)[..] else { panic!("four") };
    assert!(a[0] < second_a[0] && second_a[0] < b[0], "both of a stand before b");
    assert!((a[3] * 3.0 - second_a[3]).abs() < 0.1 && (a[1] + a[3] - second_a[1] - second_a[3]).abs() < 0.1);
    let [a, _, second_a, _] = of(true)[..] else { panic!("four") };
    assert!(
        (a[0] - second_a[0]).abs() < 0.1 && (second_a[1] + second_a[3] - a[1]).abs() < 0.1,
        "on the first"
    );
    assert!((second_a[3] - 3.0 * a[3]).abs() < 0.1, "as tall as alone");
}

#[test]
fn names_at_the_left_make_bars_lie() {
    let text = drawn(&chart(
        r#"{"x": {"base": 1}, "series": [{"kind": "bars", "labels": true, "points": [[2, "first"], [1, "second"]]}]}"#,
    ));
    let [first, second] = bars(&text)[..] else { panic!("{text}") };
    assert!(first[1] < second[1] && (first[2] - 2.0 * second[2]).abs() < 0.1, "{text}");
    assert!(text.contains(">first</text>") && text.contains(">2</text>"), "{text}");
}

#[test]
fn a_colour_belongs_to_a_name() {
    let text = drawn(&chart(
        r#"{"panels": [{"series": [{"name": "a", "points": [[1, 1]]}, {"name": "b", "points": [[1, 1]]}]},
                       {"series": [{"name": "b", "points": [[1, 1]]}, {"name": "c", "colour": 5, "points": [[1, 1]]}]}]}"#,
    ));
    let of = |number: usize| text.matches(&format!("<circle class=\"dot fill-{number}\"")).count();
    assert_eq!([of(0), of(1), of(2), of(5)], [1, 2, 0, 1], "{text}");
    assert_eq!(text.matches("<text x=").count(), 3, "three names in the legend: {text}");
    let ten: Vec<String> = (0..10).map(|at| format!(r#"{{"name": "{at}", "points": [[1, 1]]}}"#)).collect();
    let text = drawn(&chart(&format!(r#"{{"series": [{}]}}"#, ten.join(","))));
    assert_eq!(
        text.matches("stroke-dasharray=\"5 4\"").count(),
        4,
        "the ninth and tenth differ by their strokes"
    );
}

#[test]
fn a_common_axis_is_written_once_and_has_one_range() {
    let panels =
        r#"{"series": [{"points": [[0, 1], [10, 2]]}]}, {"series": [{"points": [[20, 1], [30, 900]]}]}"#;
    let text = drawn(&chart(&format!(r#"{{"x": {{"unit": "s", "label": "time"}}, "panels": [{panels}]}}"#)));
    assert_eq!(text.matches(">30 s</text>").count(), 1, "{text}");
    assert_eq!(text.matches(">800</text>").count(), 2, "{text}");
    let own = panels.replace("{\"series\"", "{\"x\": {\"unit\": \"s\"}, \"series\"");
    let text = drawn(&chart(&format!(r#"{{"columns": 2, "panels": [{own}]}}"#)));
    assert_eq!((text.matches(">10 s</text>").count(), text.matches(">800</text>").count()), (1, 1), "{text}");
}

#[test]
fn words_of_marks_stay_on_the_paper() {
    let marks = r#"[{"at": 0, "text": "a long word"}, {"at": 9.9, "text": "another"}, {"at": 10, "text": "a long word"}]"#;
    let text = drawn(&chart(&format!(
        r#"{{"x": {{"marks": {marks}}}, "series": [{{"points": [[0, 1], [10, 2]]}}]}}"#
    )));
    let words = text.lines().filter(|line| line.ends_with("word</text>") || line.ends_with("another</text>"));
    let places: Vec<(f64, f64)> = words.map(|line| (numbers(line, "x")[0], numbers(line, "y")[0])).collect();
    let [first, second, third] = places[..] else { panic!("{text}") };
    assert!(first.0 > 33.0 && third.0 < 900.0 - 33.0, "half a word beside them: {places:?}");
    assert!(first.1 == second.1 && third.1 < second.1, "the last one stands above its neighbour: {places:?}");
}

#[test]
fn many_points_are_one_path() {
    let points = (1..=1001).map(|at| Point::new(f64::from(at), Some(1.0))).collect();
    let series = vec![Series { kind: Kind::Dots, points, ..Series::default() }];
    let text = drawn(&Chart { series, ..Chart::default() });
    assert_eq!((text.matches("<circle").count(), text.matches("h.01").count()), (0, 1001));
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    for (json, said) in [
        ("{}", "nothing to draw"),
        (r#"{"serie": []}"#, "unknown field `serie`, expected one of `title`"),
        (
            r#"{"series": [{"kind": "lines", "points": [[1, 1]]}]}"#,
            "unknown variant `lines`, expected one of `line`",
        ),
        (r#"{"series": [{"points": [[1, NaN]]}]}"#, "expected value at line 1"),
        (r#"{"series": [{"points": [[1, 1e999]]}]}"#, "number out of range"),
        (r#"{"series": [{"points": [[1]]}]}"#, "[x, y, least, most]"),
        (r#"{"series": [{"points": [[1, 2, 3, 4, 5]]}]}"#, "[x, y, least, most]"),
        (r#"{"series": [{"points": [[1, true]]}]}"#, "expected a number, a name, or null"),
        (r#"{"series": [{"name": "it", "points": [[1, null]]}]}"#, "series `it` has no point"),
        (r#"{"panels": [{"title": "t"}]}"#, "panel 1 (t): it has no `series`"),
        (r#"{"series": [{"points": [[1, 2, 3]]}]}"#, "series 1, point 1: it is [x, y]"),
        (r#"{"series": [{"kind": "histogram", "points": [[2, 1, 3]]}]}"#, "[from, to, y]"),
        (
            r#"{"series": [{"kind": "dots", "points": [[1, 2], ["a", 2]]}]}"#,
            "point 2: `x` has names and numbers",
        ),
        (r#"{"series": [{"points": [["a", "b"]]}]}"#, "both are names"),
        (r#"{"y": {"scale": "log10"}, "series": [{"points": [[1, 0]]}]}"#, "0 has no place on `y`"),
        (
            r#"{"x": {"scale": "log2", "base": -1}, "series": [{"points": [[1, 0]]}]}"#,
            "-1 has no place on `x`",
        ),
        (r#"{"x": {"from": 2, "to": 1}, "series": [{"points": [[1, 0]]}]}"#, "`to` has to be above `from`"),
        (r#"{"series": [{"colour": 8, "points": [[1, 0]]}]}"#, "colours 0 to 7"),
    ] {
        let error = refused(json);
        assert!(error.contains(said), "{json}: {error}");
    }
}
