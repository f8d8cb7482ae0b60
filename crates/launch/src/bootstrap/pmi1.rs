//! The PMI-1 wire protocol: lines of `key=value` words over an inherited descriptor.

use super::keyvalue::KeyValueSpace;
use super::membership::BootstrapError;
use super::signs::PmiPlace;
use super::wire::{Framing, Wire};
use castell_base::Rank;

/// A connection to a PMI-1 service.
pub(super) struct Pmi1 {
    place: PmiPlace,
    wire: Wire,
    space: String,
    value_bytes_max: usize,
}

impl Pmi1 {
    /// Opens the service that the environment names.
    pub(super) fn open(place: PmiPlace) -> Result<Pmi1, BootstrapError> {
        let mut wire = Wire::open("PMI-1", Framing::Lines, place.descriptor)?;
        wire.ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        let limits = wire.ask("cmd=get_maxes", "maxes")?;
        let value_bytes_max = limits.word("vallen_max").and_then(|number| number.parse().ok()).unwrap_or(256);
        let name = wire.ask("cmd=get_my_kvsname", "my_kvsname")?;
        let space = name.word("kvsname").unwrap_or_default().to_string();
        Ok(Pmi1 { place, wire, space, value_bytes_max })
    }
}

impl KeyValueSpace for Pmi1 {
    fn rank(&self) -> Rank {
        self.place.rank
    }

    fn ranks(&self) -> u32 {
        self.place.ranks
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        let request =
            format!("cmd=put kvsname={} key=castell.{}.{key} value={value}", self.space, self.place.rank);
        self.wire.ask(&request, "put_result").map(drop)
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.wire.ask("cmd=barrier_in", "barrier_out").map(drop)
    }

    fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
        let request = format!("cmd=get kvsname={} key=castell.{from}.{key}", self.space);
        let answer = self.wire.ask(&request, "get_result")?;
        let value = answer.word("value").map(String::from);
        value.ok_or_else(|| self.wire.refuse(&request, answer))
    }

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max
    }

    fn finish(&mut self) -> Result<(), BootstrapError> {
        self.wire.ask("cmd=finalize", "finalize_ack").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    /// Plays the service: expects each request in turn and gives the answer.
    fn serve(
        script: Vec<(&'static str, &'static str)>,
    ) -> (PmiPlace, UnixStream, std::thread::JoinHandle<()>) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let server = std::thread::spawn(move || {
            let mut reader = BufReader::new(theirs);
            for (request, answer) in script {
                let mut line = String::new();
                reader.read_line(&mut line).expect("a request");
                assert_eq!(line.trim_end(), request);
                reader.get_mut().write_all(answer.as_bytes()).expect("an answer");
            }
        });
        (PmiPlace { descriptor: ours.as_raw_fd(), rank: Rank(1), ranks: 2, job: None }, ours, server)
    }

    const OPENING: [(&str, &str); 3] = [
        (
            "cmd=init pmi_version=1 pmi_subversion=1",
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
        ),
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_7\n"),
    ];

    #[test]
    fn speaks_the_protocol() {
        let rest = [
            ("cmd=put kvsname=kvs_7 key=castell.1.a value=x", "cmd=put_result rc=0 msg=success\n"),
            ("cmd=barrier_in", "cmd=barrier_out\n"),
            ("cmd=get kvsname=kvs_7 key=castell.0.a", "cmd=get_result rc=0 msg=success value=y\n"),
            ("cmd=finalize", "cmd=finalize_ack\n"),
        ];
        let (place, _socket, server) = serve(OPENING.into_iter().chain(rest).collect());
        let mut pmi = Pmi1::open(place).expect("opens");
        assert_eq!(pmi.value_bytes_max(), 1024);
        pmi.put("a", "x").expect("a put");
        pmi.fence().expect("a fence");
        assert_eq!(pmi.get(Rank(0), "a").expect("a get"), "y");
        pmi.finish().expect("an end");
        server.join().expect("the server");
    }

    #[test]
    fn failures_are_told() {
        let (place, _socket, server) = serve(vec![(OPENING[0].0, "cmd=response_to_init rc=-1\n")]);
        let error = Pmi1::open(place).err().expect("refused").to_string();
        assert!(error.contains("cmd=init") && error.contains("rc=-1"), "{error}");
        server.join().expect("the server");
        let (place, _socket, server) = serve(vec![(OPENING[0].0, "cmd=resp")]);
        let error = Pmi1::open(place).err().expect("cut off").to_string();
        assert!(error.contains("connection failed"), "{error}");
        server.join().expect("the server");
    }
}
