//! What an open connection carries, encrypted: TLS 1.3 by rustls, without I/O.
//!
//! Both sides have proved by then that they know the job's secret. Here they do so again: each has a key made from that secret, and takes
//! none but the other's, so that nobody who was in between when they proved it can stay there. What was recorded cannot be read
//! by one who learns the secret later, since each connection agrees on keys of its own. There are no certificates, hence no names and no
//! dates that could be wrong.

use crate::handshake::{Secret, derive};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption, UnbufferedClientConnection};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, UnbufferedServerConnection};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};
use std::sync::Arc;

/// So much is encrypted at a time, and kept until the system has taken it.
const CHUNK_BYTES: usize = 64 * 1024;

/// A private key of Ed25519 is 32 bytes; this stands before them where keys are written down (RFC 8410, section 7).
const KEY_PREFIX: [u8; 16] =
    [0x30, 0x2E, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2B, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// How a rank encrypts, as dialer and as listener.
pub(crate) struct Keys {
    dialer: Arc<ClientConfig>,
    listener: Arc<ServerConfig>,
}

impl Keys {
    /// The keys of a job: the same for all its ranks.
    pub(crate) fn of(secret: &Secret) -> Keys {
        let provider = Arc::new(CryptoProvider {
            cipher_suites: vec![
                ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
                ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            kx_groups: vec![ring::kx_group::X25519],
            ..ring::default_provider()
        });
        let key = |purpose: &[u8]| {
            let written = [&KEY_PREFIX[..], &derive(secret, purpose)].concat();
            let key = provider.key_provider.load_private_key(PrivatePkcs8KeyDer::from(written).into());
            key.expect("any 32 bytes are a key")
        };
        let [dialer, listener] = [key(b"castell tls dialer"), key(b"castell tls listener")];
        let schemes = provider.signature_verification_algorithms;
        let expected = |key| Arc::new(Expected { key: public(key), schemes });
        let [expected_dialer, expected_listener] = [expected(&dialer), expected(&listener)];
        let mut dialing = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has it")
            .dangerous()
            .with_custom_certificate_verifier(expected_listener)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(certified(dialer))));
        (dialing.enable_sni, dialing.resumption) = (false, Resumption::disabled());
        let mut listening = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .expect("the provider has it")
            .with_client_cert_verifier(expected_dialer)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(certified(listener))));
        listening.send_tls13_tickets = 0;
        Keys { dialer: Arc::new(dialing), listener: Arc::new(listening) }
    }
}

fn public(key: &Arc<dyn SigningKey>) -> SubjectPublicKeyInfoDer<'static> {
    key.public_key().expect("it has a public half").into_owned()
}

/// A public key stands where a certificate does elsewhere (RFC 7250).
fn certified(key: Arc<dyn SigningKey>) -> Arc<CertifiedKey> {
    let public = CertificateDer::from(public(&key).to_vec());
    Arc::new(CertifiedKey::new(vec![public], key))
}

/// Takes one key and no other.
#[derive(Debug)]
struct Expected {
    key: SubjectPublicKeyInfoDer<'static>,
    schemes: WebPkiSupportedAlgorithms,
}

impl Expected {
    fn check(&self, shown: &CertificateDer<'_>) -> Result<(), Error> {
        match shown.as_ref() == self.key.as_ref() {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }
}

/// What both sides ask alike of the other's signature.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            _: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            verify_tls13_signature_with_raw_key(message, &self.key, signed, &self.schemes)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Expected {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(shown).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Expected {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(shown).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}

enum Side {
    Dialer(UnbufferedClientConnection),
    Listener(UnbufferedServerConnection),
}

/// The encryption of one connection.
pub(crate) struct Session {
    side: Side,
    /// The beginning of a record that has not come whole.
    rest: Vec<u8>,
    out: Outgoing,
    is_ready: bool,
}

/// What came makes no sense, or not from whom it should be: the connection is to be given up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<Error> for Broken {
    fn from(_: Error) -> Broken {
        Broken
    }
}

impl Session {
    /// The dialer's side speaks first: there is something to be written at once.
    pub(crate) fn new(keys: &Keys, is_dialer: bool) -> Session {
        let side = match is_dialer {
            true => {
                let name = ServerName::try_from("castell").expect("it is a name");
                let dialer = UnbufferedClientConnection::new(Arc::clone(&keys.dialer), name);
                Side::Dialer(dialer.expect("the configuration is complete"))
            }
            false => {
                let listener = UnbufferedServerConnection::new(Arc::clone(&keys.listener));
                Side::Listener(listener.expect("the configuration is complete"))
            }
        };
        let mut session = Session { side, rest: Vec::new(), out: Outgoing::default(), is_ready: false };
        // Nothing has come that could be wrong.
        let _ = session.step(&mut [], &mut |_| {}, &[]);
        session
    }

    /// Whether something can be encrypted.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// What lies before whatever comes next, when it is given to [`Session::decrypt`].
    pub(crate) fn rest(&self) -> &[u8] {
        &self.rest
    }

    /// Decrypts what has come, the rest of before in front of it; says how many bytes of `into`, which is as long, it makes.
    pub(crate) fn decrypt(&mut self, came: &mut [u8], into: &mut [u8]) -> Result<usize, Broken> {
        let mut filled = 0;
        let mut take = |plain: &[u8]| {
            into[filled..filled + plain.len()].copy_from_slice(plain);
            filled += plain.len();
        };
        let used = self.step(came, &mut take, &[])?;
        self.rest.clear();
        self.rest.extend_from_slice(&came[used..]);
        Ok(filled)
    }

    /// Encrypts as much of the parts, one behind the other, as may wait; says how much. Nothing while something waits.
    pub(crate) fn encrypt(&mut self, parts: [&[u8]; 3]) -> Result<usize, Broken> {
        let mut taken = 0;
        if !self.is_ready || !self.unsent().is_empty() {
            return Ok(0);
        }
        for part in parts {
            let part = &part[..part.len().min(CHUNK_BYTES - taken)];
            if !part.is_empty() {
                self.step(&mut [], &mut |_| {}, part)?;
                taken += part.len();
            }
        }
        Ok(taken)
    }

    /// What is to be written.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.out.bytes[self.out.front..self.out.back]
    }

    /// So much of it was.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.out.front += bytes;
        if self.out.front == self.out.back {
            (self.out.front, self.out.back) = (0, 0);
        }
    }

    /// Goes on until more has to come: takes records out of `came`, hands over what was in them, and encrypts `plain`. Says how much of
    /// `came` is used up.
    fn step(&mut self, came: &mut [u8], take: &mut dyn FnMut(&[u8]), plain: &[u8]) -> Result<usize, Broken> {
        let mut used = 0;
        loop {
            let rest = &mut came[used..];
            let (discard, next) = match &mut self.side {
                Side::Dialer(dialer) => settle(dialer.process_tls_records(rest), &mut self.out, take, plain),
                Side::Listener(listener) => {
                    settle(listener.process_tls_records(rest), &mut self.out, take, plain)
                }
            }?;
            used += discard;
            match next {
                Next::Again => {}
                Next::Waits => return Ok(used),
                Next::Ready => {
                    self.is_ready = true;
                    return Ok(used);
                }
            }
        }
    }
}

enum Next {
    /// There may be more to do.
    Again,
    /// Something has to come.
    Waits,
    /// All is done, and anything can be encrypted.
    Ready,
}

/// Does what the state asks for.
fn settle<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    out: &mut Outgoing,
    take: &mut dyn FnMut(&[u8]),
    plain: &[u8],
) -> Result<(usize, Next), Broken> {
    let next = match status.state? {
        ConnectionState::ReadTraffic(mut records) => {
            while let Some(record) = records.next_record() {
                take(record?.payload);
            }
            Next::Again
        }
        ConnectionState::EncodeTlsData(mut message) => {
            out.put(|to| match message.encode(to) {
                Ok(bytes) => Ok(bytes),
                Err(EncodeError::InsufficientSize(size)) => Err(Some(size.required_size)),
                Err(EncodeError::AlreadyEncoded) => Err(None),
            })?;
            Next::Again
        }
        ConnectionState::TransmitTlsData(message) => {
            message.done();
            Next::Again
        }
        ConnectionState::WriteTraffic(mut writer) => {
            if !plain.is_empty() {
                out.put(|to| match writer.encrypt(plain, to) {
                    Ok(bytes) => Ok(bytes),
                    Err(EncryptError::InsufficientSize(size)) => Err(Some(size.required_size)),
                    Err(EncryptError::EncryptExhausted) => Err(None),
                })?;
            }
            Next::Ready
        }
        ConnectionState::BlockedHandshake => Next::Waits,
        // A rank says in a frame that it leaves; nobody of ours ends the encryption before.
        _ => return Err(Broken),
    };
    Ok((status.discard, next))
}

/// Encrypted bytes on their way to the system.
#[derive(Default)]
struct Outgoing {
    /// Never shorter than before, so that it is not cleared again and again.
    bytes: Vec<u8>,
    front: usize,
    back: usize,
}

impl Outgoing {
    /// Has bytes written behind the others by `write`, which says how many, or how much room it needs (`None`: it never will).
    fn put(
        &mut self,
        mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
    ) -> Result<(), Broken> {
        let needed = match write(&mut self.bytes[self.back..]) {
            Ok(bytes) => {
                self.back += bytes;
                return Ok(());
            }
            Err(needed) => needed.ok_or(Broken)?,
        };
        self.bytes.resize(self.back + needed, 0);
        self.back += write(&mut self.bytes[self.back..]).map_err(|_| Broken)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Two sides, and what is under way between them.
    struct Pair([Session; 2]);

    impl Pair {
        fn of(dialer: [u8; 32], listener: [u8; 32]) -> Pair {
            let keys = |secret| Keys::of(&Secret::new(secret));
            Pair([Session::new(&keys(dialer), true), Session::new(&keys(listener), false)])
        }

        /// Carries what is to be written, so many bytes at a time, until nothing is; gives what comes out at either side.
        fn carry(&mut self, at_a_time: usize) -> Result<[Vec<u8>; 2], Broken> {
            let mut out = [Vec::new(), Vec::new()];
            while let Some(from) = (0..2).find(|from| !self.0[*from].unsent().is_empty()) {
                let bytes = self.0[from].unsent().len().min(at_a_time);
                let came = self.0[from].unsent()[..bytes].to_vec();
                self.0[from].wrote(bytes);
                let to = &mut self.0[1 - from];
                let mut came = [to.rest(), &came].concat();
                let mut plain = vec![0; came.len()];
                let filled = to.decrypt(&mut came, &mut plain)?;
                out[1 - from].extend_from_slice(&plain[..filled]);
            }
            Ok(out)
        }
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|at| (at * 7 % 251) as u8).collect()
    }

    #[test]
    fn what_goes_in_comes_out_in_whichever_pieces_it_travels() {
        for (at_a_time, longest) in [(1, 2000), (7, 5000), (1500, 40_000), (1 << 20, CHUNK_BYTES)] {
            let mut pair = Pair::of([5; 32], [5; 32]);
            assert_eq!(pair.0[0].encrypt([b"too early", &[], &[]]), Ok(0));
            assert_eq!(pair.carry(at_a_time), Ok([vec![], vec![]]));
            assert!(pair.0.iter().all(Session::is_ready));
            for (from, length) in [(0, 1), (1, longest / 2), (0, longest), (1, 3)] {
                let said = bytes(length);
                let (front, back) = said.split_at(length / 3);
                assert_eq!(pair.0[from].encrypt([b"", front, back]), Ok(length));
                assert_eq!(pair.0[from].encrypt([b"not yet", b"", b""]), Ok(0), "something waits");
                let parts: HashSet<&[u8]> = said.windows(16).collect();
                assert!(!pair.0[from].unsent().windows(16).any(|window| parts.contains(window)));
                assert_eq!(pair.carry(at_a_time).expect("the keys fit")[1 - from], said);
            }
            // More than is taken at a time.
            assert_eq!(pair.0[0].encrypt([&bytes(50_000), &bytes(50_000), b""]), Ok(CHUNK_BYTES));
        }
    }

    #[test]
    fn who_has_another_secret_gets_nowhere() {
        let mut pair = Pair::of([5; 32], [6; 32]);
        assert_eq!(pair.carry(1 << 20), Err(Broken));
        assert!(!pair.0[0].is_ready());
    }

    #[test]
    fn any_changed_byte_is_found() {
        let mut tried = 0;
        for at in (0..).step_by(3) {
            let mut pair = Pair::of([5; 32], [5; 32]);
            pair.carry(1 << 20).expect("the keys fit");
            pair.0[0].encrypt([b"a message", b"", b""]).expect("it is ready");
            let mut came = pair.0[0].unsent().to_vec();
            let Some(byte) = came.get_mut(at) else { break };
            *byte ^= 1 << (at % 8);
            let mut plain = vec![0; came.len()];
            // A length that grew is waited for: whoever waits notices the silence. The first three bytes of a record say nothing.
            match pair.0[1].decrypt(&mut came, &mut plain) {
                Err(Broken) | Ok(0) => {}
                heard => assert!(at < 3 && plain.starts_with(b"a message"), "byte {at}: {heard:?}"),
            }
            tried += 1;
        }
        assert!(tried > 5, "{tried} bytes were tried");
    }
}
