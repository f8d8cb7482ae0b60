//! What is to become of each job of a queue.

use super::cluster::{self, Cluster, Job, State};
use super::identify::{Library, Program};
use crate::place::factors::percent;
use anyhow::Context as _;
use castell_policy::placement::Slowdowns;
use castell_policy::placement::queue::{self, Choice, Node, Waiting, choose};
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
    pub profiles: Option<&'a Path>,
    pub slowdown_max: f64,
    pub patience: Duration,
}

/// What is known of programs: a table by name, and profiles.
pub struct Knowledge {
    slowdowns: Option<Slowdowns>,
    rows: HashMap<String, usize>,
    pub kept: Option<Library>,
    max: f64,
}

impl Knowledge {
    /// Profiles that are no help are complained about: then twins are kept apart.
    ///
    /// # Errors
    /// The file of slowdowns cannot be read, or is none.
    pub fn read(question: &Question) -> anyhow::Result<Knowledge> {
        let read = |path: &Path| -> anyhow::Result<Slowdowns> {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
            Slowdowns::parse(&text).with_context(|| path.display().to_string())
        };
        let slowdowns = question.slowdowns.map(read).transpose()?;
        let names = slowdowns.iter().flat_map(|table| table.names());
        let rows = names.enumerate().map(|(row, name)| (name.clone(), row)).collect();
        let library = Library::read(question.profiles);
        match &library {
            Ok(library) => {
                library.complaints().for_each(|what| castell_host::say(&format!("left out: {what}")))
            }
            Err(Some(why)) => castell_host::say(&format!("profiles are no help: {why}")),
            Err(None) => {}
        }
        Ok(Knowledge { slowdowns, rows, kept: library.ok(), max: question.slowdown_max })
    }

    /// A program's row: that of its name, else that of the part before the colon, which names no input.
    fn row(&self, program: &str) -> Option<usize> {
        let general = program.split(':').next().unwrap_or_default();
        self.rows.get(program).or_else(|| self.rows.get(general)).copied()
    }
}

/// The programs of a queue, by number.
struct Programs<'a> {
    all: Vec<Program>,
    knowledge: &'a Knowledge,
}

impl Programs<'_> {
    fn number(&mut self, program: &Program) -> usize {
        let entry = |of: &Program| of.found.as_ref().map(|found| found.entry);
        let is_same = |known: &Program| known.name == program.name && entry(known) == entry(program);
        self.all.iter().position(is_same).unwrap_or_else(|| {
            self.all.push(program.clone());
            self.all.len() - 1
        })
    }

    fn name(&self, program: usize) -> &str {
        &self.all[program].name
    }

    fn by_table(&self, program: usize, neighbour: usize) -> Option<f64> {
        let rows = [program, neighbour].map(|number| self.knowledge.row(self.name(number)));
        Some(self.knowledge.slowdowns.as_ref()?.of(rows[0]?, rows[1]?))
    }

    fn by_profiles(&self, program: usize, neighbour: usize) -> Option<f64> {
        let entry = |number: usize| Some(self.all[number].found.as_ref()?.entry);
        let told = self.knowledge.kept.as_ref()?.pairs.told(entry(program)?, entry(neighbour)?)?;
        Some(told.slowdown)
    }
}

impl queue::Knowledge for Programs<'_> {
    fn slowdown(&self, program: usize, neighbour: usize) -> Option<f64> {
        self.by_table(program, neighbour).or_else(|| self.by_profiles(program, neighbour))
    }

    fn slowdown_max(&self) -> f64 {
        self.knowledge.max
    }

    fn are_twins(&self, one: usize, other: usize) -> bool {
        self.name(one) == self.name(other)
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
    program: Program,
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
    pub fn make(
        cluster: &Cluster,
        of_jobs: &[Program],
        question: &Question,
        knowledge: &Knowledge,
        now: u64,
        marked: bool,
    ) -> Plan {
        let wanted = |partitions: &[String]| {
            question.partition.is_none_or(|wanted| partitions.iter().any(|partition| partition == wanted))
        };
        let nodes: Vec<&cluster::Node> =
            cluster.nodes.iter().filter(|node| node.is_up && wanted(&node.partitions)).collect();
        let mut programs = Programs { all: Vec::new(), knowledge };
        let jobs = || cluster.jobs.iter().zip(of_jobs);
        let mut states = taken(jobs(), &nodes, question, &mut programs);
        let mut waiting: Vec<(&Job, &Program)> =
            jobs().filter(|(job, _)| job.state != State::Runs && wanted(&job.partitions)).collect();
        waiting.retain(|(job, _)| !marked || job.is_marked);
        waiting.sort_by_key(|(job, _)| std::cmp::Reverse(job.priority)); // stable: those of one priority as Slurm lists them
        let mut plan = Plan { nodes: Vec::new(), slots: question.slots, decided: Vec::new(), now };
        let mut rest = Vec::new();
        for (job, program) in waiting {
            match not_ours(job, &nodes, question.slots, now) {
                Some(fate) => plan.decide(job, program, fate, String::new(), question),
                None if is_told(job) => {}
                None => rest.push((job, program)),
            }
        }
        // Partition by partition, since a job's nodes are those of its own.
        while let Some(first) = rest.first() {
            let partitions = first.0.partitions.clone();
            let (these, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|(job, _)| job.partitions == partitions);
            rest = others;
            let usable: Vec<usize> = (0..nodes.len())
                .filter(|&node| nodes[node].partitions.iter().any(|partition| partitions.contains(partition)))
                .collect();
            let offered: Vec<Node> = usable.iter().map(|&node| states[node].clone()).collect();
            let jobs = these.iter().map(|(job, program)| Waiting {
                program: programs.number(program),
                is_impatient: job.submitted + question.patience.as_secs() <= now,
            });
            let jobs: Vec<Waiting> = jobs.collect();
            let choices = choose(&offered, &jobs, &programs);
            for (((job, program), asked), choice) in these.iter().zip(&jobs).zip(choices) {
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
                plan.decide(job, program, fate, why, question);
            }
        }
        plan.nodes = nodes
            .iter()
            .zip(&states)
            .map(|(node, state)| {
                let names = state.running.iter().map(|&program| programs.name(program).to_owned()).collect();
                (node.name.clone(), state.taken, names)
            })
            .collect();
        plan
    }

    fn decide(&mut self, job: &Job, program: &Program, fate: Fate, why: String, question: &Question) {
        let patient_until = job.submitted + question.patience.as_secs();
        self.decided.push(Decided { job: job.clone(), program: program.clone(), fate, why, patient_until });
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
            let Program { name, found } = &decided.program;
            let how = found.as_ref().map_or_else(String::new, |found| format!("; {}", found.how));
            let _ = writeln!(text, "  job {:<8} {name:<14} {}{how}", decided.job.id, self.sentence(decided));
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
            let Program { name, found } = &decided.program;
            json!({
                "id": decided.job.id,
                "program": name,
                "by": found.as_ref().map(|found| crate::place::predicted::by(found.by)),
                "how": found.as_ref().map(|found| &found.how),
                "choice": choice,
                "node": node,
                "why": self.sentence(decided),
            })
        });
        json!({"nodes": nodes.collect::<Vec<_>>(), "jobs": jobs.collect::<Vec<_>>()})
    }
}

/// Nodes with those who run there, and those who were told to begin there and will in a moment.
fn taken<'a>(
    jobs: impl Iterator<Item = (&'a Job, &'a Program)>,
    nodes: &[&cluster::Node],
    question: &Question,
    programs: &mut Programs,
) -> Vec<Node> {
    let empty = Node { slots: question.slots, taken: 0, running: Vec::new() };
    let mut states = vec![empty; nodes.len()];
    for (job, program) in jobs.filter(|(job, _)| job.state == State::Runs || is_told(job)) {
        let names: Vec<&str> = match &job.required {
            Some(node) if job.state != State::Runs => vec![node],
            _ => job.nodes.iter().map(String::as_str).collect(),
        };
        let program = programs.number(program);
        let theirs = nodes.iter().zip(&mut states).filter(|(node, _)| names.contains(&node.name.as_str()));
        for (node, state) in theirs {
            state.taken += slots_of(job, node.processors, question.slots);
            state.running.push(program);
        }
    }
    states
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

/// Who is there, what that costs, and who says so, in words.
fn beside(program: usize, there: &[usize], programs: &Programs) -> String {
    let both = |of: &dyn Fn(usize, usize) -> Option<f64>, neighbour: usize| {
        Some((percent(of(program, neighbour)?), percent(of(neighbour, program)?)))
    };
    let neighbours = there.iter().map(|&neighbour| {
        let name = programs.name(neighbour);
        if let Some((own, theirs)) = both(&|one, other| programs.by_table(one, other), neighbour) {
            return format!("{name} (slowdown {own} for it, {theirs} for {name}, by the table)");
        }
        if let Some((own, theirs)) = both(&|one, other| programs.by_profiles(one, other), neighbour) {
            return format!("{name} (slowdown {own} for it, {theirs} for {name}, by profiles)");
        }
        match queue::Knowledge::are_twins(programs, program, neighbour) {
            true => format!("{name}, its twin, after having waited long enough"),
            false => format!("{name} (no twin; what they cost each other is not known)"),
        }
    });
    neighbours.collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use castell_prof::binary::Remembered;
    use std::path::PathBuf;

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
            name: program.to_owned(),
            named: None,
            words: Vec::new(),
            folder: PathBuf::from("/"),
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

    fn plan(cluster: &Cluster, now: u64) -> Plan {
        let max = f64::INFINITY;
        let knowledge = Knowledge { slowdowns: None, rows: HashMap::new(), kept: None, max };
        let patience = Duration::from_secs(600);
        let question = Question {
            slots: 2,
            partition: None,
            slowdowns: None,
            profiles: None,
            slowdown_max: max,
            patience,
        };
        let programs = super::super::identify::identify(cluster, None, &mut Remembered::default());
        Plan::make(cluster, &programs, &question, &knowledge, now, true)
    }

    /// What is ordered at a time, in one line a job.
    fn ordered(jobs: Vec<Job>, now: u64) -> Vec<String> {
        let plan = plan(&cluster(jobs), now);
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
        let plan = plan(&Cluster { nodes: Vec::new(), jobs: vec![waits("1", "a")] }, 1010);
        assert_eq!(plan.orders(), [("1".to_owned(), vec!["StartTime=now+590seconds".to_owned()])]);
        assert!(plan.text().contains("no slot is free"), "{}", plan.text());
    }
}
