//! The agent's end of the connections of runners, and of others who ask.

use castell_host::descriptor::Peer;
use castell_policy::session::SessionId;
use castell_policy::session::protocol::{FromAgent, encode};
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Who does not read for so long is stopped, or dead.
const SENT_WITHIN: Duration = Duration::from_secs(2);

/// All connections, by number.
#[derive(Default)]
pub(crate) struct Clients(BTreeMap<u64, Client>);

pub(crate) struct Client {
    stream: UnixStream,
    pub(crate) peer: Peer,
    pub(crate) greeted: bool,
    /// What it runs.
    pub(crate) session: Option<SessionId>,
    /// What it has joined.
    pub(crate) joined: Option<SessionId>,
}

impl Clients {
    /// One more.
    pub(crate) fn came(&mut self, client: u64, stream: UnixStream, peer: Peer) {
        let _ = stream.set_write_timeout(Some(SENT_WITHIN));
        self.0.insert(client, Client { stream, peer, greeted: false, session: None, joined: None });
    }

    /// Its connection is closed.
    pub(crate) fn gone(&mut self, client: u64) -> Option<Client> {
        self.0.remove(&client)
    }

    pub(crate) fn get_mut(&mut self, client: u64) -> Option<&mut Client> {
        self.0.get_mut(&client)
    }

    pub(crate) fn is_there(&self, client: u64) -> bool {
        self.0.contains_key(&client)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Says why something cannot be.
    pub(crate) fn refuse(&mut self, client: u64, reason: impl Into<String>) {
        self.tell(client, &FromAgent::Refused { reason: reason.into() });
    }

    /// A runner that cannot be told has died, and the thread that hears it says so.
    pub(crate) fn tell(&mut self, client: u64, message: &FromAgent) {
        if let Some(known) = self.0.get_mut(&client)
            && let Err(error) = known.stream.write_all(&encode(message))
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            eprintln!("castell: cannot tell runner {client}: {error}");
            let _ = known.stream.shutdown(Shutdown::Both);
        }
    }

    /// Tells all that run something.
    pub(crate) fn tell_all(&mut self, message: &FromAgent) {
        let running: Vec<u64> =
            self.0.iter().filter(|(_, client)| client.session.is_some()).map(|(number, _)| *number).collect();
        running.into_iter().for_each(|number| self.tell(number, message));
    }

    /// Closes all connections.
    pub(crate) fn close(&mut self) {
        for client in self.0.values() {
            // One that is closed already needs no more.
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}
