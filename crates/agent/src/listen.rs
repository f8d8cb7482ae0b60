//! Who connects to an agent, and how much everybody may say: a thread for each connection, which waits where that was too much.

use crate::AgentError;
use crate::hear::hear;
use crate::news::News;
use castell_host::bucket::Bucket;
use castell_host::clock;
use castell_host::descriptor::{own_user, peer};
use castell_host::users::Others;
use castell_policy::session::protocol::{FromAgent, encode};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Connections at a time; of other users than its own, each has half of them at most.
const CLIENTS_MAX: usize = 4_096;
/// What a connection may say at once, and each second.
const SAID: Bucket = Bucket::new(64, 250);

/// Others have to be able to connect; who is served is asked of the system then.
pub(crate) fn open_to(socket: &Path, others: &Others) -> Result<(), AgentError> {
    if *others == Others::Nobody {
        return Ok(());
    }
    let opened = fs::set_permissions(socket, Permissions::from_mode(0o666));
    opened.map_err(AgentError::system(format!("open {} to others", socket.display())))
}

/// Hears all who connect, until nobody wants to know any more.
pub(crate) fn listen(listener: &UnixListener, others: &Others, news: &Sender<News>) {
    let connected = Arc::new(Connected::default());
    for (client, stream) in (0..).zip(listener.incoming()) {
        let Ok(stream) = stream else { continue };
        let Ok(peer) = peer(stream.as_fd()) else { continue };
        let admitted = match others.admit(peer.user) {
            true => {
                connected.clone().enter(peer.user).ok_or("there are too many connections: ask again later")
            }
            false => Err("whoever keeps these sessions does not serve you (castell daemon --allow)"),
        };
        let place = match admitted {
            Ok(place) => place,
            Err(reason) => {
                send_away(stream, reason);
                continue;
            }
        };
        let Ok(reading) = stream.try_clone() else { continue };
        let news = news.clone();
        if news.send(News::Came(client, stream, peer)).is_err() {
            return;
        }
        thread::spawn(move || {
            hear_one(client, reading, &news);
            drop(place);
        });
    }
}

/// Says why, as far as that goes at once.
fn send_away(mut stream: UnixStream, reason: &str) {
    let refused = encode(&FromAgent::Refused { reason: reason.into() });
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&refused));
}

fn hear_one(client: u64, stream: UnixStream, news: &Sender<News>) {
    let mut said = SAID;
    // Whatever the reason why it ends: the connection is of no more use.
    let _ = hear(stream, |message| {
        loop {
            let now_ns = clock::now_ns();
            if said.take(now_ns) {
                return news.send(News::Said(client, message)).is_ok();
            }
            thread::sleep(Duration::from_nanos(said.when(1).saturating_sub(now_ns)));
        }
    });
    let _ = news.send(News::Gone(client));
}

/// How many connections each user has.
#[derive(Default)]
struct Connected(Mutex<BTreeMap<u32, usize>>);

/// One of them.
struct Entered {
    all: Arc<Connected>,
    user: u32,
}

impl Connected {
    /// One more, if there is room for it.
    fn enter(self: Arc<Self>, user: u32) -> Option<Entered> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let total: usize = all.values().sum();
        let own = all.entry(user).or_default();
        if total >= CLIENTS_MAX || user != own_user() && *own >= CLIENTS_MAX / 2 {
            return None;
        }
        *own += 1;
        drop(all);
        Some(Entered { all: self, user })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let mut all = self.all.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = all.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_takes_all_the_room() {
        let connected = Arc::new(Connected::default());
        let (own, other) = (own_user(), own_user() + 1);
        let mut of_other: Vec<Entered> = Vec::new();
        while let Some(entered) = connected.clone().enter(other) {
            of_other.push(entered);
        }
        assert_eq!(of_other.len(), CLIENTS_MAX / 2);
        let mut of_own: Vec<Entered> = Vec::new();
        while let Some(entered) = connected.clone().enter(own) {
            of_own.push(entered);
        }
        assert_eq!(of_own.len(), CLIENTS_MAX / 2);
        of_own.pop();
        assert!(connected.clone().enter(other).is_none());
        assert!(connected.clone().enter(own).is_some());
        drop((of_own, of_other));
        assert!(connected.0.lock().expect("no panic").is_empty());
    }
}
