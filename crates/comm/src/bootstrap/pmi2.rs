//! The PMI-2 wire protocol: messages of `key=value;` pairs behind a length of six digits, over an inherited descriptor.

use super::BootstrapError;
use super::handover::duplicate;
use super::keyvalue::KeyValueSpace;
use super::signs::PmiPlace;
use castell_base::Rank;
use std::fs::File;
use std::io::{self, Read, Write};

const PROTOCOL: &str = "PMI-2";
const LENGTH_DIGITS: usize = 6;
const VALUE_BYTES_MAX: usize = 1024;

/// A connection to a PMI-2 service.
pub(super) struct Pmi2 {
    place: PmiPlace,
    stream: File,
    job: String,
}

impl Pmi2 {
    /// Opens the service that the environment names.
    pub(super) fn open(place: PmiPlace) -> Result<Pmi2, BootstrapError> {
        let failed = |request: &str, source| BootstrapError::Connection {
            protocol: PROTOCOL,
            request: request.into(),
            source,
        };
        let stream = duplicate(place.descriptor);
        let stream = stream.map_err(|source| failed(&format!("PMI_FD={}", place.descriptor), source))?;
        let mut pmi = Pmi2 { place, stream: File::from(stream), job: String::new() };
        // The greeting is a line, as in PMI-1: it settles which protocol follows.
        let greeting = "cmd=init pmi_version=2 pmi_subversion=0";
        let answer = pmi.greet(greeting).map_err(|source| failed(greeting, source))?;
        if !answer.contains("pmi_version=2") || !answer.contains("rc=0") {
            return Err(BootstrapError::Protocol { protocol: PROTOCOL, request: greeting.into(), answer });
        }
        let job = pmi.place.job.clone().unwrap_or_default();
        let rank = pmi.place.rank;
        pmi.ask(&format!("cmd=fullinit;pmijobid={job};pmirank={rank};threaded=FALSE;"), "fullinit-response")?;
        let answer = pmi.ask("cmd=job-getid;", "job-getid-response")?;
        pmi.job = pair(&answer, "jobid").unwrap_or_default().to_string();
        Ok(pmi)
    }

    fn greet(&mut self, greeting: &str) -> io::Result<String> {
        self.stream.write_all(format!("{greeting}\n").as_bytes())?;
        let mut answer = Vec::new();
        // Byte by byte, so as not to run into the messages behind the line.
        while answer.last() != Some(&b'\n') && answer.len() < VALUE_BYTES_MAX {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&answer).trim_end().to_string())
    }

    /// Sends a request, and reads its answer, which has to have that name and no sign of failure.
    fn ask(&mut self, request: &str, answer_name: &str) -> Result<String, BootstrapError> {
        let answer = self.exchange(request).map_err(|source| BootstrapError::Connection {
            protocol: PROTOCOL,
            request: request.into(),
            source,
        })?;
        let is_fine = pair(&answer, "rc").is_none_or(|code| code == "0");
        if pair(&answer, "cmd") != Some(answer_name) || !is_fine {
            return Err(BootstrapError::Protocol { protocol: PROTOCOL, request: request.into(), answer });
        }
        Ok(answer)
    }

    fn exchange(&mut self, request: &str) -> io::Result<String> {
        let message = format!("{:>LENGTH_DIGITS$}{request}", request.len());
        self.stream.write_all(message.as_bytes())?;
        let mut length = [0; LENGTH_DIGITS];
        self.stream.read_exact(&mut length)?;
        let bytes = std::str::from_utf8(&length).ok().and_then(|digits| digits.trim().parse::<usize>().ok());
        let mut answer = vec![0; bytes.ok_or(io::ErrorKind::InvalidData)?];
        self.stream.read_exact(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The value of the pair `name=value;` in an answer. Our own values hold no semicolons.
fn pair<'a>(answer: &'a str, name: &str) -> Option<&'a str> {
    answer.split(';').find_map(|pair| pair.trim_start().strip_prefix(name)?.strip_prefix('='))
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
        self.ask(&request, "kvs-put-response").map(drop)
    }

    fn fence(&mut self) -> Result<(), BootstrapError> {
        self.ask("cmd=kvs-fence;", "kvs-fence-response").map(drop)
    }

    fn get(&mut self, from: Rank, key: &str) -> Result<String, BootstrapError> {
        let request = format!("cmd=kvs-get;jobid={};srcid=-1;key=castell.{from}.{key};", self.job);
        let answer = self.ask(&request, "kvs-get-response")?;
        let found =
            pair(&answer, "found").or_else(|| pair(&answer, "flag")).is_none_or(|found| found == "TRUE");
        let value = pair(&answer, "value").filter(|_| found).map(String::from);
        value.ok_or(BootstrapError::Protocol { protocol: PROTOCOL, request, answer })
    }

    fn value_bytes_max(&self) -> usize {
        VALUE_BYTES_MAX
    }

    fn finish(&mut self) -> Result<(), BootstrapError> {
        self.ask("cmd=finalize;", "finalize-response").map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
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
                let mut message = vec![0; LENGTH_DIGITS + request.len()];
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
