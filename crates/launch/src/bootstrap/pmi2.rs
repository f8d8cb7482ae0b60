//! The PMI-2 wire protocol: messages of `key=value;` pairs behind a length of six digits, over an inherited descriptor.

use super::keyvalue::KeyValueSpace;
use super::membership::BootstrapError;
use super::signs::PmiPlace;
use super::wire::{Framing, Wire};
use castell_base::Rank;

const VALUE_BYTES_MAX: usize = 1024;

/// A connection to a PMI-2 service.
pub(super) struct Pmi2 {
    place: PmiPlace,
    wire: Wire,
    job: String,
}

impl Pmi2 {
    /// Opens the service that the environment names.
    pub(super) fn open(place: PmiPlace) -> Result<Pmi2, BootstrapError> {
        let mut wire = Wire::open("PMI-2", Framing::Counted, place.descriptor)?;
        // The greeting is a line, as in PMI-1.
        let greeting = "cmd=init pmi_version=2 pmi_subversion=0";
        let answer = wire.greet(greeting)?;
        if !answer.text.contains("pmi_version=2") || !answer.text.contains("rc=0") {
            return Err(wire.refuse(greeting, answer));
        }
        let (id, rank) = (place.job.as_deref().unwrap_or_default(), place.rank);
        wire.ask(&format!("cmd=fullinit;pmijobid={id};pmirank={rank};threaded=FALSE;"), "fullinit-response")?;
        let answer = wire.ask("cmd=job-getid;", "job-getid-response")?;
        let job = answer.word("jobid").unwrap_or_default().to_string();
        Ok(Pmi2 { place, wire, job })
    }
}

impl KeyValueSpace for Pmi2 {
    fn rank(&self) -> Rank {
        self.place.rank
    }

    fn ranks(&self) -> u32 {
        self.place.ranks
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), BootstrapError> {
        let request = format!("cmd=kvs-put;key=castell.{}.{key};value={value};", self.place.rank);
        self.wire.ask(&request, "kvs-put-response").map(drop)
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.wire.ask("cmd=kvs-fence;", "kvs-fence-response").map(drop)
    }

    fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
        let request = format!("cmd=kvs-get;jobid={};srcid=-1;key=castell.{from}.{key};", self.job);
        let answer = self.wire.ask(&request, "kvs-get-response")?;
        let found = answer.word("found").or_else(|| answer.word("flag")).is_none_or(|found| found == "TRUE");
        let value = answer.word("value").filter(|_| found).map(String::from);
        value.ok_or_else(|| self.wire.refuse(&request, answer))
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn finish(&mut self) -> Result<(), BootstrapError> {
        self.wire.ask("cmd=finalize;", "finalize-response").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn speaks_the_protocol() {
        let script = [
            (
                "cmd=fullinit;pmijobid=5.0;pmirank=1;threaded=FALSE;",
                "cmd=fullinit-response;rank=1;size=2;rc=0;",
            ),
            ("cmd=job-getid;", "cmd=job-getid-response;jobid=5.0;rc=0;"),
            ("cmd=kvs-put;key=castell.1.a;value=x;", "cmd=kvs-put-response;rc=0;"),
            ("cmd=kvs-fence;", "cmd=kvs-fence-response;rc=0;"),
            (
                "cmd=kvs-get;jobid=5.0;srcid=-1;key=castell.0.a;",
                "cmd=kvs-get-response;found=TRUE;value=y;rc=0;",
            ),
            ("cmd=kvs-get;jobid=5.0;srcid=-1;key=castell.0.b;", "cmd=kvs-get-response;found=FALSE;rc=0;"),
            ("cmd=finalize;", "cmd=finalize-response;rc=0;"),
        ];
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let server = std::thread::spawn(move || {
            let mut stream = BufReader::new(theirs);
            let mut line = String::new();
            stream.read_line(&mut line).expect("a greeting");
            assert_eq!(line, "cmd=init pmi_version=2 pmi_subversion=0\n");
            let welcome = b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n";
            stream.get_mut().write_all(welcome).expect("an answer");
            for (request, answer) in script {
                let mut message = vec![0; 6 + request.len()];
                stream.read_exact(&mut message).expect("a request");
                assert_eq!(String::from_utf8_lossy(&message), format!("{:>6}{request}", request.len()));
                let answer = format!("{:<6}{answer}", answer.len());
                stream.get_mut().write_all(answer.as_bytes()).expect("an answer");
            }
        });
        let place =
            PmiPlace { descriptor: ours.as_raw_fd(), rank: Rank(1), ranks: 2, job: Some("5.0".into()) };
        let mut pmi = Pmi2::open(place).expect("opens");
        pmi.put("a", "x").expect("a put");
        pmi.fence().expect("a fence");
        assert_eq!(pmi.get(Rank(0), "a").expect("a get"), "y");
        let error = pmi.get(Rank(0), "b").expect_err("no such key").to_string();
        assert!(error.contains("found=FALSE"), "{error}");
        pmi.finish().expect("an end");
        server.join().expect("the server");
    }
}
