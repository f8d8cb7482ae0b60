//! Where in a job's segment what lies.
//!
//! ```text
//! [header: one page] [control block a rank: 256 B] [area a rank: ring pool | receive queue | descriptors of large messages |
//!  runs that any process may carry on | pipes of large messages] [board of calls a rank]
//!  [host, address in a network and host's name a rank: 256 B] [slots] [tuning] [pool a rank]
//! ```

use crate::board::{ENTRIES, Entry};
use crate::group::RankControl;
use crate::peer_progress::heap::AREA_BYTES;
use crate::queue::Geometry;
use crate::rendezvous::{DESCRIPTORS, Descriptor, PIPE_BYTES, PIPES};
use crate::ring::RING_POOL_BYTES;
use crate::slot::geometry::Geometry as Slots;
use crate::tuning::announced;

pub(super) const HEADER_BYTES: usize = 4096;
pub(super) const CONTROL_BYTES: usize = size_of::<RankControl>();
pub(super) const PAGE: usize = 4096;

/// A rank's board of calls.
pub(super) const BOARD_BYTES: usize = size_of::<[Entry; ENTRIES]>();

/// Where a rank is found in a network: a length, its host, and so many bytes; behind them the host's name, and its ways.
pub(super) const NET_ADDRESS_WORDS: usize = 40;
pub(super) const NET_ADDRESS_BYTES: usize = NET_ADDRESS_WORDS * 8;
/// The longest address of a rank in a network. Bytes.
pub const NET_ADDRESS_BYTES_MAX: usize = NET_ADDRESS_BYTES - 16 - HOST_NAME_BYTES_MAX - NET_WAYS;
/// As much of a host's name is kept. Bytes.
pub const HOST_NAME_BYTES_MAX: usize = 64;

/// To so many ranks, the first ones, each says by which card it reaches them.
pub(crate) const NET_WAYS: usize = 64;

/// The ring pool of a rank, up to the next page.
pub(super) const RINGS_BYTES: usize = RING_POOL_BYTES.div_ceil(PAGE) * PAGE;

/// The descriptors of a rank, up to the next page.
pub(super) const DESCRIPTORS_BYTES: usize = size_of::<[Descriptor; DESCRIPTORS]>().div_ceil(PAGE) * PAGE;

/// Bytes of receiving memory that every rank of such a job has, whatever it receives.
pub fn area_bytes(geometry: &Geometry) -> usize {
    RINGS_BYTES
        + round_up(geometry.bytes_per_rank(), PAGE)
        + DESCRIPTORS_BYTES
        + AREA_BYTES
        + PIPES * PIPE_BYTES as usize
}

pub(super) fn areas_offset(geometry: &Geometry) -> usize {
    round_up(HEADER_BYTES + geometry.ranks as usize * CONTROL_BYTES, PAGE)
}

pub(super) fn boards_offset(geometry: &Geometry) -> usize {
    areas_offset(geometry) + geometry.ranks as usize * area_bytes(geometry)
}

pub(super) fn net_addresses_offset(geometry: &Geometry) -> usize {
    round_up(boards_offset(geometry) + geometry.ranks as usize * BOARD_BYTES, PAGE)
}

pub(super) fn slots_offset(geometry: &Geometry) -> usize {
    round_up(net_addresses_offset(geometry) + geometry.ranks as usize * NET_ADDRESS_BYTES, PAGE)
}

pub(super) fn segment_bytes(geometry: &Geometry) -> usize {
    slots_offset(geometry) + round_up(Slots::new(geometry.ranks).bytes(), PAGE) + announced::BYTES
}

/// Where the tuning is announced.
pub(super) fn tuning_offset(geometry: &Geometry) -> usize {
    segment_bytes(geometry) - announced::BYTES
}

pub(super) fn round_up(bytes: usize, unit: usize) -> usize {
    bytes.div_ceil(unit) * unit
}
