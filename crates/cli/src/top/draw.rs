//! A view on a screen of any size; 80 columns and 24 rows are enough.

use super::snapshot::{Processor, Snapshot};
use super::view::{Question, View, policies};
use super::words::{HEADS, daemon, pressure, processor, session, title, wrapped};
use castell_luau::shipped;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;
use ratatui::{Frame, Terminal};
use std::convert::Infallible;

/// Columns of a processor.
const COLUMN: u16 = 20;
const KEYS: &str = "? help  s stop  r resume  e end  x explain  p policy  g governor  l load  q quit";
/// A part of ten seconds that is worth a look, and one that is worth another.
const PRESSURE_HIGH: f64 = 0.1;
const PRESSURE_HIGHER: f64 = 0.5;
/// A processor that is busier has nothing left.
const BUSY_HIGH: f64 = 0.9;

/// A view on a screen that nobody looks at: 80 columns, and as many rows as it needs, up to 24.
pub fn drawn(view: &View) -> Result<Buffer, Infallible> {
    let does = daemon(&view.snapshot).len();
    let above = 5 + view.snapshot.processors.len().div_ceil(4) + view.snapshot.sessions.len();
    // What the daemon does gets a third of the screen.
    let rows = (above + does).max(3 * does).clamp(12, 24) as u16;
    let mut terminal = Terminal::new(TestBackend::new(80, rows))?;
    terminal.draw(|frame| draw(frame, view))?;
    Ok(terminal.backend().buffer().clone())
}

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, view: &View) {
    let (width, height) = (frame.area().width, frame.area().height);
    let columns = usize::from((width / COLUMN).max(1));
    let rows = view.snapshot.processors.len().div_ceil(columns).min(usize::from(u16::MAX)) as u16;
    let does = daemon(&view.snapshot);
    let said: Vec<String> = view.said.iter().flat_map(|line| wrapped(line, width.into())).collect();
    // Processors and what was said have a third of the screen at most, and so has the daemon.
    let third = height / 3;
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(rows.min(third)),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length((does.len() as u16).min(third).max(1)),
        Constraint::Length((said.len() as u16).min(third)),
        Constraint::Length(1),
    ]);
    let [head, stalls, processors, heads, sessions, kernels, answers, keys] = areas.areas(frame.area());
    let paint = Paint { has_colours: view.has_colours };
    frame.render_widget(Line::styled(title(&view.snapshot), bold()), head);
    frame.render_widget(
        Line::styled(pressure(&view.snapshot), paint.in_colour(pressed(&view.snapshot))),
        stalls,
    );
    draw_processors(frame, view, columns, processors, paint);
    frame.render_widget(
        Line::styled(format!("{HEADS:<width$}", width = usize::from(width)), reversed()),
        heads,
    );
    draw_sessions(frame, view, sessions, paint);
    draw_daemon(frame, &does, kernels);
    let lines: Vec<Line<'_>> = said.iter().map(|line| Line::raw(&**line)).collect();
    frame.render_widget(Paragraph::new(lines), answers);
    frame.render_widget(Line::styled(last_line(view, usize::from(width)), bold()), keys);
}

/// Colours, where there are any.
#[derive(Clone, Copy)]
struct Paint {
    has_colours: bool,
}

impl Paint {
    fn in_colour(self, colour: Option<Color>) -> Style {
        colour.filter(|_| self.has_colours).map_or(Style::new(), |colour| Style::new().fg(colour))
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn pressed(snapshot: &Snapshot) -> Option<Color> {
    let parts = snapshot.pressure.as_ref()?.values().flatten();
    match parts.map(|stalls| stalls.some).fold(0.0, f64::max) {
        some if some >= PRESSURE_HIGHER => Some(Color::Red),
        some if some >= PRESSURE_HIGH => Some(Color::Yellow),
        _ => None,
    }
}

fn draw_processors(frame: &mut Frame<'_>, view: &View, columns: usize, area: Rect, paint: Paint) {
    let all = &view.snapshot.processors;
    let room = columns * usize::from(area.height);
    // The last place says how many are not shown.
    let shown = if all.len() <= room { all.len() } else { room.saturating_sub(1) };
    let colour = |cpu: &Processor| match cpu.busy {
        Some(busy) if busy >= BUSY_HIGH => Some(Color::Red),
        Some(busy) if busy >= 0.5 => Some(Color::Green),
        _ => None,
    };
    let width = usize::from(COLUMN);
    let cell =
        |cpu: &Processor| Span::styled(format!("{:<width$}", processor(cpu)), paint.in_colour(colour(cpu)));
    let mut cells: Vec<Span<'_>> = all[..shown].iter().map(cell).collect();
    if shown < all.len() {
        cells.push(Span::raw(format!("  and {} more", all.len() - shown)));
    }
    let rows: Vec<Line<'_>> = cells.chunks(columns).map(|row| Line::from(row.to_vec())).collect();
    frame.render_widget(Paragraph::new(rows), area);
}

fn draw_sessions(frame: &mut Frame<'_>, view: &View, area: Rect, paint: Paint) {
    let (height, selected) = (usize::from(area.height), view.row().unwrap_or(0));
    // The selected one is always to be seen.
    let first = (selected + 1).saturating_sub(height);
    let line = |(row, shown): (usize, &castell_policy::session::protocol::Shown)| {
        let colour = match &*shown.state {
            _ if shown.stopped || shown.paused => Some(Color::Yellow),
            "running" => Some(Color::Green),
            "suspended" => Some(Color::Yellow),
            _ => None,
        };
        let style = if row == selected { reversed() } else { Style::new() };
        let (text, width) = (session(shown), usize::from(area.width));
        Line::styled(format!("{text:<width$}"), style.patch(paint.in_colour(colour)))
    };
    let lines = view.snapshot.sessions.iter().enumerate().skip(first).take(height).map(line);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn draw_daemon(frame: &mut Frame<'_>, does: &[String], area: Rect) {
    let height = usize::from(area.height);
    let mut lines: Vec<Line<'_>> = does.iter().take(height).map(|line| Line::raw(&**line)).collect();
    if does.len() > height && height > 1 {
        lines[height - 1] =
            Line::raw(format!("and {} more lines: castell strategy status", does.len() - height + 1));
    }
    if let Some(first) = lines.first_mut() {
        first.style = bold();
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn last_line(view: &View, width: usize) -> String {
    match &view.question {
        None => KEYS.to_owned(),
        Some(Question::End(session)) => format!("end session {session}? y ends it, any other key does not"),
        Some(Question::Policy) => {
            let all = policies().map(|(letter, policy)| format!("{letter} {policy}"));
            format!("which policy? {}", all.join("  "))
        }
        Some(Question::Governor(text)) => typed("governor (high, low, ...): ", text, width),
        Some(Question::Strategy(text)) => {
            let names = shipped::ALL.map(|shipped| shipped.name).join(", ");
            typed(&format!("strategy ({names}, or a file): "), text, width)
        }
    }
}

/// The end of a text that is typed is always to be seen.
fn typed(question: &str, text: &str, width: usize) -> String {
    let all = format!("{question}{text}_");
    let over = all.chars().count().saturating_sub(width);
    all.chars().skip(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::view::Answer;
    use crate::top::view::tests::{pressed, snapshot, with_daemon};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::{Buffer, Cell};

    fn drawn(view: &View, width: u16, height: u16) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a screen");
        terminal.draw(|frame| draw(frame, view)).expect("a drawing");
        terminal.backend().buffer().clone()
    }

    fn rows(view: &View, width: u16, height: u16) -> Vec<String> {
        let row = |row: &[Cell]| row.iter().map(Cell::symbol).collect::<String>().trim_end().to_owned();
        drawn(view, width, height).content().chunks(usize::from(width)).map(row).collect()
    }

    fn view(snapshot: Snapshot) -> View {
        View::new(snapshot, false)
    }

    #[test]
    fn all_of_it_in_80_columns() {
        let rows = rows(&view(with_daemon(snapshot(&[1, 4]))), 80, 24);
        assert_eq!(
            rows[..7],
            [
                "2 sessions under surpass: 2 running, 0 waiting, 0 suspended",
                "pressure: there is no /proc/pressure: this kernel has no PSI",
                "   0 ##... 40% 1       1 ##... 40% 1",
                HEADS,
                "   1  running        2   -1 1 min 1 s  0-1          -        -  ./program 1",
                "   4  running        2   -1 1 min 1 s  0-1          -        -  ./program 4",
                "",
            ]
        );
        assert_eq!(
            rows[17..],
            [
                "banking decides, governor low; 12 done in 30 steps",
                "budget 85, battery 0.25",
                "one_core  matrix#7, then 1: matrix#8",
                "gpu       forbidden",
                "2 wait: matrix#9, lama?[2J#4",
                "1 application: matrix (31) 4",
                KEYS,
            ]
        );
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_selected_one_is_seen() {
        let mut many = with_daemon(snapshot(&(1..=40).collect::<Vec<_>>()));
        many.processors = (0..256).map(|cpu| Processor { cpu, busy: None, sessions: vec![] }).collect();
        let status = many.daemon.as_mut().expect("one");
        let more = status.resources[0].clone();
        status.resources.extend(vec![more; 20]);
        let mut view = view(many);
        pressed(&mut view, &"j".repeat(29));
        let rows = rows(&view, 80, 30);
        let cell = |cpu| format!("{cpu:>4} .....  ?%      ");
        assert_eq!(rows[11], [cell(36), cell(37), cell(38), "  and 217 more".into()].concat(), "{rows:#?}");
        assert!(rows.iter().any(|row| row.contains("./program 30")), "{rows:#?}");
        assert_eq!(rows[28], "and 17 more lines: castell strategy status");
        assert!(rows[29].starts_with("? help"));
    }

    #[test]
    fn questions_and_answers_stand_below() {
        let mut view = view(with_daemon(snapshot(&[1])));
        view.hear(Err("it cannot be".into()));
        pressed(&mut view, "p");
        let all = rows(&view, 80, 24);
        assert_eq!(
            all[22..],
            ["it cannot be", "which policy? 1 wait  2 surpass  3 overbook  4 sidestep  5 give-way"]
        );
        pressed(&mut view, "xe");
        assert_eq!(rows(&view, 80, 24)[23], "end session 1? y ends it, any other key does not");
        pressed(&mut view, "nglow");
        assert_eq!(rows(&view, 80, 24)[23], "governor (high, low, ...): low_");
        pressed(&mut view, "\n");
        view.hear(Ok(Answer::Daemon));
        pressed(&mut view, &format!("l{}", "a".repeat(90)));
        assert_eq!(rows(&view, 80, 24)[23], format!("{}_", "a".repeat(79)));
        pressed(&mut view, "\n");
        view.hear(Ok(Answer::Daemon));
        pressed(&mut view, "?");
        assert!(rows(&view, 80, 24).iter().any(|row| row.starts_with("g  another level")));
    }

    #[test]
    fn colours_are_for_those_who_want_them() {
        let mut busy = with_daemon(snapshot(&[1]));
        busy.processors[0].busy = Some(1.0);
        let colours = |view: &View| {
            drawn(view, 80, 24)
                .content()
                .iter()
                .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
                .count()
        };
        assert_eq!(colours(&View::new(busy.clone(), false)), 0);
        assert!(colours(&View::new(busy, true)) > 0);
    }

    #[test]
    fn no_screen_is_too_small() {
        let mut view = view(with_daemon(snapshot(&[1, 2, 3])));
        view.hear(Err("it cannot be".into()));
        for (width, height) in [(0, 0), (1, 1), (3, 2), (19, 4), (500, 7)] {
            rows_of_any(&view, width, height);
        }
    }

    fn rows_of_any(view: &View, width: u16, height: u16) {
        assert_eq!(drawn(view, width, height).area.height, height);
    }
}
