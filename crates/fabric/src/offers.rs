//! What the library's providers offer here, and which of it castell takes: by what it can do, never by its name.

use crate::abi::{self, Info};
use crate::hidden::Hidden;
use crate::library::{Library, LibraryError};
use std::ffi::{CStr, CString, c_char};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{NonNull, null, null_mut};
use std::sync::Arc;

/// Offers that are looked at, at most: machines have a handful of devices.
const OFFERS_MAX: usize = 512;

/// What a user wants of it: `provider`, `provider/domain`, `/domain`, or nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// The provider's name, whole (`tcp;ofi_rxm`) or its core's (`tcp`).
    pub provider: Option<String>,
    /// A device, as the provider calls it (`eth0`, `mlx5_0`).
    pub domain: Option<String>,
}

impl Wish {
    /// As it is written on command lines.
    pub fn of(text: &str) -> Wish {
        let (provider, domain) = text.split_once('/').unwrap_or((text, ""));
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        Wish { provider: some(provider), domain: some(domain) }
    }
}

/// Which peers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// All on this host.
    ThisHost,
    /// Other hosts, too.
    OtherHosts,
}

/// A description in libfabric's own memory.
pub(crate) struct OwnedInfo {
    libfabric: Arc<Library>,
    info: NonNull<Info>,
}

// SAFETY: nobody else has the description, and libfabric's functions for descriptions may be called from any thread.
unsafe impl Send for OwnedInfo {}

impl OwnedInfo {
    /// An empty one: what is asked for.
    fn hints(library: &Arc<Library>) -> Option<OwnedInfo> {
        // SAFETY: without a description, an empty one is made, with all its parts.
        let info = NonNull::new(unsafe { (library.dup_info)(null()) })?;
        Some(OwnedInfo { libfabric: Arc::clone(library), info })
    }

    fn copy_of(library: &Arc<Library>, other: NonNull<Info>) -> Option<OwnedInfo> {
        // SAFETY: a description that the library has made.
        let info = NonNull::new(unsafe { (library.dup_info)(other.as_ptr()) })?;
        Some(OwnedInfo { libfabric: Arc::clone(library), info })
    }

    pub(crate) fn as_ptr(&self) -> *mut Info {
        self.info.as_ptr()
    }

    pub(crate) fn get(&self) -> &Info {
        // SAFETY: made by the library, whole, and this object's own.
        unsafe { self.info.as_ref() }
    }

    /// One of its parts.
    pub(crate) fn part<T>(&self, part: impl Fn(&Info) -> *mut T) -> &T {
        let part = NonNull::new(part(self.get())).expect("a description has all its parts");
        // SAFETY: made by the library together with the description, which lives as long.
        unsafe { part.as_ref() }
    }

    fn part_mut<T>(&mut self, part: impl Fn(&Info) -> *mut T) -> &mut T {
        let mut part = NonNull::new(part(self.get())).expect("a description has all its parts");
        // SAFETY: as above, and nobody else looks at it meanwhile.
        unsafe { part.as_mut() }
    }
}

impl Drop for OwnedInfo {
    fn drop(&mut self) {
        // SAFETY: made by the library, freed once.
        unsafe { (self.libfabric.free_info)(self.info.as_ptr()) }
    }
}

/// Something that a provider offers on this machine.
pub struct Offer {
    /// The provider.
    pub provider: String,
    /// Its version.
    pub version: (u32, u32),
    /// The device.
    pub domain: String,
    /// The network that the device is on.
    pub network: String,
    /// Messages, tagged messages, access to memory of others.
    pub messages: bool,
    /// Whether messages can have tags.
    pub tagged: bool,
    /// Whether castell writes to other ranks' memory by it.
    pub remote_writes: bool,
    /// Why not, if the provider could; and other things that castell does without.
    pub notes: Vec<String>,
    /// Why castell can't use it at all.
    pub lacks: Option<String>,
    pub(crate) info: OwnedInfo,
    pub(crate) ip: Option<IpAddr>,
}

impl fmt::Debug for Offer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Offer({} at {}, {})", self.provider, self.domain, self.network)
    }
}

/// Nothing of what is offered can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OfferError {
    /// The library cannot be had.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// Nobody offers what is wanted.
    #[error(
        "libfabric {version} has no provider here that fits {wanted}; there are: {there}. `castell ways --explain` shows what each offers and lacks"
    )]
    Nothing {
        /// The library's version.
        version: String,
        /// What was wanted.
        wanted: String,
        /// What there is.
        there: String,
    },
}

impl fmt::Display for Wish {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.provider.as_deref().unwrap_or("any provider"))?;
        self.domain.as_ref().map_or(Ok(()), |domain| write!(out, " at {domain}"))
    }
}

/// The version of the library that would be used.
///
/// # Errors
/// There is no library.
pub fn library_version() -> Result<(u32, u32), LibraryError> {
    Ok(Library::usual()?.version)
}

/// All that the providers offer for ranks that reach so far, the library's best first.
///
/// # Errors
/// There is no library.
pub fn offers(reach: Reach) -> Result<Vec<Offer>, LibraryError> {
    Ok(all(&Library::usual()?, &Wish::default(), reach, Hidden::default()))
}

/// The offers that castell can use, the best first.
pub(crate) fn usable(
    library: &Arc<Library>,
    wish: &Wish,
    reach: Reach,
    hidden: Hidden,
) -> Result<Vec<Offer>, OfferError> {
    let mut found = all(library, wish, reach, hidden);
    found.retain(|offer| {
        offer.lacks.is_none() && wish.domain.as_ref().is_none_or(|domain| *domain == offer.domain)
    });
    // A card that others reach, before one that only this host does.
    let first = castell_host::interfaces::addresses();
    let order = |offer: &Offer| match offer.ip {
        Some(ip) => first.iter().position(|one| one.ip == ip).unwrap_or(first.len()),
        None => 0,
    };
    if let Some(best) = found.first().map(|offer| offer.provider.clone()) {
        let is_best = |offer: &Offer| offer.provider != best;
        found
            .sort_by_key(|offer| (is_best(offer), if reach == Reach::OtherHosts { order(offer) } else { 0 }));
    }
    if !found.is_empty() {
        return Ok(found);
    }
    let mut there: Vec<String> = Vec::new();
    for offer in all(library, &Wish::default(), reach, hidden).iter().filter(|offer| offer.lacks.is_none()) {
        let name = format!("{}/{}", offer.provider, offer.domain);
        if !there.contains(&name) {
            there.push(name);
        }
    }
    let there = if there.is_empty() { "none".into() } else { there.join(", ") };
    let version = format!("{}.{}", library.version.0, library.version.1);
    Err(OfferError::Nothing { version, wanted: wish.to_string(), there })
}

fn all(library: &Arc<Library>, wish: &Wish, reach: Reach, hidden: Hidden) -> Vec<Offer> {
    let messages = if hidden.messages { 0 } else { abi::CAP_MSG };
    let tagged = if hidden.tagged { 0 } else { abi::CAP_TAGGED };
    let remote = if hidden.remote_access { 0 } else { abi::CAP_RMA };
    // The most that a provider does at once is what it is asked for in the end.
    let mut found: Vec<Offer> = Vec::new();
    for caps in
        [messages | tagged | remote, messages | remote, messages | tagged, tagged | remote, messages, tagged]
    {
        if caps & (abi::CAP_MSG | abi::CAP_TAGGED) == 0 {
            continue;
        }
        for info in ask(library, wish, reach, caps) {
            let offer = judge(info, caps, reach, hidden);
            let is_same = |other: &Offer| {
                (&other.provider, &other.domain, &other.network)
                    == (&offer.provider, &offer.domain, &offer.network)
            };
            if !found.iter().any(is_same) && found.len() < OFFERS_MAX {
                found.push(offer);
            }
        }
    }
    found
}

/// What the library says to such a question.
fn ask(library: &Arc<Library>, wish: &Wish, reach: Reach, caps: u64) -> Vec<OwnedInfo> {
    let Some(mut hints) = OwnedInfo::hints(library) else { return Vec::new() };
    // SAFETY: the description is this function's own.
    let info = unsafe { &mut *hints.as_ptr() };
    info.caps = caps
        | match reach {
            // Not all of those that are for one host say so.
            Reach::ThisHost => 0,
            Reach::OtherHosts => abi::CAP_REMOTE_COMM,
        };
    info.mode = abi::MODE_CONTEXT | abi::MODE_CONTEXT2;
    hints.part_mut(|info| info.ep_attr).kind = abi::ENDPOINT_RDM;
    let domain = hints.part_mut(|info| info.domain_attr);
    domain.threading = abi::THREADING_DOMAIN;
    domain.data_progress = abi::PROGRESS_MANUAL;
    domain.resource_mgmt = abi::RESOURCES_MANAGED;
    domain.mr_mode =
        abi::MR_LOCAL | abi::MR_VIRTUAL_ADDRESS | abi::MR_ALLOCATED | abi::MR_PROVIDER_KEY | abi::MR_ENDPOINT;
    if let Some(name) = wish.provider.as_ref().and_then(|name| CString::new(name.as_str()).ok()) {
        // SAFETY: the library frees the copy together with the description.
        hints.part_mut(|info| info.fabric_attr).prov_name = unsafe { libc::strdup(name.as_ptr()) };
    }
    let mut list = null_mut();
    // SAFETY: a description of the library's own, and a place for the answer.
    let answer = unsafe { (library.get_info)(abi::VERSION, null(), null(), 0, hints.as_ptr(), &mut list) };
    let mut found = Vec::new();
    if answer == 0 {
        let mut at = NonNull::new(list);
        while let Some(info) = at.filter(|_| found.len() < OFFERS_MAX) {
            found.extend(OwnedInfo::copy_of(library, info));
            // SAFETY: the list is the library's, and not freed yet.
            at = NonNull::new(unsafe { info.as_ref() }.next);
        }
        // SAFETY: freed once; copies were made.
        unsafe { (library.free_info)(list) };
    }
    found
}

fn judge(info: OwnedInfo, caps: u64, reach: Reach, hidden: Hidden) -> Offer {
    let fabric = info.part(|info| info.fabric_attr);
    let version = (fabric.prov_version >> 16, fabric.prov_version & 0xFFFF);
    let order = info.part(|info| info.tx_attr).msg_order & info.part(|info| info.rx_attr).msg_order;
    let mut offer = Offer {
        provider: text(fabric.prov_name),
        version,
        domain: text(info.part(|info| info.domain_attr).name),
        network: text(fabric.name),
        messages: caps & abi::CAP_MSG != 0,
        tagged: caps & abi::CAP_TAGGED != 0,
        remote_writes: false,
        notes: Vec::new(),
        lacks: None,
        ip: ip_of(&info),
        info,
    };
    let domain = offer.info.part(|info| info.domain_attr);
    let mut notes = Vec::new();
    if caps & abi::CAP_RMA == 0 {
        notes.push("it cannot write to memory of others, so large messages go in pieces".into());
    } else if domain.mr_mode & abi::MR_PROVIDER_KEY != 0 || domain.mr_key_size < 8 {
        notes.push(
            "it makes the keys to memory itself, and strangers could guess them, so large messages go in pieces".into(),
        );
    } else if hidden.order || order & abi::ORDER_SEND_AFTER_WRITE == 0 {
        notes.push(
            "what it writes may come after messages that follow, so large messages go in pieces".into(),
        );
    } else {
        offer.remote_writes = true;
    }
    if hidden.order || order & abi::ORDER_SEND_AFTER_SEND == 0 {
        notes.push("its messages may overtake each other, so castell sorts them".into());
    }
    if offer.info.get().mode & !(abi::MODE_CONTEXT | abi::MODE_CONTEXT2) != 0 {
        offer.lacks = Some("it has demands that castell does not know".into());
    }
    let is_loopback = offer.ip.is_some_and(|ip| ip.is_loopback());
    if is_loopback && reach == Reach::OtherHosts {
        offer.lacks = Some("it is this host's alone".into());
    }
    if matches!(offer.ip, Some(IpAddr::V6(ip)) if ip.is_unicast_link_local()) {
        offer.lacks = Some("its address is good on one link only".into());
    }
    offer.notes = notes;
    offer
}

/// A string of the library's.
fn text(of: *mut c_char) -> String {
    match NonNull::new(of) {
        // SAFETY: a C string of a description that lives.
        Some(text) => unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned(),
        None => String::new(),
    }
}

/// Where it listens, if that is an address of the internet's.
fn ip_of(info: &OwnedInfo) -> Option<IpAddr> {
    let info = info.get();
    if info.src_addr.is_null() {
        return None;
    }
    // SAFETY: an address of so many bytes, in a description that lives.
    let bytes = unsafe { std::slice::from_raw_parts(info.src_addr.cast::<u8>(), info.src_addrlen) };
    match info.addr_format {
        abi::FORMAT_SOCKADDR_IN => Some(Ipv4Addr::from(*bytes.get(4..8)?.first_chunk::<4>()?).into()),
        abi::FORMAT_SOCKADDR_IN6 => Some(Ipv6Addr::from(*bytes.get(8..24)?.first_chunk::<16>()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_read() {
        let wish = Wish::of;
        assert_eq!(wish(""), Wish::default());
        assert_eq!(wish("tcp;ofi_rxm").provider.as_deref(), Some("tcp;ofi_rxm"));
        assert_eq!(
            wish("verbs/mlx5_0"),
            Wish { provider: Some("verbs".into()), domain: Some("mlx5_0".into()) }
        );
        assert_eq!(wish("/eth0"), Wish { provider: None, domain: Some("eth0".into()) });
    }

    #[test]
    fn a_provider_that_is_not_there_is_told_with_those_that_are() {
        let library = Library::usual().expect("the set-up installs libfabric");
        let wish = Wish::of("no-such-provider");
        let error =
            usable(&library, &wish, Reach::ThisHost, Hidden::default()).expect_err("nobody offers it");
        let said = error.to_string();
        assert!(said.contains("no-such-provider") && said.contains("tcp;ofi_rxm/lo"), "{said}");
    }
}
