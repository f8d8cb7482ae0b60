//! Drawings are valid XML, show what is in the timeline, and stay bounded.

mod exchange;

use castell_base::{Rank, Tag};
use castell_trace::svg::{ARROWS_MAX, BARS_MAX, LINES_MAX};
use castell_trace::{Activity, Message, Span, SvgOptions, Theme, Timeline, write_svg};
use exchange::exchange;
use roxmltree::{Document, Node};

fn draw(timeline: &Timeline, theme: Theme) -> String {
    let mut out = Vec::new();
    write_svg(timeline, &SvgOptions { theme, ..SvgOptions::default() }, &mut out)
        .expect("memory takes everything");
    String::from_utf8(out).expect("UTF-8")
}

fn draw_light(timeline: &Timeline) -> String {
    draw(timeline, Theme::Light)
}

/// With a line for each rank.
fn draw_each(timeline: &Timeline) -> String {
    let mut out = Vec::new();
    write_svg(timeline, &SvgOptions { every_rank: true, ..SvgOptions::default() }, &mut out)
        .expect("memory takes everything");
    String::from_utf8(out).expect("UTF-8")
}

fn named<'a, 'd>(document: &'a Document<'d>, name: &'a str) -> Vec<Node<'a, 'd>> {
    document.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", name))).collect()
}

fn with_class<'a, 'd>(document: &'a Document<'d>, name: &'a str, class: &str) -> Vec<Node<'a, 'd>> {
    let has = |node: &Node<'_, '_>| {
        node.attribute("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
    };
    named(document, name).into_iter().filter(has).collect()
}

fn number(node: &Node<'_, '_>, attribute: &str) -> f64 {
    node.attribute(attribute).expect("given").parse().expect("a number")
}

#[test]
fn every_span_message_and_rank_is_there() {
    for ranks in [2, 8, 64] {
        let timeline = exchange(ranks);
        let drawing = draw_each(&timeline);
        let document = Document::parse(&drawing).expect("valid XML");
        let busy = timeline.spans.iter().filter(|span| span.activity != Activity::Wait).count();
        assert_eq!(with_class(&document, "rect", "bar").len(), busy, "{ranks} ranks");
        let arrows =
            named(&document, "path").into_iter().filter(|path| path.attribute("marker-end").is_some());
        assert_eq!(arrows.count(), timeline.messages.len() + 1, "{ranks} ranks (and one in the legend)");
        let texts: Vec<_> = named(&document, "text").iter().filter_map(|text| text.text()).collect();
        for rank in 0..ranks {
            assert!(texts.contains(&format!("rank {rank}").as_str()), "rank {rank} of {ranks}");
        }
        for text in ["computing", "sending", "receiving", "waiting"] {
            assert!(texts.contains(&text), "{text}");
        }
        assert!(texts.contains(&timeline.title.as_str()) && texts.contains(&timeline.subtitle.as_str()));
        assert!(texts.iter().any(|text| text.starts_with("time in ")));
    }
}

#[test]
fn everything_lies_on_the_paper() {
    for (ranks, draw) in [1, 2, 13, 64, 65, 1000]
        .into_iter()
        .flat_map(|ranks| [(ranks, draw_light as fn(&Timeline) -> String), (ranks, draw_each)])
    {
        let drawing = draw(&exchange(ranks));
        let document = Document::parse(&drawing).expect("valid XML");
        let root = document.root_element();
        let (width, height) = (number(&root, "width"), number(&root, "height"));
        for rect in named(&document, "rect") {
            let at = |attribute| rect.attribute(attribute).map_or(0.0, |_| number(&rect, attribute));
            assert!(at("x") >= 0.0 && at("x") + at("width") <= width, "{ranks} ranks: {rect:?}");
            assert!(at("y") >= 0.0 && at("y") + at("height") <= height, "{ranks} ranks: {rect:?}");
        }
        for text in named(&document, "text") {
            let (x, y) = (number(&text, "x"), number(&text, "y"));
            assert!((0.0..=width).contains(&x) && (0.0..=height).contains(&y), "{ranks} ranks: {text:?}");
        }
    }
}

#[test]
fn bars_and_arrows_lie_where_their_times_are() {
    let timeline = Timeline {
        title: "one message".into(),
        ranks: 2,
        spans: vec![
            Span { rank: Rank(0), name: "send".into(), activity: Activity::Send, start_ps: 0, end_ps: 250 },
            Span {
                rank: Rank(1),
                name: "recv".into(),
                activity: Activity::Recv,
                start_ps: 500,
                end_ps: 1000,
            },
        ],
        messages: vec![Message {
            from: Rank(0),
            to: Rank(1),
            tag: Tag(5),
            bytes: 8,
            sent_ps: 250,
            head_ps: 500,
            arrived_ps: 500,
            received_ps: 1000,
            travel: None,
        }],
        ..Timeline::default()
    };
    let drawing = draw(&timeline, Theme::Light);
    let document = Document::parse(&drawing).expect("valid XML");
    let bars = with_class(&document, "rect", "bar");
    let (send, recv) = (number(&bars[0], "x"), number(&bars[1], "x"));
    let scale = (recv - send) / 500.0;
    assert!((number(&bars[0], "width") / scale - 250.0).abs() < 2.0);
    let tooltips: Vec<_> = named(&document, "title").iter().filter_map(|title| title.text()).collect();
    assert!(tooltips.contains(&"rank 1: recv, 500 to 1000 ps (500 ps)"), "{tooltips:?}");
    let message = "rank 0 to rank 1: 8 bytes, tag 5; left 250 ps, arrived 500 ps, received 1000 ps";
    assert!(tooltips.contains(&message), "{tooltips:?}");
    let arrow = named(&document, "path").into_iter().rfind(|path| path.attribute("marker-end").is_some());
    let ends = arrow.expect("an arrow").attribute("d").expect("a path");
    let xs: Vec<f64> =
        ends[1..].split('L').map(|end| end.split(' ').next().expect("x").parse().expect("x")).collect();
    assert!((xs[0] - (send + 250.0 * scale)).abs() < 0.1 && (xs[1] - recv).abs() < 0.1, "{ends}");
}

#[test]
fn a_forced_theme_does_not_ask_the_system() {
    let timeline = exchange(2);
    let (auto, light, dark) =
        (draw(&timeline, Theme::Auto), draw(&timeline, Theme::Light), draw(&timeline, Theme::Dark));
    assert!(auto.contains("prefers-color-scheme:dark"));
    assert!(!light.contains("prefers-color-scheme") && !dark.contains("prefers-color-scheme"));
    assert_ne!(light, dark);
}

#[test]
fn any_text_is_taken() {
    let nasty = "<script>alert(\"&amp;\")</script> \u{0}\u{8}\u{ffff}\r\n]]> ünï😀".repeat(20);
    let mut timeline = exchange(2);
    (timeline.title, timeline.subtitle) = (nasty.clone(), nasty.clone());
    timeline.spans[0].name = nasty;
    let drawing = draw(&timeline, Theme::Dark);
    let document = Document::parse(&drawing).expect("valid XML");
    assert!(named(&document, "script").is_empty());
}

#[test]
fn files_are_bounded() {
    for (ranks, most) in [(1000, 4_000_000), (5000, 4_000_000)] {
        let timeline = exchange(ranks);
        assert!(ranks > LINES_MAX && timeline.messages.len() > ARROWS_MAX);
        let drawing = draw_each(&timeline);
        assert!(drawing.len() < most, "{ranks} ranks: {} bytes", drawing.len());
        let document = Document::parse(&drawing).expect("valid XML");
        assert!(with_class(&document, "rect", "bar").is_empty());
        assert!(drawing.contains("too many messages"));
    }
    let span = |index: u64| Span {
        rank: Rank((index % 3) as u32),
        name: String::new(),
        activity: Activity::ALL[index as usize % 5],
        start_ps: index * 7 % 100_000,
        end_ps: index * 7 % 100_000 + index % 11,
    };
    let spans: Vec<_> = (0..=BARS_MAX as u64).map(span).collect();
    let timeline = Timeline { ranks: 3, spans, ..Timeline::default() };
    assert!(Document::parse(&draw(&timeline, Theme::Auto)).is_ok());
}

#[test]
fn empty_and_extreme_timelines_are_drawn() {
    let extreme = Span {
        rank: Rank(0),
        name: "for ever".into(),
        activity: Activity::Compute,
        start_ps: 0,
        end_ps: u64::MAX,
    };
    for timeline in [
        Timeline::default(),
        Timeline { ranks: 1, ..Timeline::default() },
        Timeline { ranks: 1, spans: vec![extreme.clone()], ..Timeline::default() },
        Timeline { ranks: 70, spans: vec![extreme], ..Timeline::default() },
        Timeline { ranks: u16::MAX.into(), ..Timeline::default() },
    ] {
        let drawing = draw(&timeline, Theme::Auto);
        assert!(Document::parse(&drawing).is_ok(), "{} ranks", timeline.ranks);
        assert!(!drawing.contains("NaN") && !drawing.contains("inf"), "{} ranks", timeline.ranks);
    }
}

#[test]
#[should_panic(expected = "rank 2 in a timeline of 2")]
fn a_rank_that_is_not_there_is_a_mistake() {
    let mut timeline = exchange(2);
    timeline.spans[0].rank = Rank(2);
    draw(&timeline, Theme::Auto);
}

/// The end of rank 1 waited for the message of rank 0, and that for its computing.
#[test]
fn the_critical_path_is_drawn_and_told_of() {
    let span = |rank, activity, start_ps, end_ps| Span {
        rank: Rank(rank),
        name: String::new(),
        activity,
        start_ps,
        end_ps,
    };
    let timeline = Timeline {
        ranks: 2,
        spans: vec![
            span(0, Activity::Compute, 0, 600),
            span(0, Activity::Send, 600, 650),
            span(1, Activity::Recv, 900, 1000),
        ],
        messages: vec![Message {
            from: Rank(0),
            to: Rank(1),
            tag: Tag(0),
            bytes: 8,
            sent_ps: 600,
            head_ps: 900,
            arrived_ps: 900,
            received_ps: 1000,
            travel: None,
        }],
        ..Timeline::default()
    };
    let drawing = draw(&timeline, Theme::Light);
    let document = Document::parse(&drawing).expect("valid XML");
    assert_eq!(with_class(&document, "path", "critical").len(), 2, "and one in the legend");
    assert!(drawing.contains("Critical path: computing 60 %, message 30 %, receiving 10 %."), "{drawing}");
    let alone = Timeline { messages: Vec::new(), ..timeline };
    assert!(!draw(&alone, Theme::Light).contains("Critical path"));
}

#[test]
fn fonts_and_widths_can_be_chosen() {
    let options = SvgOptions {
        theme: Theme::Light,
        width: 640,
        font: Some("Latin</style>Modern".into()),
        ..SvgOptions::default()
    };
    let mut out = Vec::new();
    write_svg(&exchange(3), &options, &mut out).expect("memory takes everything");
    let drawing = String::from_utf8(out).expect("UTF-8");
    let document = Document::parse(&drawing).expect("valid XML");
    assert!((number(&document.root_element(), "width") - 640.0).abs() < 0.1);
    assert!(drawing.contains("font-family:'LatinstyleModern',"));
}

/// All ranks compute and send to the next one, but for rank 5.
#[test]
fn ranks_that_do_the_same_share_a_line() {
    let span = |rank, activity, start_ps, end_ps| Span {
        rank: Rank(rank),
        name: "it".into(),
        activity,
        start_ps,
        end_ps,
    };
    let spans = (0..64).flat_map(|rank| match rank {
        5 => vec![span(rank, Activity::Other, 0, 1000)],
        _ => vec![
            span(rank, Activity::Compute, 0, 700 + u64::from(rank)),
            span(rank, Activity::Send, 800, 900),
        ],
    });
    let message = |from: u32| Message {
        from: Rank(from),
        to: Rank((from + 1) % 64),
        tag: Tag(0),
        bytes: 8,
        sent_ps: 850,
        head_ps: 950,
        arrived_ps: 950,
        received_ps: 950,
        travel: None,
    };
    let messages = (0..64).map(message).collect();
    let timeline = Timeline { ranks: 64, spans: spans.collect(), messages, ..Timeline::default() };
    let drawing = draw(&timeline, Theme::Light);
    let document = Document::parse(&drawing).expect("valid XML");
    let texts: Vec<_> = named(&document, "text").iter().filter_map(|text| text.text()).collect();
    assert!(texts.contains(&"0–4, 6–63 (63 alike)") && texts.contains(&"rank 5"), "{texts:?}");
    assert!(drawing.contains("share a line") && drawing.contains("<title>ranks 0–4, 6–63</title>"));
    assert_eq!(with_class(&document, "rect", "bar").len(), 3, "those of ranks 0 and 5");
    let arrows = named(&document, "path").into_iter().filter(|path| path.attribute("marker-end").is_some());
    assert_eq!(arrows.count(), 2 + 1, "to rank 0, to rank 5, and the legend's");
    let each = draw_each(&timeline);
    assert!(!each.contains("alike") && each.contains(">rank 63</text>"));
}

#[test]
fn only_the_ranks_that_are_asked_for_are_drawn() {
    let timeline = Timeline { only: Some(vec![Rank(3), Rank(1), Rank(900)]), ..exchange(8) };
    let drawing = draw(&timeline, Theme::Light);
    let document = Document::parse(&drawing).expect("valid XML");
    let texts: Vec<_> = named(&document, "text").iter().filter_map(|text| text.text()).collect();
    let ranks: Vec<_> = texts.iter().filter(|text| text.starts_with("rank ")).collect();
    assert_eq!(ranks, [&"rank 1", &"rank 3"]);
    assert!(texts.contains(&"Only ranks 1, 3 are drawn."), "{texts:?}");
    let busy = timeline.spans.iter().filter(|span| span.activity != Activity::Wait);
    let shown = busy.filter(|span| [Rank(1), Rank(3)].contains(&span.rank)).count();
    assert_eq!(with_class(&document, "rect", "bar").len(), shown);
    let html = {
        let mut out = Vec::new();
        castell_trace::write_html(&timeline, &mut out).expect("memory takes everything");
        String::from_utf8(out).expect("UTF-8")
    };
    assert!(html.contains(r#""only":"1-1,3-3,900-900""#));
}

/// A rank that goes on after the part that is drawn, or was through before it, does not end where the part does.
#[test]
fn ends_outside_of_a_part_are_told_in_words() {
    let span = |rank, start_ps, end_ps| Span {
        rank: Rank(rank),
        name: "calc".into(),
        activity: Activity::Compute,
        start_ps,
        end_ps,
    };
    let spans = vec![span(0, 0, 500), span(1, 0, 1500), span(2, 0, 9000)];
    let whole = Timeline { ranks: 3, spans, ..Timeline::default() };
    let texts = |timeline: &Timeline| -> Vec<String> {
        let drawing = draw_light(timeline);
        let document = Document::parse(&drawing).expect("valid XML");
        named(&document, "text").iter().filter_map(|text| text.text().map(str::to_owned)).collect()
    };
    let part = texts(&whole.clone().between(1000, 2000));
    for text in ["before", "500 ps", "later", "3 ranks, 0 messages; goes on after this part"] {
        assert!(part.iter().any(|one| one == text), "{text}: {part:?}");
    }
    let rest = texts(&whole.between(1000, u64::MAX));
    assert!(rest.iter().any(|one| one.contains("the last rank ends at")), "{rest:?}");
    assert!(!rest.iter().any(|one| one == "later"), "{rest:?}");
}
