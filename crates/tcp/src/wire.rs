//! A socket, and its encryption, if there is one: bytes in and out, as if there were none.

use crate::socket;
use crate::tls::{Keys, Session};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

pub(crate) struct Wire {
    pub(crate) socket: OwnedFd,
    session: Option<Box<Session>>,
}

impl Wire {
    /// Not encrypted yet.
    pub(crate) fn new(socket: OwnedFd) -> Wire {
        Wire { socket, session: None }
    }

    /// From here on all is encrypted.
    pub(crate) fn encrypt(&mut self, keys: &Keys, is_dialer: bool) {
        self.session = Some(Box::new(Session::new(keys, is_dialer)));
    }

    /// Sends as much as there is room for; 0: nothing can be sent before something has come.
    pub(crate) fn send(&mut self, parts: [&[u8]; 3]) -> Result<usize, Errno> {
        self.flush()?;
        let Some(session) = &mut self.session else { return socket::send(&self.socket, parts) };
        let bytes = session.encrypt(parts).map_err(|_| Errno::BADMSG)?;
        match self.flush() {
            // What was taken goes out later.
            Ok(()) | Err(Errno::AGAIN) => Ok(bytes),
            Err(error) => Err(error),
        }
    }

    /// Whether something waits that was taken and encrypted.
    pub(crate) fn is_behind(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.unsent().is_empty())
    }

    /// Has the system take what waits.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while !session.unsent().is_empty() {
            match socket::send(&self.socket, [session.unsent(), &[], &[]]) {
                Ok(bytes) => session.wrote(bytes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads; 0: the other side has ended it. Encrypted bytes lie in `encrypted`, as long as `into`, meanwhile, and only its first part is used. `AGAIN` where
    /// something has come that is nothing yet, and `BADMSG` where it makes no sense.
    pub(crate) fn receive(&mut self, into: [&mut [u8]; 2], encrypted: &mut [u8]) -> Result<usize, Errno> {
        let Some(session) = &mut self.session else { return socket::receive_parts(&self.socket, into) };
        let [into, _] = into;
        let before = session.rest().len();
        if before >= encrypted.len() {
            return Err(Errno::BADMSG);
        }
        encrypted[..before].copy_from_slice(session.rest());
        let bytes = socket::receive(&self.socket, &mut encrypted[before..])?;
        if bytes == 0 {
            return Ok(0);
        }
        match session.decrypt(&mut encrypted[..before + bytes], into) {
            Ok(0) => Err(Errno::AGAIN),
            Ok(bytes) => Ok(bytes),
            Err(_) => Err(Errno::BADMSG),
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.session.is_some()
    }

    /// Whether what is given to [`Wire::send`] can go out.
    pub(crate) fn is_ready(&self) -> bool {
        self.session.as_ref().is_none_or(|session| session.is_ready())
    }
}
