//! What everything of a lab is called, and where it is found.

/// The most hosts of a lab.
pub const HOSTS_MAX: u32 = 250;
/// The most segments of a lab.
pub const SEGMENTS_MAX: usize = 8;

/// A host's name, from 1.
pub fn name_of(index: u32) -> String {
    format!("h{index}")
}

/// What joins the lines of a segment.
pub(crate) fn bridge_of(segment: usize) -> String {
    format!("castell{segment}")
}

/// A host's address on a segment; its name stands for the one on the first.
pub fn address_of(index: u32, segment: usize) -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::new(10, 202, segment as u8, index as u8)
}

pub(crate) fn address6_of(index: u32, segment: usize) -> std::net::Ipv6Addr {
    std::net::Ipv6Addr::new(0xfd00, 0xca57, 0, segment as u16, 0, 0, 0, index as u16)
}

/// A host's address on the wire of a segment.
pub(crate) fn mac_of(index: u32, segment: usize) -> [u8; 6] {
    [0x02, 0xca, 0x57, 0xe1, 0x10 + segment as u8, index as u8]
}

/// The machine's end of a host's line to a segment.
pub(crate) fn line_of(index: u32, segment: usize) -> String {
    format!("v{index}-{segment}")
}

/// What a host calls its interface on a segment.
pub fn interface_of(segment: usize) -> String {
    format!("eth{segment}")
}
