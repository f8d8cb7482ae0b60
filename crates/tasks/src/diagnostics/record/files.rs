//! A recording as files: a timeline, statistics; its graph is in `goal`.

use super::{Level, Recording, Wanted};
use castell_base::Rank;
use castell_sched::Kind as LeafKind;
use castell_trace::{
    Activity, Counter, Rows, Span, SvgOptions, Timeline, write_chrome, write_html, write_paraver, write_svg,
};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Beyond so many tasks it takes seconds, and a line says what is going on.
const MANY: usize = 100_000;

/// Writes what is wanted, and says on standard error what could not be.
pub(super) fn write(recording: &Recording, wanted: &Wanted) {
    let say = |path: &Path, outcome: io::Result<()>| {
        if let Err(error) = outcome {
            castell_host::say(&format!("{} could not be written: {error}", path.display()));
        }
    };
    if !recording.is_whole {
        castell_host::say(&format!("only the first {} tasks are recorded", recording.tasks.len()));
    }
    if recording.tasks.len() >= MANY {
        let files = [&wanted.trace, &wanted.graph].into_iter().flatten();
        files.for_each(|path| {
            castell_host::say(&format!("writing {} tasks to {} …", recording.tasks.len(), path.display()))
        });
    }
    if let Some(path) = &wanted.trace {
        let path = told(path);
        say(&path, write_trace(&recording.timeline(), &path));
    }
    if let Some(path) = &wanted.graph {
        let write = |mut out: BufWriter<File>| recording.write_goal(&mut out).and_then(|()| out.flush());
        say(path, File::create(path).map(BufWriter::new).and_then(write));
    }
    if wanted.summary {
        castell_host::say::raw(&recording.summary());
    }
}

/// Where a trace goes: its ending says what it is. One that says nothing gets another, rather than that a whole run is lost.
fn told(path: &Path) -> PathBuf {
    let extension = path.extension().and_then(|extension| extension.to_str());
    if extension.is_some_and(|extension| ["svg", "html", "json", "prv"].contains(&extension)) {
        return path.to_owned();
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".json");
    castell_host::say(&format!(
        "CASTELL_TASKS_TRACE={}: a trace ends in .svg, .html, .json or .prv; it is written for Perfetto, as {}",
        path.display(),
        Path::new(&name).display()
    ));
    name.into()
}

fn write_trace(timeline: &Timeline, path: &Path) -> io::Result<()> {
    let create = |path: &Path| File::create(path).map(BufWriter::new);
    let extension = path.extension().and_then(|extension| extension.to_str());
    if extension == Some("prv") {
        let [mut prv, mut pcf, mut row] =
            [create(path)?, create(&path.with_extension("pcf"))?, create(&path.with_extension("row"))?];
        write_paraver(timeline, &mut prv, &mut pcf, &mut row)?;
        prv.flush()?;
        pcf.flush()?;
        return row.flush();
    }
    let mut out = create(path)?;
    match extension {
        Some("svg") => write_svg(timeline, &SvgOptions::default(), &mut out)?,
        Some("html") => write_html(timeline, &mut out)?,
        _ => write_chrome(timeline, &mut out)?,
    }
    out.flush()
}

/// Changes in any order as a level at each moment that has some.
fn sums(mut changes: Vec<(u64, i64)>) -> Vec<(u64, i64)> {
    changes.sort_unstable();
    let mut level = 0;
    let mut samples: Vec<(u64, i64)> = Vec::new();
    for (ns, change) in changes {
        level += change;
        match samples.last_mut().filter(|last| last.0 == ns * PS) {
            Some(last) => last.1 = level,
            None => samples.push((ns * PS, level)),
        }
    }
    samples
}

/// What tasks without a label are listed under.
const UNNAMED: &str = "(no label)";

/// Nanoseconds as the timeline counts.
const PS: u64 = 1000;

impl Recording {
    /// As a timeline: a row a worker, a span a body and a wait of one, and how many tasks were not done (*live*), ready but not begun
    /// (*ready*) and running at each moment.
    pub fn timeline(&self) -> Timeline {
        let mut timeline = Timeline {
            title: "tasks".to_owned(),
            subtitle: format!("{} tasks, {} workers", self.tasks.len(), self.workers),
            rows: Rows::Workers,
            // Other threads, if any ran a task.
            ranks: self
                .tasks
                .iter()
                .filter_map(|task| task.ran)
                .map(|(.., worker)| worker + 1)
                .fold(self.workers, u32::max),
            ..Timeline::default()
        };
        let mut changes = [Vec::new(), Vec::new(), Vec::new()];
        for (index, task) in self.tasks.iter().enumerate() {
            let [live, ready, running] = &mut changes;
            live.push((task.created_ns, 1));
            let Some((begin, end, worker)) = task.ran else { continue };
            // What a body waited for after all (turns, events) is not known: ready at the latest when it began.
            ready.extend([(self.ready_ns(index).min(begin), 1), (begin, -1)]);
            running.extend([(begin, 1), (end, -1)]);
            live.push((end, -1));
            let name = if task.label.is_empty() { format!("task {index}") } else { task.label.to_owned() };
            let span = |name, activity, (from, to)| Span {
                rank: Rank(worker),
                name,
                activity,
                start_ps: from * PS,
                end_ps: to * PS,
            };
            let waits = format!("{name} waits");
            timeline.spans.push(span(name, Activity::Compute, (begin, end)));
            let paused = task.pauses.iter().map(|&pause| span(waits.clone(), Activity::Wait, pause));
            timeline.spans.extend(paused);
        }
        timeline.dependences = self.waited();
        for (name, changes) in ["live", "ready", "running"].into_iter().zip(changes) {
            timeline.counters.push(Counter { name: name.to_owned(), samples: sums(changes) });
        }
        timeline.counters.extend(self.queues());
        timeline.coloured_by_label()
    }

    /// The scheduler's queues: a counter a worker, one for those that are shared, and the threshold, if there is one.
    fn queues(&self) -> Vec<Counter> {
        let workers = self.levels.first().map_or(0, |level| level.workers.len());
        let counter = |name: String, value: &dyn Fn(&Level) -> usize| Counter {
            name,
            samples: self.levels.iter().map(|level| (level.ns * PS, value(level) as i64)).collect(),
        };
        let mut counters: Vec<Counter> = (0..workers)
            .map(|worker| counter(format!("queue of worker {worker}"), &|level| level.workers[worker]))
            .collect();
        if !self.levels.is_empty() {
            counters.push(counter("shared queues".to_owned(), &|level| level.shared));
        }
        if self.levels.iter().any(|level| level.threshold > 0) {
            counters.push(counter("threshold".to_owned(), &|level| level.threshold as usize));
        }
        counters
    }

    /// Statistics for people: of workers, and of labels.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        let (span, count) = (self.span_ns(), self.tasks.len());
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "castell: {count} tasks in {:.3} ms on {} workers",
            span as f64 / 1e6,
            self.workers
        );
        let mut workers: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        let mut labels: BTreeMap<(&str, LeafKind), Vec<u64>> = BTreeMap::new();
        let mut delays = Vec::new();
        for (index, task) in self.tasks.iter().enumerate() {
            let Some((begin, _, worker)) = task.ran else { continue };
            let of_worker = workers.entry(worker).or_default();
            *of_worker = (of_worker.0 + 1, of_worker.1 + task.own_ns());
            let label = if task.label.is_empty() { UNNAMED } else { task.label };
            let kind = self.kind_of(task).unwrap_or(LeafKind::CPU);
            labels.entry((label, kind)).or_default().push(task.own_ns());
            delays.push(begin.saturating_sub(self.ready_ns(index)));
        }
        for (worker, (tasks, busy)) in workers {
            let share = 100.0 * busy as f64 / span.max(1) as f64;
            let _ = writeln!(text, "  worker {worker:3}: {tasks:9} tasks, busy {share:5.1} %");
        }
        for ((label, kind), mut times) in labels {
            times.sort_unstable();
            let (sum, count) = (times.iter().sum::<u64>(), times.len());
            let (mean, median, max) = (sum / count as u64, times[count / 2], times[count - 1]);
            let place = match kind {
                LeafKind::CPU => String::new(),
                LeafKind(kind) => format!(" on devices of kind {kind}"),
            };
            let rate = self.ns_per_cost(if label == UNNAMED { "" } else { label });
            let rate = rate.map_or(String::new(), |rate| format!(", {rate:.3} ns a unit of cost"));
            let _ = writeln!(
                text,
                "  {label}{place}: {count} tasks, mean {mean} ns, median {median} ns, longest {max} ns{rate}"
            );
        }
        text.push_str(&self.parallelism());
        if !delays.is_empty() {
            delays.sort_unstable();
            let at = |share: usize| delays[(delays.len() - 1) * share / 100];
            let _ = writeln!(text, "  from ready to begun: median {} ns, 99 % within {} ns", at(50), at(99));
        }
        text
    }

    /// What there is to do, what of it one after the other, and what the workers made of it.
    fn parallelism(&self) -> String {
        let (work, longest) = (self.work_ns(), self.longest_chain_ns());
        let ran = self.tasks.iter().filter_map(|task| task.ran.map(|(.., worker)| worker != task.creator));
        let (moved, count) =
            ran.fold((0, 0), |(moved, count), elsewhere| (moved + usize::from(elsewhere), count + 1));
        let idle = (u64::from(self.workers) * self.span_ns()).saturating_sub(work);
        let ms = |ns: u64| ns as f64 / 1e6;
        format!(
            "  work {:.3} ms, longest chain {:.3} ms: {:.1} workers at most have something to do on average\n  \
             workers without a task: {:.3} ms together; {moved} of {count} tasks ran on another than their creator's\n",
            ms(work),
            ms(longest),
            work as f64 / longest.max(1) as f64,
            ms(idle)
        )
    }
}
