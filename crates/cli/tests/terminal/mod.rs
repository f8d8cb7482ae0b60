//! A terminal with a program on it: what it shows, what is typed, how large it is, and whether it was given back as it was.

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Termios, Winsize, tcgetattr, tcsetwinsize};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub struct Terminal {
    pub controller: Option<Arc<OwnedFd>>,
    pub child: Child,
    pub screen: Arc<Mutex<Screen>>,
    /// How it was before the program had it.
    before: Termios,
}

impl Terminal {
    /// Starts a program on a terminal of this size, which controls it.
    pub fn start(command: &mut Command, width: u16, height: u16) -> Terminal {
        let controller =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
        grantpt(&controller).expect("may be used");
        unlockpt(&controller).expect("may be used");
        tcsetwinsize(&controller, size(width, height)).expect("has a size");
        let name = ptsname(&controller, Vec::new()).expect("has a name");
        let side = || {
            let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
            Stdio::from(rustix::fs::open(name.as_c_str(), flags, Mode::empty()).expect("can be opened"))
        };
        let before = tcgetattr(&controller).expect("has modes");
        // It becomes the program, as the first of a session with this terminal.
        let mut on_it = Command::new("setsid");
        on_it.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => on_it.env(name, value),
                None => on_it.env_remove(name),
            };
        }
        command.get_current_dir().into_iter().for_each(|folder| _ = on_it.current_dir(folder));
        let child = on_it.stdin(side()).stdout(side()).stderr(side()).spawn().expect("setsid starts");
        let controller = Arc::new(controller);
        let screen = Arc::new(Mutex::new(Screen::new(width, height)));
        let (reads, draws) = (controller.clone(), screen.clone());
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = rustix::io::read(&*reads, &mut bytes) {
                lock(&draws).take(&bytes[..count]);
            }
        });
        Terminal { controller: Some(controller), child, screen, before }
    }

    pub fn controller(&self) -> &OwnedFd {
        self.controller.as_ref().expect("it is there")
    }

    /// All that stands on it, without blanks at the ends of lines.
    pub fn text(&self) -> String {
        lock(&self.screen).rows().join("\n")
    }

    /// Its exit code, after all that it has written is there.
    pub fn wait(&mut self) -> Option<i32> {
        let status = self.child.wait().expect("a child");
        let begun = Instant::now();
        while !self.is_given_back() && begun.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(10));
        }
        status.code()
    }

    /// The program had it for itself.
    pub fn was_ours(&self) -> bool {
        String::from_utf8_lossy(&lock(&self.screen).written).contains("\x1b[?1049h")
    }

    /// As it was: what stood there, a cursor, lines, echo.
    pub fn is_given_back(&self) -> bool {
        let modes = tcgetattr(self.controller()).expect("has modes");
        let of =
            |modes: &Termios| modes.local_modes & (LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        let screen = lock(&self.screen);
        of(&modes) == of(&self.before) && screen.has_cursor && screen.kept.is_none()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn size(width: u16, height: u16) -> Winsize {
    Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }
}

pub fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What stands on a terminal: as much of what steers one as full screens need.
pub struct Screen {
    pub cells: Vec<Vec<char>>,
    pub row: usize,
    pub column: usize,
    /// What stood there before the program took all of it.
    kept: Option<Vec<Vec<char>>>,
    has_cursor: bool,
    /// All that the program has written.
    pub written: Vec<u8>,
    /// What came last, as far as it is not understood yet.
    rest: Vec<u8>,
}

impl Screen {
    fn new(width: u16, height: u16) -> Screen {
        Screen {
            cells: blank(width, height),
            row: 0,
            column: 0,
            kept: None,
            has_cursor: true,
            written: Vec::new(),
            rest: Vec::new(),
        }
    }

    pub fn rows(&self) -> Vec<String> {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    fn take(&mut self, bytes: &[u8]) {
        self.written.extend(bytes);
        self.rest.extend(bytes);
        let rest = std::mem::take(&mut self.rest);
        let mut at = 0;
        while let Some(length) = self.one(&rest[at..]) {
            at += length;
        }
        self.rest = rest[at..].to_vec();
    }

    /// Understands what stands first; how long it was, if it has come whole.
    fn one(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes {
            [] | [0x1b] => None,
            [0x1b, b'[', rest @ ..] => {
                let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte))?;
                self.steer(&String::from_utf8_lossy(&rest[..end]), rest[end]);
                Some(2 + end + 1)
            }
            [0x1b, _, ..] => Some(2),
            [b'\r', ..] => {
                self.column = 0;
                Some(1)
            }
            [b'\n', ..] => {
                self.next_row();
                Some(1)
            }
            [first, ..] => {
                let length = match first {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                let text = std::str::from_utf8(bytes.get(..length)?).unwrap_or("?");
                if self.column >= self.cells.first().map_or(0, Vec::len) {
                    self.next_row();
                    self.column = 0;
                }
                if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
                    *cell = text.chars().next().unwrap_or('?');
                }
                self.column += 1;
                Some(length)
            }
        }
    }

    fn next_row(&mut self) {
        self.row += 1;
        if self.row >= self.cells.len() && !self.cells.is_empty() {
            self.cells.rotate_left(1);
            self.row = self.cells.len() - 1;
            self.cells[self.row].fill(' ');
        }
    }

    fn steer(&mut self, words: &str, what: u8) {
        let numbers: Vec<usize> = words.split(';').map(|word| word.parse().unwrap_or(0)).collect();
        match (what, words) {
            (b'H', _) => {
                self.row = numbers[0].saturating_sub(1);
                self.column = numbers.get(1).map_or(0, |column| column.saturating_sub(1));
            }
            (b'J', "2") => self.cells.iter_mut().flatten().for_each(|cell| *cell = ' '),
            (b'h', "?1049") => {
                self.kept.get_or_insert_with(|| self.cells.clone());
                self.cells.iter_mut().flatten().for_each(|cell| *cell = ' ');
            }
            (b'l', "?1049") => self.cells = self.kept.take().unwrap_or_else(|| self.cells.clone()),
            (b'h', "?25") => self.has_cursor = true,
            (b'l', "?25") => self.has_cursor = false,
            _ => {}
        }
    }
}

pub fn blank(width: u16, height: u16) -> Vec<Vec<char>> {
    vec![vec![' '; width.into()]; height.into()]
}
