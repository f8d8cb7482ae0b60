//! The terminal: keys come in, drawings go out. Whoever can keep somebody waiting (the keyboard, signals, the agent, the daemon) has a thread
//! of its own, and all that they say comes through one channel.

use super::draw::draw;
use super::snapshot::{Snapshot, Sources, Watch};
use super::view::{Action, Answer, View};
use crate::say;
use crate::strategy::source::Source as Script;
use anyhow::{Context as _, bail};
use castell_agent::steer;
use castell_daemon::ask;
use castell_host::signal::Signals;
use castell_kernels::protocol::ToDaemon;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::crossterm::style::force_color_output;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size,
};
use std::io::{self, Stdout, stdout};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// What can happen.
enum Heard {
    Key(KeyEvent),
    /// The terminal has another size, or has been somebody else's.
    Changed,
    /// There is no terminal any more.
    Gone(io::Error),
    Signal(i32),
    Moment(anyhow::Result<Box<Snapshot>>),
    Answer(Result<Answer, String>),
}

/// Until somebody has seen enough.
///
/// # Errors
/// The terminal cannot be had, or what is shown cannot be read.
pub fn show(sources: Sources, every: Duration, has_colours: bool) -> anyhow::Result<ExitCode> {
    if std::env::var("TERM").is_ok_and(|term| term == "dumb") {
        bail!("a terminal of the kind `dumb` (TERM) cannot be drawn on: use --once, or --json");
    }
    // Before any thread starts, so that nobody else is interrupted by them.
    let signals = Signals::take_over(&[
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGQUIT,
        libc::SIGTSTP,
        libc::SIGCONT,
    ])?;
    // It was decided already who wants them.
    force_color_output(has_colours);
    let mut watch = Watch::begin(sources.clone())?;
    thread::sleep(Duration::from_millis(100)); // Processors have done something by then.
    let mut view = View::new(watch.next()?, has_colours);
    let mut screen = Screen::open()?;
    let (post, heard) = channel();
    listen(&post, signals, watch, every);
    let outcome = follow(&mut screen, &mut view, &heard, &post, &sources);
    drop(screen);
    outcome
}

fn listen(post: &Sender<Heard>, signals: Signals, mut watch: Watch, every: Duration) {
    let (keys, arrived, moments) = (post.clone(), post.clone(), post.clone());
    thread::spawn(move || {
        loop {
            let heard = match event::read() {
                Ok(Event::Key(key)) if key.kind != KeyEventKind::Release => Heard::Key(key),
                Ok(Event::Resize(..)) => Heard::Changed,
                Ok(_) => continue,
                Err(error) => Heard::Gone(error),
            };
            let is_gone = matches!(heard, Heard::Gone(_));
            if keys.send(heard).is_err() || is_gone {
                return;
            }
        }
    });
    thread::spawn(move || {
        loop {
            while let Some(signal) = signals.next() {
                if arrived.send(Heard::Signal(signal.signal)).is_err() {
                    return;
                }
            }
            let mut ready = [rustix::event::PollFd::new(&signals, rustix::event::PollFlags::IN)];
            let _ = rustix::event::poll(&mut ready, None);
        }
    });
    thread::spawn(move || {
        loop {
            thread::sleep(every);
            if moments.send(Heard::Moment(watch.next().map(Box::new))).is_err() {
                return;
            }
        }
    });
}

fn follow(
    screen: &mut Screen,
    view: &mut View,
    heard: &Receiver<Heard>,
    post: &Sender<Heard>,
    sources: &Sources,
) -> anyhow::Result<ExitCode> {
    screen.draw(view)?;
    // This end keeps one that sends, so it always can be heard.
    while let Ok(what) = heard.recv() {
        match what {
            Heard::Key(key) => match view.press(key) {
                Action::Quit => return Ok(ExitCode::SUCCESS),
                Action::Leave => screen.leave()?,
                Action::Redraw => screen.open_again()?,
                Action::Nothing => {}
                action => carry_out(sources.clone(), action, post.clone()),
            },
            Heard::Changed => clear(&mut screen.terminal)?,
            Heard::Gone(error) => return Err(error).context("the terminal cannot be read any more"),
            Heard::Signal(libc::SIGTSTP) => screen.leave()?,
            // Who let this go on may have set up the terminal for itself meanwhile.
            Heard::Signal(libc::SIGCONT) => screen.open_again()?,
            Heard::Signal(signal) => return Ok(ExitCode::from(128 + signal as u8)),
            Heard::Moment(snapshot) => view.show(*snapshot?),
            Heard::Answer(answer) => match view.hear(answer) {
                Action::Nothing => {}
                next => carry_out(sources.clone(), next, post.clone()),
            },
        }
        screen.draw(view)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// It may take as long as a session takes to end, or a strategy to be tried out.
fn carry_out(sources: Sources, action: Action, post: Sender<Heard>) {
    thread::spawn(move || {
        let answer = carried_out(&sources, action).map_err(|error| say::describe(&error));
        // Nobody hears it where the screen is gone.
        let _ = post.send(Heard::Answer(answer));
    });
}

fn carried_out(sources: &Sources, action: Action) -> anyhow::Result<Answer> {
    let message = match action {
        Action::Ask(message) => {
            let answer = steer(&sources.sessions, sources.allocation.as_ref(), &[message])?;
            return Ok(Answer::Agent(Box::new(answer)));
        }
        Action::Govern(level) => ToDaemon::Governor { level },
        Action::Load(asked) => {
            let castell_daemon::Source { name, script, parameters } = Script::find(&asked)?.found;
            ToDaemon::Load { name, script, parameters }
        }
        Action::Nothing | Action::Quit | Action::Leave | Action::Redraw => bail!("nobody is asked that"),
    };
    ask(sources.daemon.as_deref().context("there is no daemon")?, &message)?;
    Ok(Answer::Daemon)
}

/// The terminal as long as it is ours. Whatever happens, it is given back as it was.
struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    fn open() -> anyhow::Result<Screen> {
        let (width, height) = size().context("this terminal does not say how large it is")?;
        if width == 0 || height == 0 {
            bail!(
                "the terminal says that it has no columns: tell it with `stty cols 80 rows 24`, or use --once"
            );
        }
        give_back_on_panic();
        Ok(Screen { terminal: enter()? })
    }

    fn draw(&mut self, view: &View) -> anyhow::Result<()> {
        self.terminal.draw(|frame| draw(frame, view)).context("the terminal cannot be drawn on")?;
        Ok(())
    }

    /// Draws all of it anew, whatever stands there.
    fn open_again(&mut self) -> anyhow::Result<()> {
        self.terminal = enter()?;
        Ok(())
    }

    /// Stops, as Ctrl-Z does; returns when somebody lets it go on.
    fn leave(&mut self) -> anyhow::Result<()> {
        give_back();
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::STOP)?;
        self.open_again()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn enter() -> anyhow::Result<Terminal<CrosstermBackend<Stdout>>> {
    let context = "the terminal cannot be had: use --once, or --json";
    enable_raw_mode().context(context)?;
    let terminal = execute!(stdout(), EnterAlternateScreen)
        .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
        .and_then(|mut terminal| clear(&mut terminal).map(|()| terminal));
    terminal.inspect_err(|_| give_back()).context(context)
}

/// Without asking the terminal where its cursor is: the thread for the keys would hear the answer. Sizes that came and went in between have
/// left who knows what, so what stands there does not count, even if the size is the one before.
fn clear(terminal: &mut Terminal<CrosstermBackend<Stdout>>) -> io::Result<()> {
    let area = terminal.size()?.into();
    terminal.resize(area)
}

/// One that has gone needs nothing any more.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// A panic is told on a terminal that is as it was, and ends the process, whichever thread it is in.
fn give_back_on_panic() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        give_back();
        usual(panic);
        std::process::exit(101);
    }));
}

#[cfg(test)]
#[path = "../../tests/terminal/mod.rs"]
mod terminal;

#[cfg(test)]
mod tests {
    use super::Screen;
    use super::terminal::Terminal;
    use std::process::Command;

    /// This test in another process, which has a terminal and panics on it.
    const CHILD: &str = "TOP_PANICS";

    #[test]
    fn a_panic_gives_the_terminal_back() {
        if std::env::var_os(CHILD).is_some() {
            let _screen = Screen::open().expect("a terminal");
            let _ = std::thread::spawn(|| panic!("on purpose")).join();
            unreachable!("a panic in any thread ends the process");
        }
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "--nocapture", "top::screen::tests::a_panic_gives_the_terminal_back"]);
        let mut terminal = Terminal::start(command.env(CHILD, "1"), 80, 24);
        assert_eq!(terminal.wait(), Some(101));
        assert!(terminal.was_ours() && terminal.is_given_back());
        assert!(terminal.text().contains("on purpose"), "{}", terminal.text());
    }
}
