//! The connections between launcher and agents: those of ranks, between other parties. The launcher is number 0, agents count from 1.

use castell_base::Rank;
use castell_shm::job::{Net, OverTcp};
use castell_tcp::{Secret, Tcp, TcpEndpoint, TcpError, TcpOptions, address::ADDRESSES_MAX};
use castell_transport::{
    Address, Armed, Connector, Down, Endpoint, Events, Header, Sleeper, Transport, Urgency,
};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// The number of the launcher.
pub(super) const LAUNCHER: Rank = Rank(0);

/// Messages that one look hands over.
const BUDGET: usize = 256;

/// What one look has brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Message(Rank, Vec<u8>),
    Down(Rank, Down),
}

pub(super) struct Control {
    tcp: Tcp,
    me: Rank,
    ways: Vec<Way>,
    /// Heard, and put back.
    unheard: Vec<Heard>,
}

#[derive(Default)]
struct Way {
    endpoint: Option<TcpEndpoint>,
    waiting: VecDeque<Vec<u8>>,
    sent: u32,
    is_down: bool,
}

impl Control {
    /// Number `me` of so many parties, listening at these addresses; encrypted where what the ranks say is.
    pub(super) fn open(
        me: Rank,
        parties: u32,
        secret: Secret,
        net: Net,
        listen: &[IpAddr],
    ) -> Result<Control, TcpError> {
        let encrypts = matches!(net, Net::Tcp(OverTcp { encrypts: true, .. }));
        let listen = &listen[..listen.len().min(ADDRESSES_MAX)];
        let options = TcpOptions { encrypts, ..TcpOptions::at(listen) };
        let tcp = Tcp::new(me, parties, secret, &options)?;
        Ok(Control { tcp, me, ways: (0..parties).map(|_| Way::default()).collect(), unheard: Vec::new() })
    }

    /// Where the others find this party.
    pub(super) fn address(&self) -> Box<[u8]> {
        self.tcp.address().0
    }

    /// Says where a party is found.
    pub(super) fn introduce(&mut self, party: Rank, address: &[u8]) -> Result<(), String> {
        let made = self.tcp.connector().connect(party, &Address(address.into()));
        self.ways[party.index()].endpoint = Some(made.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Sends a message, now or when there is room.
    pub(super) fn say(&mut self, party: Rank, message: Vec<u8>) {
        let way = &mut self.ways[party.index()];
        if !way.is_down {
            way.waiting.push_back(message);
            way.push(self.me);
        }
    }

    /// How many messages to it wait for room.
    pub(super) fn waiting(&self, party: Rank) -> usize {
        self.ways[party.index()].waiting.len()
    }

    /// Whether the party is there, as far as is known.
    pub(super) fn is_up(&self, party: Rank) -> bool {
        !self.ways[party.index()].is_down
    }

    /// Why it could not be reached, if it could not.
    pub(super) fn trouble(&self, party: Rank) -> Option<String> {
        self.tcp.trouble(party)
    }

    /// Takes in what has come, and sends what waits.
    pub(super) fn poll(&mut self) -> Vec<Heard> {
        let mut inbox = Inbox(std::mem::take(&mut self.unheard));
        while self.tcp.poll(BUDGET, &mut inbox) > 0 {}
        for heard in &inbox.0 {
            if let Heard::Down(party, _) = heard {
                self.ways[party.index()].is_down = true;
            }
        }
        let me = self.me;
        self.ways.iter_mut().for_each(|way| way.push(me));
        inbox.0
    }

    /// Gives back what a look has brought: the next one brings it first.
    pub(super) fn put_back(&mut self, heard: Vec<Heard>) {
        self.unheard = heard;
    }

    /// What becomes readable when there is something to take in; `None`: there is already.
    pub(super) fn arm(&mut self) -> Option<BorrowedFd<'_>> {
        if !self.unheard.is_empty() {
            return None;
        }
        match self.tcp.arm(Sleeper::Thread) {
            Armed::Fd(descriptor) => Some(descriptor),
            _ => None,
        }
    }

    /// Waits until all that was said is heard, though not for ever.
    pub(super) fn leave(&mut self, within: Duration) {
        let since = Instant::now();
        let is_over = |since: Instant| since.elapsed() > within;
        while self.ways.iter().any(|way| !way.is_down && way.endpoint.is_some() && !way.waiting.is_empty())
            && !is_over(since)
        {
            self.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
        self.tcp.leave();
        while !self.tcp.has_left() && !is_over(since) {
            self.poll();
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Way {
    fn push(&mut self, me: Rank) {
        let Some(endpoint) = self.endpoint.as_mut().filter(|_| !self.waiting.is_empty()) else { return };
        while let Some(message) = self.waiting.front() {
            let header = Header {
                kind: 1,
                bytes: message.len() as u32,
                source: me.0,
                sequence: self.sent,
                ..Header::default()
            };
            if endpoint.try_send(&header, message).is_err() {
                break;
            }
            self.sent = self.sent.wrapping_add(1);
            self.waiting.pop_front();
        }
        endpoint.flush(Urgency::NOW);
    }
}

struct Inbox(Vec<Heard>);

impl Events for Inbox {
    fn message(&mut self, header: &Header, payload: &[u8]) {
        self.0.push(Heard::Message(Rank(header.source), payload.to_vec()));
    }

    fn down(&mut self, peer: Rank, _delivered: u32, why: Down) {
        self.0.push(Heard::Down(peer, why));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// What is said is heard, whole and in order, where the count of what was said begins again.
    #[test]
    fn what_is_said_is_heard_where_its_count_begins_again() {
        let listen = [IpAddr::from(Ipv4Addr::LOCALHOST)];
        let net: Net = "tcp".parse().expect("a network");
        let open = |me| Control::open(me, 2, Secret::new([3; 32]), net, &listen).expect("sockets");
        let [mut launcher, mut agent] = [LAUNCHER, Rank(1)].map(open);
        let [here, there] = [launcher.address(), agent.address()];
        launcher.introduce(Rank(1), &there).expect("an address");
        agent.introduce(LAUNCHER, &here).expect("an address");
        launcher.ways[1].sent = u32::MAX - 2;
        let said: Vec<Vec<u8>> = (0..6).map(|number| vec![number; 3]).collect();
        said.iter().for_each(|message| launcher.say(Rank(1), message.clone()));
        let mut heard = Vec::new();
        let since = Instant::now();
        while heard.len() < said.len() && since.elapsed() < Duration::from_secs(60) {
            launcher.poll();
            heard.extend(agent.poll());
            std::thread::sleep(Duration::from_millis(1));
        }
        let all: Vec<Heard> = said.into_iter().map(|said| Heard::Message(LAUNCHER, said)).collect();
        assert_eq!(heard, all);
        assert_eq!(launcher.ways[1].sent, 3, "six from three below the end");
    }
}
