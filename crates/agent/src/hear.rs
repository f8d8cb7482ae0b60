//! Messages that come over a stream, one thread each.

use crate::AgentError;
use castell_policy::session::protocol::{Lines, decode};
use serde::de::DeserializeOwned;
use std::io::Read;

/// Gives each message to `take`, which says whether to go on, until the stream ends or speaks another language.
pub(crate) fn hear<M: DeserializeOwned>(
    mut stream: impl Read,
    mut take: impl FnMut(M) -> bool,
) -> Result<(), AgentError> {
    let mut lines = Lines::default();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).map_err(AgentError::system("hear the other side"))?;
        if count == 0 {
            return Ok(());
        }
        lines.push(&bytes[..count])?;
        while let Some(line) = lines.next_line() {
            if !take(decode(&line)?) {
                return Ok(());
            }
        }
    }
}
