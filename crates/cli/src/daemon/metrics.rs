//! `castell daemon --metrics`: where they are, and what they are made of.

use crate::session::allocation;
use crate::top::{Source, list, status};
use anyhow::{Context as _, bail};
use castell_agent::{Allocation, Place};
use castell_daemon::metrics::{Moment, text};
use castell_host::pressure::Pressure;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Listens, and where.
///
/// # Errors
/// Others could read what they were not meant to, or nobody can listen there.
pub fn listen(address: SocketAddr, is_public: bool) -> anyhow::Result<(TcpListener, SocketAddr)> {
    if !address.ip().is_loopback() && !is_public {
        bail!(
            "--metrics {address} can be reached from other machines: take 127.0.0.1 or [::1], or add --metrics-public if that is meant"
        );
    }
    let listen = || {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, address))
    };
    listen().with_context(|| format!("cannot listen at {address} for --metrics"))
}

/// Who is asked how the node is. The daemon is asked as by everybody else, so that metrics say whether it answers.
pub struct Sources {
    daemon: PathBuf,
    sessions: Place,
    allocation: Option<Allocation>,
}

impl Sources {
    /// Those of the daemon at this socket, and whoever keeps the sessions there.
    ///
    /// # Errors
    /// It cannot be said where sessions are.
    pub fn find(socket: &Path, sessions: Place) -> anyhow::Result<Sources> {
        Ok(Sources { daemon: socket.to_owned(), sessions, allocation: allocation()? })
    }

    /// How the node is, whenever that is called. Starts threads: signals have to be taken over before.
    pub fn start(self) -> impl Fn() -> String + Send + Sync {
        let Sources { daemon, sessions: place, allocation } = self;
        let sessions = Source::new("the session agent", move || {
            let found = list(&place, allocation.as_ref())?;
            let sessions = found.map_or(Vec::new(), |listed| listed.sessions);
            Ok(sessions.into_iter().map(|session| session.state).collect())
        });
        let does = Source::new("the daemon", move || status(Some(&daemon)));
        let sources = Mutex::new((does, sessions));
        move || {
            let (status, sessions) = {
                let mut sources = sources.lock().unwrap_or_else(PoisonError::into_inner);
                (sources.0.next(), sources.1.next())
            };
            text(&Moment { status, sessions, pressure: Pressure::read(Path::new("/proc")) })
        }
    }
}
