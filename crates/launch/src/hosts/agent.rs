//! The agent of a host: hears what the job is, starts the ranks of its host, and tells the launcher what becomes of them.

use super::control::{Control, Heard, LAUNCHER};
use super::wire::{Description, Gone, News, Order, Told, VERSION};
use super::{REFUSED, UNREACHABLE, notes, options};
use crate::launch::{Demand, Elsewhere, Handed, Launch};
use castell_base::Rank;
use castell_host::journal::{DESCRIPTOR_VARIABLE, Journals};
use castell_host::process::Ended;
use castell_host::secret::Secret;
use castell_host::topology::Processors;
use castell_host::{clock, descriptor, say};
use castell_shm::job::{Death, Job, Net, RankState};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::time::Duration;

/// A description is never longer.
const DESCRIPTION_BYTES_MAX: u32 = 64 << 20;
/// The first line is never longer.
const LINE_BYTES_MAX: usize = 200;
/// What ranks noted goes in pieces of so many bytes, of which so many wait for the network.
const PIECE_BYTES: usize = 48 << 10;
const PIECES_WAITING_MAX: usize = 64;
/// Who rests looks as often whether there is room for what waits.
const RESTING_LOOK_MS: i32 = 5;
/// How long an agent waits until the launcher has heard its last word.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// What stands before the description of a job: who does not know it is another version.
pub(super) fn first_line() -> String {
    format!("castell agent {VERSION} of {}\n", env!("CARGO_PKG_VERSION"))
}

/// Lives as an agent whose launcher writes to `input`; gives the code to exit with. What follows in `input` behind the description is left
/// for rank 0.
pub fn serve(input: &mut impl Read) -> i32 {
    match hear(input).and_then(|description| start(&description)) {
        Ok(code) => code,
        Err((why, code)) => {
            say(&format!("{}: {why}", host_name()));
            code
        }
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}

/// Reads exactly the description, and nothing of what follows.
fn hear(input: &mut impl Read) -> Result<Description, (String, i32)> {
    let refuse = |why: String| (why, REFUSED);
    let broken =
        |error: io::Error| refuse(format!("the launcher's description of the job ended too soon ({error})"));
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
        if input.read_exact(&mut byte).is_err() {
            break;
        }
        line.push(byte[0]);
    }
    let said = String::from_utf8_lossy(&line).into_owned();
    if said != first_line() {
        let theirs = said.strip_prefix("castell agent ").and_then(|said| said.split_once(" of "));
        let ours = env!("CARGO_PKG_VERSION");
        return Err(refuse(match theirs {
            Some((protocol, version)) => format!(
                "here is castell {ours} (agents' protocol {VERSION}), where the job was launched castell {} (protocol {protocol}): install the \
                 same version on both",
                version.trim_end()
            ),
            None => "`castell agent` is started by `castell launch --hosts`, which describes the job on standard input".into(),
        }));
    }
    let mut length = [0; 4];
    input.read_exact(&mut length).map_err(broken)?;
    let length = u32::from_le_bytes(length);
    let mut bytes = vec![0; length.min(DESCRIPTION_BYTES_MAX) as usize];
    input.read_exact(&mut bytes).map_err(broken)?;
    let mut secret = || {
        let mut read = Ok(());
        let secret = Secret::filled(|place| read = input.read_exact(place));
        read.map_err(broken).map(|()| secret)
    };
    Description::from_bytes(&bytes, [secret()?, secret()?])
        .ok_or_else(|| refuse("the launcher's description of the job makes no sense".into()))
}

fn start(description: &Description) -> Result<i32, (String, i32)> {
    let refuse = |why: String| (why, REFUSED);
    let me = Rank(description.agent);
    let net = options::net_of(&description.options);
    let listen = net.place().addresses().map_err(|why| refuse(format!("--net {net}: {why}")))?;
    let control = Control::open(me, description.agents + 1, description.control_secret.clone(), net, &listen);
    let mut control = control.map_err(|error| refuse(error.to_string()))?;
    control.introduce(LAUNCHER, &description.launcher).map_err(refuse)?;
    let ready = Told::Ready { processors: Processors::usable().count() as u32, address: control.address() };
    control.say(LAUNCHER, ready.to_bytes());
    let Some(processors) = wait_for_start(&mut control)? else { return Ok(0) };
    let prepared = prepare(description, processors).and_then(|mut launch| {
        let journals = journals(description)?;
        launch.inherited =
            journals.iter().map(|journals| (DESCRIPTOR_VARIABLE, journals.descriptor())).collect();
        launch.inherited_by = packet_sockets(description, net);
        Ok((launch, journals))
    });
    let (failed, prepared) = match prepared {
        Ok(prepared) => (None, Some(prepared)),
        Err(why) => (Some((why, 126)), None),
    };
    let ranks = ranks_here(description);
    let mut here = Here { control, told: vec![Known::default(); ranks.len()], ranks, demands: Vec::new() };
    let failed = failed.or_else(|| {
        let (launch, journals) = prepared.expect("it was prepared");
        let words: Vec<OsString> = description.command.iter().cloned().map(OsString::from_vec).collect();
        let ranks = here.ranks.clone();
        let outcome = launch.part(&ranks, &mut here, &words[0], &words[1..]);
        if let (Ok(_), Some(journals)) = (&outcome, &journals) {
            here.tell_what_was_noted(journals);
            here.rest();
        }
        outcome.err().map(|error| (error.to_string(), error.exit_code()))
    });
    let last = match failed {
        Some((why, code)) => Told::Failed { why, code },
        None => Told::Done,
    };
    here.control.say(LAUNCHER, last.to_bytes());
    here.control.leave(LEAVE_WITHIN);
    Ok(0)
}

/// Waits until all hosts are ready: how many processors they have together. `None`: nothing is to be started after all.
fn wait_for_start(control: &mut Control) -> Result<Option<u32>, (String, i32)> {
    loop {
        let mut all = control.poll().into_iter();
        while let Some(heard) = all.next() {
            match heard {
                Heard::Message(_, bytes) => match Order::from_bytes(&bytes) {
                    Some(Order::Start { processors }) => {
                        // Ranks of other hosts may have been quicker.
                        control.put_back(all.collect());
                        return Ok(Some(processors));
                    }
                    Some(Order::Clock { sent_ns }) => answer(control, sent_ns),
                    Some(Order::Terminate | Order::Signal(_)) => {
                        control.leave(LEAVE_WITHIN);
                        return Ok(None);
                    }
                    _ => {}
                },
                Heard::Down(..) => {
                    let why = control.trouble(LAUNCHER).unwrap_or_else(|| "it is gone".into());
                    return Err((format!("the launcher of the job cannot be reached ({why})"), UNREACHABLE));
                }
            }
        }
        if let Some(descriptor) = control.arm() {
            let _ = descriptor::wait_readable(&[descriptor], -1);
        }
    }
}

/// Says what the clock of this host says.
fn answer(control: &mut Control, sent_ns: u64) {
    control.say(LAUNCHER, Told::Clock { sent_ns, theirs_ns: clock::now_ns() }.to_bytes());
}

fn ranks_here(description: &Description) -> Vec<Rank> {
    let all = (0..).map(Rank).zip(&description.places);
    all.filter(|(_, place)| **place == description.agent).map(|(rank, _)| rank).collect()
}

/// What ranks get that send raw frames: the agent may have the right to open it where their program has not. Where it has not either, a rank tries
/// it itself, and says what is wrong.
fn packet_sockets(description: &Description, net: Net) -> Vec<Handed> {
    let Net::Esp(interfaces) = net else { return Vec::new() };
    let names: Vec<String> = interfaces.names().map(String::from).collect();
    let open = |rank| {
        let opened = castell_frames::sockets(rank, description.job_secret.bytes(), &names);
        let descriptors = opened.ok()?.into_iter().map(|socket| Arc::new(socket.into())).collect();
        Some(Handed { rank, variable: castell_frames::SOCKETS_VARIABLE, descriptors })
    };
    ranks_here(description).into_iter().filter_map(open).collect()
}

/// Where the ranks of this host note what they do, if the launcher wants to know.
fn journals(description: &Description) -> Result<Option<Journals>, String> {
    let rows = description.journal_rows as usize;
    let made = (rows > 0).then(|| Journals::create(description.places.len(), rows)).transpose();
    made.map_err(|error| format!("no memory for what ranks note ({error}): ask for fewer events"))
}

fn prepare(description: &Description, processors: u32) -> Result<Launch, String> {
    let folder = std::path::Path::new(std::ffi::OsStr::from_bytes(&description.folder));
    std::env::set_current_dir(folder)
        .map_err(|error| format!("the folder {} cannot be entered ({error})", folder.display()))?;
    let mut launch = Launch::new(description.places.len() as u32);
    options::from_words(&description.options, &mut launch)
        .map_err(|word| format!("the option `{word}` of the launcher is not known"))?;
    launch.environment = description
        .environment
        .iter()
        .filter_map(|one| {
            let at = one.iter().position(|byte| *byte == b'=')?;
            Some((OsString::from_vec(one[..at].to_vec()), OsString::from_vec(one[at + 1..].to_vec())))
        })
        .collect();
    launch.job.hosts = description.places.clone();
    launch.job.host_names = description.host_names();
    launch.job.here = description.agent;
    launch.job.secret = Some(description.job_secret.clone());
    launch.job.processors = processors;
    Ok(launch)
}

/// What was told of a rank.
#[derive(Clone, Copy, Default)]
struct Known {
    address: bool,
    gone: bool,
}

/// The ranks of this host, for those of others.
struct Here {
    control: Control,
    ranks: Vec<Rank>,
    told: Vec<Known>,
    demands: Vec<Demand>,
}

impl Here {
    fn tell(&mut self, news: News) {
        self.control.say(LAUNCHER, Told::News(news).to_bytes());
    }

    fn tell_news(&mut self, job: &Job) {
        for at in 0..self.ranks.len() {
            let rank = self.ranks[at];
            if !self.told[at].address
                && let Some(address) = job.net_address(rank)
            {
                self.told[at].address = true;
                self.tell(News::Address(rank, address));
            }
            let gone = match job.control(rank).state() {
                RankState::Finished => Gone::Left,
                RankState::Dead(death) => Gone::Died(death),
                RankState::Unborn | RankState::Alive => continue,
            };
            if !std::mem::replace(&mut self.told[at].gone, true) {
                self.tell(News::Gone(rank, gone));
            }
        }
    }

    /// All of it, however long that takes.
    fn tell_what_was_noted(&mut self, journals: &Journals) {
        for rank in self.ranks.clone() {
            for piece in notes::to_bytes(&journals.read(rank.index())).chunks(PIECE_BYTES) {
                self.control.say(LAUNCHER, Told::Noted(rank, piece.to_vec()).to_bytes());
                while self.control.is_up(LAUNCHER) && self.control.waiting(LAUNCHER) >= PIECES_WAITING_MAX {
                    self.hear_while_resting();
                }
            }
        }
    }

    /// Answers until the launcher wants to know nothing any more.
    fn rest(&mut self) {
        self.control.say(LAUNCHER, Told::Resting.to_bytes());
        while self.control.is_up(LAUNCHER) && !self.hear_while_resting() {}
    }

    /// Waits until something comes, or a moment; whether this was the order to leave.
    fn hear_while_resting(&mut self) -> bool {
        if let Some(descriptor) = self.control.arm() {
            let _ = descriptor::wait_readable(&[descriptor], RESTING_LOOK_MS);
        }
        let mut leaves = false;
        for heard in self.control.poll() {
            let Heard::Message(_, bytes) = heard else { continue };
            match Order::from_bytes(&bytes) {
                Some(Order::Clock { sent_ns }) => answer(&mut self.control, sent_ns),
                Some(Order::Leave | Order::Terminate) => leaves = true,
                _ => {}
            }
        }
        leaves
    }

    /// Writes what is known of a rank elsewhere into this host's segment.
    fn note(&self, job: &Job, news: News) {
        let (News::Address(rank, _) | News::Gone(rank, _)) = news;
        // What the launcher says about ranks here or about none is no news.
        if rank.0 >= job.ranks() || self.ranks.contains(&rank) {
            return;
        }
        let is_address = matches!(news, News::Address(..));
        note(job, news);
        if is_address {
            // Who waits for it looks again.
            self.ranks.iter().for_each(|rank| {
                job.control(*rank).doorbell.ring();
            });
        }
    }
}

/// Writes news of a rank elsewhere into a segment.
pub(super) fn note(job: &Job, news: News) {
    match news {
        News::Address(rank, address)
            if (1..=castell_shm::job::NET_ADDRESS_BYTES_MAX).contains(&address.len()) =>
        {
            job.publish_net_address(rank, &address);
            job.note_joined_elsewhere(rank);
        }
        News::Address(..) => {}
        // Whoever met it hears so from the rank itself.
        News::Gone(rank, Gone::Left) => job.mark_finished(rank, &[]),
        News::Gone(rank, Gone::Died(death)) => job.mark_dead(rank, death),
    }
}

impl Elsewhere for Here {
    fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        self.control.arm()
    }

    fn expects_more(&self, _job: &Job) -> bool {
        self.told.iter().any(|known| !known.gone)
    }

    fn exchange(&mut self, job: &Job) -> Vec<Demand> {
        self.tell_news(job);
        for heard in self.control.poll() {
            let order = match heard {
                Heard::Message(_, bytes) => Order::from_bytes(&bytes),
                Heard::Down(..) => {
                    for rank in (0..job.ranks()).map(Rank).filter(|rank| !self.ranks.contains(rank)) {
                        job.mark_dead(rank, Death::Vanished);
                    }
                    self.demands.push(Demand::Kill);
                    continue;
                }
            };
            match order {
                Some(Order::News(news)) => self.note(job, news),
                Some(Order::Signal(signal)) => self.demands.push(Demand::Signal(signal)),
                Some(Order::Failed) => self.demands.push(Demand::Grace),
                Some(Order::Terminate) => self.demands.push(Demand::Terminate),
                Some(Order::Clock { sent_ns }) => answer(&mut self.control, sent_ns),
                Some(Order::Start { .. } | Order::Leave) | None => {}
            }
        }
        std::mem::take(&mut self.demands)
    }

    fn tell_ended(&mut self, rank: Rank, ended: Ended) {
        self.control.say(LAUNCHER, Told::Ended(rank, ended).to_bytes());
    }
}
