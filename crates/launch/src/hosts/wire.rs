//! What launcher and agents say to each other, as bytes. Without I/O; README.md has who says what when.
//!
//! Numbers are little endian, texts stand behind their length. What does not read to its end, exactly, is nothing.

use castell_base::Rank;
use castell_host::process::Ended;
use castell_host::secret::Secret;
use castell_shm::job::Death;

/// Of what follows; the first line of a job's description has it, too.
pub const VERSION: u32 = 4;

/// No text or list is longer.
const LENGTH_MAX: usize = 1 << 24;

/// How a rank went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// Left in order.
    Left,
    /// Did not.
    Died(Death),
}

/// News of ranks, told by their agent and passed on by the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// It is found there.
    Address(Rank, Box<[u8]>),
    /// It has gone.
    Gone(Rank, Gone),
}

/// What an agent tells the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// It is there, has so many processors, and listens there.
    Ready {
        /// Processors that its ranks may use.
        processors: u32,
        /// Where the launcher finds it if their connection breaks.
        address: Box<[u8]>,
    },
    /// Something about a rank.
    News(News),
    /// The process of a rank has ended.
    Ended(Rank, Ended),
    /// The ranks cannot be started, and the code to exit with.
    Failed {
        /// Why.
        why: String,
        /// As shells have it.
        code: u8,
    },
    /// The answer to [`Order::Clock`].
    Clock {
        /// As it was asked.
        sent_ns: u64,
        /// What the clock of this host says.
        theirs_ns: u64,
    },
    /// A piece of what a rank noted, see `notes`; the next one goes on where this one ends.
    Noted(Rank, Vec<u8>),
    /// All its ranks have ended, and what they noted is told: it answers until it may leave.
    Resting,
    /// All its ranks have ended, their output is passed on.
    Done,
}

/// What the launcher tells an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Start the ranks; all hosts together have so many processors.
    Start {
        /// So many.
        processors: u32,
    },
    /// Something about a rank of another host.
    News(News),
    /// Somebody has failed elsewhere: ranks may go on for the grace time.
    Failed,
    /// This signal has come.
    Signal(i32),
    /// End the ranks: the time is up.
    Terminate,
    /// What does the clock say?
    Clock {
        /// What the launcher's said when it asked.
        sent_ns: u64,
    },
    /// Nothing will be asked any more.
    Leave,
}

/// What an agent is told before everything else, on its standard input.
#[derive(Clone, PartialEq, Eq)]
pub struct Description {
    /// Which agent, from 1, and of how many.
    pub agent: u32,
    /// How many there are.
    pub agents: u32,
    /// What launcher and agents prove to each other that they know.
    pub control_secret: Secret,
    /// The same for the ranks.
    pub job_secret: Secret,
    /// Where the launcher listens.
    pub launcher: Box<[u8]>,
    /// By rank: the number of its agent.
    pub places: Vec<u32>,
    /// What people call the hosts of agents 1, 2 and so on.
    pub host_names: Vec<Vec<u8>>,
    /// The folder to start in.
    pub folder: Vec<u8>,
    /// Program and arguments.
    pub command: Vec<Vec<u8>>,
    /// Variables, `NAME=VALUE`.
    pub environment: Vec<Vec<u8>>,
    /// Words of the command line that agents understand as the launcher does: `--net tcp --prefix`.
    pub options: Vec<Vec<u8>>,
    /// How many rows each rank may note for the launcher; 0: it wants none.
    pub journal_rows: u32,
}

/// Not with its secrets.
impl std::fmt::Debug for Description {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Description(agent {} of {})", self.agent, self.agents)
    }
}

#[derive(Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn byte(mut self, byte: u8) -> Writer {
        self.0.push(byte);
        self
    }

    fn number(mut self, number: u32) -> Writer {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn long(mut self, number: u64) -> Writer {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn bytes(self, bytes: &[u8]) -> Writer {
        let mut writer = self.number(bytes.len() as u32);
        writer.0.extend_from_slice(bytes);
        writer
    }

    fn list(self, list: &[Vec<u8>]) -> Writer {
        list.iter().fold(self.number(list.len() as u32), |writer, one| writer.bytes(one))
    }

    fn news(self, news: &News) -> Writer {
        match news {
            News::Address(rank, address) => self.byte(b'A').number(rank.0).bytes(address),
            News::Gone(rank, gone) => {
                let (kind, number) = match gone {
                    Gone::Left => (b'L', 0),
                    Gone::Died(Death::Exited(code)) => (b'E', *code as u32),
                    Gone::Died(Death::Signaled(signal)) => (b'S', *signal as u32),
                    Gone::Died(Death::Vanished) => (b'V', 0),
                };
                self.byte(kind).number(rank.0).number(number)
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn number(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn long(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        if length > LENGTH_MAX {
            return None;
        }
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn list(&mut self) -> Option<Vec<Vec<u8>>> {
        let length = self.number()? as usize;
        // Each has a length of its own.
        if length > self.0.len() / 4 {
            return None;
        }
        (0..length).map(|_| Some(self.bytes()?.to_vec())).collect()
    }

    fn news(&mut self, kind: u8) -> Option<News> {
        let rank = Rank(self.number()?);
        if kind == b'A' {
            return Some(News::Address(rank, self.bytes()?.into()));
        }
        let number = self.number()?;
        let gone = match kind {
            b'L' if number == 0 => Gone::Left,
            b'E' => Gone::Died(Death::Exited(number as i32)),
            b'S' => Gone::Died(Death::Signaled(number as i32)),
            b'V' if number == 0 => Gone::Died(Death::Vanished),
            _ => return None,
        };
        Some(News::Gone(rank, gone))
    }

    fn end<T>(self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

impl Told {
    /// As it travels, but for the secrets, of which no copy is made: they follow.
    pub fn to_bytes(&self) -> Vec<u8> {
        let writer = Writer::default();
        let writer = match self {
            Told::Ready { processors, address } => writer.byte(b'r').number(*processors).bytes(address),
            Told::News(news) => writer.news(news),
            Told::Ended(rank, Ended::Exited(code)) => writer.byte(b'x').number(rank.0).number(*code as u32),
            Told::Ended(rank, Ended::Killed(signal)) => {
                writer.byte(b'k').number(rank.0).number(*signal as u32)
            }
            Told::Failed { why, code } => writer.byte(b'f').byte(*code).bytes(why.as_bytes()),
            Told::Clock { sent_ns, theirs_ns } => writer.byte(b'c').long(*sent_ns).long(*theirs_ns),
            Told::Noted(rank, piece) => writer.byte(b'n').number(rank.0).bytes(piece),
            Told::Resting => writer.byte(b'z'),
            Told::Done => writer.byte(b'd'),
        };
        writer.0
    }

    /// Reads what [`Told::to_bytes`] wrote; `None`: it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Told> {
        let mut reader = Reader(bytes);
        let told = match reader.byte()? {
            b'r' => Told::Ready { processors: reader.number()?, address: reader.bytes()?.into() },
            b'x' => Told::Ended(Rank(reader.number()?), Ended::Exited(reader.number()? as i32)),
            b'k' => Told::Ended(Rank(reader.number()?), Ended::Killed(reader.number()? as i32)),
            b'f' => {
                let code = reader.byte()?;
                Told::Failed { why: String::from_utf8(reader.bytes()?.to_vec()).ok()?, code }
            }
            b'c' => Told::Clock { sent_ns: reader.long()?, theirs_ns: reader.long()? },
            b'n' => Told::Noted(Rank(reader.number()?), reader.bytes()?.to_vec()),
            b'z' => Told::Resting,
            b'd' => Told::Done,
            kind => Told::News(reader.news(kind)?),
        };
        reader.end(told)
    }
}

impl Order {
    /// As it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        let writer = Writer::default();
        let writer = match self {
            Order::Start { processors } => writer.byte(b's').number(*processors),
            Order::News(news) => writer.news(news),
            Order::Failed => writer.byte(b'f'),
            Order::Signal(signal) => writer.byte(b'g').number(*signal as u32),
            Order::Terminate => writer.byte(b't'),
            Order::Clock { sent_ns } => writer.byte(b'c').long(*sent_ns),
            Order::Leave => writer.byte(b'l'),
        };
        writer.0
    }

    /// Reads what [`Order::to_bytes`] wrote; `None`: it is something else.
    pub fn from_bytes(bytes: &[u8]) -> Option<Order> {
        let mut reader = Reader(bytes);
        let order = match reader.byte()? {
            b's' => Order::Start { processors: reader.number()? },
            b'f' => Order::Failed,
            b'g' => Order::Signal(reader.number()? as i32),
            b't' => Order::Terminate,
            b'c' => Order::Clock { sent_ns: reader.long()? },
            b'l' => Order::Leave,
            kind => Order::News(reader.news(kind)?),
        };
        reader.end(order)
    }
}

impl Description {
    /// The names of hosts, for people.
    pub(crate) fn host_names(&self) -> Vec<String> {
        self.host_names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
    }

    /// As it travels.
    pub fn to_bytes(&self) -> Vec<u8> {
        let writer = Writer::default().number(self.agent).number(self.agents).bytes(&self.launcher);
        let places: Vec<u8> = self.places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let writer = writer.bytes(&places).list(&self.host_names).bytes(&self.folder);
        writer.list(&self.command).list(&self.environment).list(&self.options).number(self.journal_rows).0
    }

    /// Reads what [`Description::to_bytes`] wrote; `None`: it is something else.
    pub fn from_bytes(bytes: &[u8], [control_secret, job_secret]: [Secret; 2]) -> Option<Description> {
        let mut reader = Reader(bytes);
        let (agent, agents) = (reader.number()?, reader.number()?);
        let launcher = reader.bytes()?.into();
        let places = reader.bytes()?;
        let (places, rest) = places.as_chunks::<4>();
        let places: Vec<u32> = places.iter().map(|place| u32::from_le_bytes(*place)).collect();
        let (host_names, folder) = (reader.list()?, reader.bytes()?.to_vec());
        let (command, environment, options) = (reader.list()?, reader.list()?, reader.list()?);
        let journal_rows = reader.number()?;
        let fits = rest.is_empty() && (1..=agents).contains(&agent) && !command.is_empty();
        let fits = fits && places.iter().all(|place| (1..=agents).contains(place));
        let description = Description {
            agent,
            agents,
            control_secret,
            job_secret,
            launcher,
            places,
            host_names,
            folder,
            command,
            environment,
            options,
            journal_rows,
        };
        reader.end(description).filter(|_| fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything_told() -> Vec<Told> {
        let mut all = vec![
            Told::Ready { processors: 7, address: Box::new([1, 2, 3]) },
            Told::Ended(Rank(3), Ended::Exited(-1)),
            Told::Ended(Rank(u32::MAX), Ended::Killed(9)),
            Told::Failed { why: "not found".into(), code: 127 },
            Told::Clock { sent_ns: 1 << 60, theirs_ns: 7 },
            Told::Noted(Rank(4), vec![8; 5]),
            Told::Resting,
            Told::Done,
        ];
        all.extend(all_news().into_iter().map(Told::News));
        all
    }

    fn all_news() -> Vec<News> {
        let gone = [
            Gone::Left,
            Gone::Died(Death::Exited(3)),
            Gone::Died(Death::Signaled(9)),
            Gone::Died(Death::Vanished),
        ];
        let gone = gone.into_iter().map(|gone| News::Gone(Rank(5), gone));
        gone.chain([News::Address(Rank(2), Box::new([9; 30]))]).collect()
    }

    fn secrets() -> [Secret; 2] {
        [1, 2].map(|byte| Secret::new([byte; 32]))
    }

    fn description() -> Description {
        let [control_secret, job_secret] = secrets();
        let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Description {
            agent: 2,
            agents: 3,
            control_secret,
            job_secret,
            launcher: Box::new([4; 9]),
            places: vec![1, 1, 2, 3],
            host_names: words(&["a", "b.org", "c"]),
            folder: b"/home".to_vec(),
            command: words(&["./app", ""]),
            environment: words(&["A=B"]),
            options: Vec::new(),
            journal_rows: 5,
        }
    }

    #[test]
    fn what_is_said_is_heard_and_nothing_else_is() {
        for told in everything_told() {
            let bytes = told.to_bytes();
            assert_eq!(Told::from_bytes(&bytes).as_ref(), Some(&told));
            assert!((0..bytes.len()).all(|length| Told::from_bytes(&bytes[..length]).is_none()), "{told:?}");
            assert_eq!(Told::from_bytes(&[&bytes[..], &[0]].concat()), None);
        }
        let mut orders = vec![
            Order::Start { processors: 9 },
            Order::Failed,
            Order::Signal(2),
            Order::Terminate,
            Order::Leave,
        ];
        orders.push(Order::Clock { sent_ns: u64::MAX });
        orders.extend(all_news().into_iter().map(Order::News));
        for order in orders {
            let bytes = order.to_bytes();
            assert_eq!(Order::from_bytes(&bytes).as_ref(), Some(&order));
            assert!(
                (0..bytes.len()).all(|length| Order::from_bytes(&bytes[..length]).is_none()),
                "{order:?}"
            );
        }
        let bytes = description().to_bytes();
        let read = |bytes: &[u8]| Description::from_bytes(bytes, secrets());
        assert!(read(&bytes) == Some(description()));
        assert!((0..bytes.len()).all(|length| read(&bytes[..length]).is_none()));
        let elsewhere = Description { places: vec![4], ..description() };
        assert!(read(&elsewhere.to_bytes()).is_none(), "no such agent");
        let found = bytes.windows(32).any(|window| secrets().iter().any(|secret| window == secret.bytes()));
        assert!(!found, "there is no copy of a secret");
        assert!(!format!("{:?}", description()).contains("[1"), "no secret is shown");
    }

    /// Any bytes are read without a panic, and whatever is read is what would be written. The seed is printed where that fails.
    #[test]
    fn any_bytes() {
        let seed = castell_host::clock::now_ns();
        let mut state = seed | 1;
        let mut random = || {
            // Marsaglia's xorshift with shifts 13, 7, 17.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let models: Vec<Vec<u8>> =
            everything_told().iter().map(Told::to_bytes).chain([description().to_bytes()]).collect();
        for _ in 0..20_000 {
            let mut bytes = models[random() as usize % models.len()].clone();
            for _ in 0..=random() % 4 {
                let at = random() as usize % bytes.len();
                match random() % 3 {
                    0 => bytes[at] = random() as u8,
                    1 => bytes.insert(at, random() as u8),
                    _ => bytes.truncate(at.max(1)),
                }
            }
            let told = Told::from_bytes(&bytes);
            assert!(told.is_none_or(|told| told.to_bytes() == bytes), "seed {seed}: {bytes:?}");
            let order = Order::from_bytes(&bytes);
            assert!(order.is_none_or(|order| order.to_bytes() == bytes), "seed {seed}: {bytes:?}");
            let whole = Description::from_bytes(&bytes, secrets());
            assert!(whole.is_none_or(|whole| whole.to_bytes() == bytes), "seed {seed}: {bytes:?}");
        }
    }
}
