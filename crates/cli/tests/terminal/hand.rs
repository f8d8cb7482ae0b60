//! Whoever sits at a terminal: looks, types, makes it larger.

use super::terminal::{Terminal, blank, lock, size};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::tcsetwinsize;

impl Terminal {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn row(&self, row: usize) -> String {
        lock(&self.screen).rows().get(row).cloned().unwrap_or_default()
    }

    pub fn press(&self, keys: &str) {
        let mut left = keys.as_bytes();
        while !left.is_empty() {
            let count = rustix::io::write(self.controller(), left).expect("it is read");
            left = &left[count..];
        }
    }

    pub fn resize(&self, width: u16, height: u16) {
        {
            let mut screen = lock(&self.screen);
            screen.cells = blank(width, height);
            (screen.row, screen.column) = (0, 0);
        }
        tcsetwinsize(self.controller(), size(width, height)).expect("has a size");
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.pid() as i32).expect("a process");
        kill_process(pid, signal).expect("it lives");
    }

    /// Nobody looks at it any more.
    pub fn hang_up(&mut self) {
        // The thread that reads has one, too, and gets an error with the program's end.
        let pid = Pid::from_raw(self.pid() as i32).expect("a process");
        kill_process(pid, Signal::HUP).expect("it lives");
        self.controller = None;
    }

    /// How often something was to have a colour.
    pub fn colours(&self) -> usize {
        String::from_utf8_lossy(&lock(&self.screen).written).matches("\x1b[38;5;").count()
    }
}
