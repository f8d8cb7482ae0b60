//! What is to become of each job of a queue.

use super::cluster::{self, Cluster, Job, State};
use anyhow::Context as _;
use castell_policy::placement::Slowdowns;
use castell_policy::placement::queue::{Choice, Knowledge, Node, Waiting, choose};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

/// Jobs of which the text tells; JSON has all.
const LINES_MAX: usize = 200;
/// A job that was told where to run and has not begun so long after is left to Slurm.
const IN_VAIN: u64 = 30;

/// What is asked.
pub struct Question<'a> {
    pub slots: u32,
    pub partition: Option<&'a str>,
    pub slowdowns: Option<&'a Path>,
    pub slowdown_max: f64,
    pub patience: Duration,
}

/// What is known of programs by name.
pub struct Table {
    slowdowns: Option<Slowdowns>,
    rows: HashMap<String, usize>,
    max: f64,
}

impl Table {
    /// # Errors
    /// The file of slowdowns cannot be read, or is none.
    pub fn read(question: &Question) -> anyhow::Result<Table> {
        let read = |path: &Path| -> anyhow::Result<Slowdowns> {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Slowdowns::parse(&text).with_context(|| path.display().to_string())
        };
        let slowdowns = question.slowdowns.map(read).transpose()?;
        let names = slowdowns.iter().flat_map(|table| table.names());
        let rows = names.enumerate().map(|(row, name)| (name.clone(), row)).collect();
        Ok(Table { slowdowns, rows, max: question.slowdown_max })
    }

    /// A program's row: that of its name, else that of the part before the colon, which names no input.
    fn row(&self, program: &str) -> Option<usize> {
        let general = program.split(':').next().unwrap_or_default();
        self.rows.get(program).or_else(|| self.rows.get(general)).copied()
    }
}

/// The programs of a queue, by number.
struct Programs<'a> {
    names: Vec<String>,
    table: &'a Table,
}

impl Programs<'_> {
    fn number(&mut self, name: &str) -> usize {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

impl Knowledge for Programs<'_> {
    fn slowdown(&self, program: usize, neighbour: usize) -> Option<f64> {
        let rows = [program, neighbour].map(|number| self.table.row(&self.names[number]));
        Some(self.table.slowdowns.as_ref()?.of(rows[0]?, rows[1]?))
    }

    fn slowdown_max(&self) -> f64 {
        self.table.max
    }
}

/// What is to become of a job.
#[derive(Debug)]
enum Fate {
    /// It begins on this node.
    Start(String),
    /// No slot is free.
    Full,
    /// All free slots are beside those that it is kept from.
    Apart,
    /// Not ours to decide.
    Left(String),
    /// It was told to begin, but has not: Slurm is to start it where it likes.
    InVain,
}

struct Decided {
    job: Job,
    fate: Fate,
    why: String,
    /// It takes any slot from then on.
    patient_until: u64,
}

pub struct Plan {
    nodes: Vec<(String, u32, Vec<String>)>,
    slots: u32,
    decided: Vec<Decided>,
    now: u64,
}

impl Plan {
    /// `marked`: only for jobs that the plug-in has marked.
    pub fn make(cluster: &Cluster, question: &Question, table: &Table, now: u64, marked: bool) -> Plan {
        let wanted = |partitions: &[String]| {
            question.partition.is_none_or(|wanted| partitions.iter().any(|partition| partition == wanted))
        };
        let nodes: Vec<&cluster::Node> =
            cluster.nodes.iter().filter(|node| node.is_up && wanted(&node.partitions)).collect();
        let mut programs = Programs { names: Vec::new(), table };
        let mut states: Vec<Node> =
            nodes.iter().map(|_| Node { slots: question.slots, taken: 0, running: Vec::new() }).collect();
        // Also who was told where to begin, and will in a moment.
        let there = |job: &&Job| job.state == State::Runs || is_told(job);
        for job in cluster.jobs.iter().filter(there) {
            let names: Vec<&str> = match &job.required {
                Some(node) if job.state != State::Runs => vec![node],
                _ => job.nodes.iter().map(String::as_str).collect(),
            };
            let program = programs.number(&job.program);
            for (node, state) in
                nodes.iter().zip(&mut states).filter(|(node, _)| names.contains(&node.name.as_str()))
            {
                state.taken += slots_of(job, node.processors, question.slots);
                state.running.push(program);
            }
        }
        let mut waiting: Vec<&Job> =
            cluster.jobs.iter().filter(|job| job.state != State::Runs && wanted(&job.partitions)).collect();
        waiting.retain(|job| !marked || job.is_marked);
        waiting.sort_by_key(|job| std::cmp::Reverse(job.priority)); // stable: those of one priority as Slurm lists them
        let mut plan = Plan { nodes: Vec::new(), slots: question.slots, decided: Vec::new(), now };
        let mut rest = Vec::new();
        for job in waiting {
            match not_ours(job, &nodes, question.slots, now) {
                Some(fate) => plan.decide(job, fate, String::new(), question),
                None if is_told(job) => {}
                None => rest.push(job),
            }
        }
        // Partition by partition, since a job's nodes are those of its own.
        while let Some(first) = rest.first() {
            let partitions = first.partitions.clone();
            let (these, others): (Vec<&Job>, Vec<&Job>) =
                rest.into_iter().partition(|job| job.partitions == partitions);
            rest = others;
            let usable: Vec<usize> = (0..nodes.len())
                .filter(|&node| nodes[node].partitions.iter().any(|partition| partitions.contains(partition)))
                .collect();
            let offered: Vec<Node> = usable.iter().map(|&node| states[node].clone()).collect();
            let jobs = these.iter().map(|job| Waiting {
                program: programs.number(&job.program),
                is_impatient: job.submitted + question.patience.as_secs() <= now,
            });
            let jobs: Vec<Waiting> = jobs.collect();
            let choices = choose(&offered, &jobs, &programs);
            for ((job, asked), choice) in these.iter().zip(&jobs).zip(choices) {
                let (fate, why) = match choice {
                    Choice::Start(node) => {
                        let node = usable[node];
                        let why = beside(asked.program, &states[node].running, &programs);
                        states[node].taken += 1;
                        states[node].running.push(asked.program);
                        (Fate::Start(nodes[node].name.clone()), why)
                    }
                    Choice::Full => (Fate::Full, String::new()),
                    Choice::Apart => (Fate::Apart, String::new()),
                };
                plan.decide(job, fate, why, question);
            }
        }
        plan.nodes = nodes
            .iter()
            .zip(&states)
            .map(|(node, state)| {
                let names = state.running.iter().map(|&program| programs.names[program].clone()).collect();
                (node.name.clone(), state.taken, names)
            })
            .collect();
        plan
    }

    fn decide(&mut self, job: &Job, fate: Fate, why: String, question: &Question) {
        let patient_until = job.submitted + question.patience.as_secs();
        self.decided.push(Decided { job: job.clone(), fate, why, patient_until });
    }

    /// What `scontrol update` has to be told, by job.
    pub fn orders(&self) -> Vec<(String, Vec<String>)> {
        let order = |decided: &Decided| {
            let words = match &decided.fate {
                Fate::Start(node) => vec![format!("ReqNodeList={node}"), "StartTime=now".to_owned()],
                Fate::InVain => vec!["ReqNodeList=".to_owned()],
                // Slurm starts it wherever there is room: now.
                Fate::Left(_) if decided.job.state == State::Waits && decided.job.start > self.now => {
                    vec!["StartTime=now".to_owned()]
                }
                // It begins by itself when its patience ends, should nobody come to look before.
                Fate::Full | Fate::Apart if decided.patient_until > self.now + 1 => {
                    if decided.job.start.abs_diff(decided.patient_until) <= 5 {
                        return None;
                    }
                    vec![format!("StartTime=now+{}seconds", decided.patient_until - self.now)]
                }
                _ => return None,
            };
            Some((decided.job.id.clone(), words))
        };
        self.decided.iter().filter_map(order).collect()
    }

    fn sentence(&self, decided: &Decided) -> String {
        let then = decided.patient_until.saturating_sub(self.now);
        match &decided.fate {
            Fate::Start(node) if decided.why.is_empty() => format!("starts on {node}, alone"),
            Fate::Start(node) => format!("starts on {node} beside {}", decided.why),
            Fate::Full => "waits: no slot is free".to_owned(),
            Fate::Apart => {
                format!("waits: free slots are only beside what it is kept from; in {then} s it takes any")
            }
            Fate::Left(why) => format!("is Slurm's to place: {why}"),
            Fate::InVain => "is Slurm's to place: it did not start where it was sent".to_owned(),
        }
    }

    pub fn text(&self) -> String {
        let taken: u32 = self.nodes.iter().map(|(_, taken, _)| (*taken).min(self.slots)).sum();
        let slots = self.slots * self.nodes.len() as u32;
        let mut text = format!(
            "{} nodes of {} slots, {taken} of {slots} taken after this\n",
            self.nodes.len(),
            self.slots
        );
        for decided in self.decided.iter().take(LINES_MAX) {
            let _ = writeln!(
                text,
                "  job {:<8} {:<14} {}",
                decided.job.id,
                decided.job.program,
                self.sentence(decided)
            );
        }
        if self.decided.len() > LINES_MAX {
            let _ = writeln!(text, "  and {} more; --json has all", self.decided.len() - LINES_MAX);
        }
        if self.decided.is_empty() {
            text += "  no job waits\n";
        }
        text
    }

    pub fn to_json(&self) -> Value {
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(name, taken, programs)| json!({"name": name, "slots": self.slots, "taken": taken, "programs": programs}));
        let jobs = self.decided.iter().map(|decided| {
            let (choice, node) = match &decided.fate {
                Fate::Start(node) => ("start", Some(node)),
                Fate::Full => ("full", None),
                Fate::Apart => ("apart", None),
                Fate::Left(_) | Fate::InVain => ("left", None),
            };
            let Job { id, program, .. } = &decided.job;
            json!({"id": id, "program": program, "choice": choice, "node": node, "why": self.sentence(decided)})
        });
        json!({"nodes": nodes.collect::<Vec<_>>(), "jobs": jobs.collect::<Vec<_>>()})
    }
}

/// It waits for a node that it was told to begin on.
fn is_told(job: &Job) -> bool {
    job.state == State::Waits && job.is_marked && job.required.is_some()
}

/// How many slots of a node of so many processors a job takes.
fn slots_of(job: &Job, processors: u64, slots: u32) -> u32 {
    let a_slot = (processors / u64::from(slots)).max(1);
    let taken = u32::try_from(job.processors.div_ceil(a_slot)).unwrap_or(slots);
    if job.is_exclusive { slots } else { taken.min(slots) }
}

/// Why a job is Slurm's to place, if it is.
fn not_ours(job: &Job, nodes: &[&cluster::Node], slots: u32, now: u64) -> Option<Fate> {
    if is_told(job) && job.submitted.max(job.start) + IN_VAIN < now {
        return Some(Fate::InVain);
    }
    let why = match job {
        Job { state: State::IsKept, .. } => "it is held, or waits for something else",
        Job { node_count: 2.., .. } => "it wants several nodes",
        Job { is_exclusive: true, .. } => "it wants a node of its own",
        Job { is_marked: false, required: Some(_), .. } => "it says itself where it runs",
        // Where no node is up, as just after a start of Slurm's, nobody can tell.
        _ if !nodes.is_empty() && nodes.iter().all(|node| slots_of(job, node.processors, slots) > 1) => {
            "it needs more than a slot"
        }
        _ => return None,
    };
    Some(Fate::Left(why.to_owned()))
}

/// Who is there, and what that costs, in words.
fn beside(program: usize, there: &[usize], programs: &Programs) -> String {
    let percent = |factor: Option<f64>| factor.map(crate::place::factors::percent);
    let neighbours = there.iter().map(|&neighbour| {
        let name = &programs.names[neighbour];
        match (percent(programs.slowdown(program, neighbour)), percent(programs.slowdown(neighbour, program)))
        {
            (Some(own), Some(theirs)) => format!("{name} (slowdown {own} for it, {theirs} for {name})"),
            _ if program == neighbour => format!("{name}, its twin, after having waited long enough"),
            _ => format!("{name} (no twin; what they cost each other is not known)"),
        }
    });
    neighbours.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(jobs: Vec<Job>) -> Cluster {
        let node = |name: &str| cluster::Node {
            name: name.to_owned(),
            processors: 4,
            partitions: vec!["main".to_owned()],
            is_up: true,
        };
        Cluster { nodes: vec![node("n1"), node("n2")], jobs }
    }

    fn waits(id: &str, program: &str) -> Job {
        Job {
            id: id.to_owned(),
            program: program.to_owned(),
            partitions: vec!["main".to_owned()],
            state: State::Waits,
            nodes: Vec::new(),
            required: None,
            node_count: 1,
            processors: 2,
            is_exclusive: false,
            is_marked: true,
            priority: 1,
            submitted: 1000,
            start: 1060,
        }
    }

    fn runs(id: &str, program: &str, node: &str) -> Job {
        Job { state: State::Runs, nodes: vec![node.to_owned()], ..waits(id, program) }
    }

    /// What is ordered at a time, in one line a job.
    fn ordered(jobs: Vec<Job>, now: u64) -> Vec<String> {
        let table = Table { slowdowns: None, rows: HashMap::new(), max: f64::INFINITY };
        let patience = Duration::from_secs(600);
        let question =
            Question { slots: 2, partition: None, slowdowns: None, slowdown_max: f64::INFINITY, patience };
        let plan = Plan::make(&cluster(jobs), &question, &table, now, true);
        plan.orders().into_iter().map(|(job, words)| format!("{job} {}", words.join(" "))).collect()
    }

    #[test]
    fn jobs_are_told_to_begin_or_to_wait_until_their_patience_ends() {
        let both = || vec![runs("1", "a", "n1"), runs("2", "a", "n2"), waits("3", "a"), waits("4", "b")];
        assert_eq!(ordered(both(), 1010), ["3 StartTime=now+590seconds", "4 ReqNodeList=n1 StartTime=now"]);
        // Told already.
        let mut told = both();
        told[2].start = 1600;
        assert_eq!(ordered(told, 1010), ["4 ReqNodeList=n1 StartTime=now"]);
        // Impatient: anywhere.
        assert_eq!(ordered(both(), 1601)[0], "3 ReqNodeList=n1 StartTime=now");
    }

    #[test]
    fn who_was_told_where_to_begin_has_its_slot() {
        let told = Job { required: Some("n1".to_owned()), start: 1010, ..waits("1", "a") };
        assert_eq!(ordered(vec![told.clone(), waits("2", "a")], 1012), ["2 ReqNodeList=n2 StartTime=now"]);
        // It has not begun for a long time: wherever Slurm likes.
        assert_eq!(ordered(vec![told], 1010 + IN_VAIN + 1), ["1 ReqNodeList="]);
    }

    #[test]
    fn what_is_not_ours_begins_where_slurm_likes() {
        let large = Job { processors: 3, ..waits("1", "a") };
        let wide = Job { node_count: 2, ..waits("2", "a") };
        let alone = Job { is_exclusive: true, ..waits("3", "a") };
        let held = Job { state: State::IsKept, ..waits("4", "a") };
        let unmarked = Job { is_marked: false, ..waits("5", "a") };
        let orders = ordered(vec![large, wide, alone, held, unmarked], 1010);
        assert_eq!(orders, ["1 StartTime=now", "2 StartTime=now", "3 StartTime=now"]);
    }

    #[test]
    fn nothing_is_decided_while_no_node_is_up() {
        let table = Table { slowdowns: None, rows: HashMap::new(), max: f64::INFINITY };
        let patience = Duration::from_secs(600);
        let question =
            Question { slots: 2, partition: None, slowdowns: None, slowdown_max: f64::INFINITY, patience };
        let cluster = Cluster { nodes: Vec::new(), jobs: vec![waits("1", "a")] };
        let plan = Plan::make(&cluster, &question, &table, 1010, true);
        assert_eq!(plan.orders(), [("1".to_owned(), vec!["StartTime=now+590seconds".to_owned()])]);
        assert!(plan.text().contains("no slot is free"), "{}", plan.text());
    }
}
