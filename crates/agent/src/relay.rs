//! Between somebody on another node and the agent: bytes, both ways.

use crate::{AgentError, Place};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

/// Joins `input` and `output` with the agent of this node, which gets `patience` to listen, until one side ends.
///
/// # Errors
/// Nobody listens.
pub fn relay(
    place: &Place,
    patience: Duration,
    mut input: impl Read + Send + 'static,
    mut output: impl io::Write,
) -> Result<(), AgentError> {
    let begun = Instant::now();
    let mut stream = loop {
        match UnixStream::connect(&place.socket) {
            Ok(stream) => break stream,
            Err(source) if begun.elapsed() >= patience => {
                return Err(AgentError::NoAgent { path: place.socket.clone(), log: place.log(), source });
            }
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    };
    let mut reading = stream.try_clone().map_err(AgentError::system("use a socket twice"))?;
    thread::spawn(move || {
        let _ = io::copy(&mut input, &mut stream);
        // Whoever was there has gone, and the agent has to know.
        let _ = stream.shutdown(Shutdown::Both);
    });
    let mut bytes = [0; 4096];
    loop {
        match reading.read(&mut bytes) {
            Ok(count) if count > 0 => {
                let passed = output.write_all(&bytes[..count]).and_then(|()| output.flush());
                passed.map_err(AgentError::system("pass on what the agent says"))?;
            }
            _ => return Ok(()),
        }
    }
}
