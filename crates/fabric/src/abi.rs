//! What libfabric's functions take and give, as its interface 1.17 lays it out in memory (`man 7 fabric`, `fi_getinfo`, `fi_endpoint`, `fi_cq`,
//! `fi_mr`): later versions only add at the ends. What castell does not use has a name that begins with `_`.

use std::ffi::{c_char, c_int, c_void};

/// The version of the interface that castell speaks.
pub(crate) const VERSION: u32 = version(1, 17);

pub(crate) const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

pub(crate) const CAP_MSG: u64 = 1 << 1;
pub(crate) const CAP_RMA: u64 = 1 << 2;
pub(crate) const CAP_TAGGED: u64 = 1 << 3;
pub(crate) const CAP_REMOTE_COMM: u64 = 1 << 52;

pub(crate) const ACCESS_WRITE: u64 = 1 << 9;
pub(crate) const ACCESS_RECEIVE: u64 = 1 << 10;
pub(crate) const ACCESS_SEND: u64 = 1 << 11;
pub(crate) const ACCESS_REMOTE_WRITE: u64 = 1 << 13;
pub(crate) const FLAG_RECEIVE: u64 = 1 << 10;
pub(crate) const FLAG_TRANSMIT: u64 = 1 << 11;

pub(crate) const MODE_CONTEXT: u64 = 1 << 59;
pub(crate) const MODE_CONTEXT2: u64 = 1 << 52;

pub(crate) const MR_LOCAL: c_int = 1 << 2;
pub(crate) const MR_VIRTUAL_ADDRESS: c_int = 1 << 4;
pub(crate) const MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const MR_PROVIDER_KEY: c_int = 1 << 6;
pub(crate) const MR_ENDPOINT: c_int = 1 << 9;

/// A send is seen after what was written before.
pub(crate) const ORDER_SEND_AFTER_WRITE: u64 = 1 << 7;
pub(crate) const ORDER_SEND_AFTER_SEND: u64 = 1 << 8;

pub(crate) const THREADING_DOMAIN: c_int = 3;
pub(crate) const PROGRESS_MANUAL: c_int = 2;
pub(crate) const RESOURCES_MANAGED: c_int = 2;
pub(crate) const ENDPOINT_RDM: c_int = 3;
pub(crate) const FORMAT_SOCKADDR_IN: u32 = 2;
pub(crate) const FORMAT_SOCKADDR_IN6: u32 = 3;

pub(crate) const WAIT_NONE: c_int = 0;
pub(crate) const WAIT_DESCRIPTOR: c_int = 3;
pub(crate) const CQ_MESSAGES: c_int = 2;

pub(crate) const CONTROL_GET_WAIT: c_int = 5;
pub(crate) const CONTROL_ENABLE: c_int = 6;

pub(crate) const ERROR_AGAIN: isize = libc::EAGAIN as isize;
pub(crate) const ERROR_AVAILABLE: isize = 259;

/// A function that castell never calls.
pub(crate) type Unused = Option<unsafe extern "C" fn()>;

#[repr(C)]
pub(crate) struct TransmitAttributes {
    pub(crate) caps: u64,
    pub(crate) _mode: u64,
    pub(crate) _op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) _comp_order: u64,
    pub(crate) inject_size: usize,
    pub(crate) _size: usize,
    pub(crate) _iov_limit: usize,
    pub(crate) _rma_iov_limit: usize,
    pub(crate) _tclass: u32,
}

#[repr(C)]
pub(crate) struct ReceiveAttributes {
    pub(crate) caps: u64,
    pub(crate) _mode: u64,
    pub(crate) _op_flags: u64,
    pub(crate) msg_order: u64,
    pub(crate) _comp_order: u64,
    pub(crate) _total_buffered: usize,
    pub(crate) size: usize,
    pub(crate) _iov_limit: usize,
}

#[repr(C)]
pub(crate) struct EndpointAttributes {
    pub(crate) kind: c_int,
    pub(crate) _protocol: u32,
    pub(crate) _protocol_version: u32,
    pub(crate) max_msg_size: usize,
    pub(crate) _msg_prefix_size: usize,
    pub(crate) _max_order_raw_size: usize,
    pub(crate) _max_order_war_size: usize,
    pub(crate) _max_order_waw_size: usize,
    pub(crate) _mem_tag_format: u64,
    pub(crate) _tx_ctx_cnt: usize,
    pub(crate) _rx_ctx_cnt: usize,
    pub(crate) _auth_key_size: usize,
    pub(crate) _auth_key: *mut u8,
}

#[repr(C)]
pub(crate) struct DomainAttributes {
    pub(crate) _domain: *mut Domain,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) _control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
    pub(crate) mr_key_size: usize,
    pub(crate) _cq_data_size: usize,
    pub(crate) _counts: [usize; 9],
    pub(crate) _mr_iov_limit: usize,
    pub(crate) _caps: u64,
    pub(crate) _mode: u64,
    pub(crate) _auth_key: *mut u8,
    pub(crate) _auth_key_size: usize,
    pub(crate) _max_err_data: usize,
    pub(crate) _mr_cnt: usize,
    pub(crate) _tclass: u32,
}

#[repr(C)]
pub(crate) struct FabricAttributes {
    pub(crate) _fabric: *mut Fabric,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
    pub(crate) prov_version: u32,
    pub(crate) _api_version: u32,
}

/// What a provider offers, or what is asked for; a list.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) _dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) _dest_addr: *mut c_void,
    pub(crate) _handle: *mut Fid,
    pub(crate) tx_attr: *mut TransmitAttributes,
    pub(crate) rx_attr: *mut ReceiveAttributes,
    pub(crate) ep_attr: *mut EndpointAttributes,
    pub(crate) domain_attr: *mut DomainAttributes,
    pub(crate) fabric_attr: *mut FabricAttributes,
    pub(crate) _nic: *mut c_void,
}

/// What every object of libfabric's begins with.
#[repr(C)]
pub(crate) struct Fid {
    pub(crate) _fclass: usize,
    pub(crate) _context: *mut c_void,
    pub(crate) ops: *const FidOps,
}

#[repr(C)]
pub(crate) struct FidOps {
    pub(crate) _size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
    pub(crate) _ops_open: Unused,
}

#[repr(C)]
pub(crate) struct Fabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FabricOps,
}

#[repr(C)]
pub(crate) struct FabricOps {
    pub(crate) _size: usize,
    pub(crate) domain: unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
    pub(crate) _passive_ep: Unused,
    pub(crate) _eq_open: Unused,
    pub(crate) _wait_open: Unused,
    pub(crate) trywait: unsafe extern "C" fn(*mut Fabric, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub(crate) struct Domain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const DomainOps,
    pub(crate) mr: *const RegionOps,
}

#[repr(C)]
pub(crate) struct DomainOps {
    pub(crate) _size: usize,
    pub(crate) av_open: unsafe extern "C" fn(
        *mut Domain,
        *mut AddressesAttributes,
        *mut *mut Addresses,
        *mut c_void,
    ) -> c_int,
    pub(crate) cq_open:
        unsafe extern "C" fn(*mut Domain, *mut QueueAttributes, *mut *mut Queue, *mut c_void) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Endpoint, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct RegionOps {
    pub(crate) _size: usize,
    /// Object, memory, bytes, access, offset, wanted key, flags, into, context.
    pub(crate) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Region,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(crate) struct Region {
    pub(crate) fid: Fid,
    pub(crate) mem_desc: *mut c_void,
    pub(crate) key: u64,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct AddressesAttributes {
    pub(crate) kind: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: usize,
    pub(crate) map_addr: usize,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct Addresses {
    pub(crate) fid: Fid,
    pub(crate) ops: *const AddressesOps,
}

#[repr(C)]
pub(crate) struct AddressesOps {
    pub(crate) _size: usize,
    pub(crate) insert:
        unsafe extern "C" fn(*mut Addresses, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

#[repr(C)]
#[derive(Default)]
pub(crate) struct QueueAttributes {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: usize,
}

#[repr(C)]
pub(crate) struct Queue {
    pub(crate) fid: Fid,
    pub(crate) ops: *const QueueOps,
}

#[repr(C)]
pub(crate) struct QueueOps {
    pub(crate) _size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut Queue, *mut c_void, usize) -> isize,
    pub(crate) _readfrom: Unused,
    pub(crate) readerr: unsafe extern "C" fn(*mut Queue, *mut ErrorEntry, u64) -> isize,
}

/// A completion.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
}

#[repr(C)]
pub(crate) struct ErrorEntry {
    pub(crate) op_context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) _len: usize,
    pub(crate) _buf: *mut c_void,
    pub(crate) _data: u64,
    pub(crate) _tag: u64,
    pub(crate) _olen: usize,
    pub(crate) err: c_int,
    pub(crate) _prov_errno: c_int,
    pub(crate) _err_data: *mut c_void,
    pub(crate) _err_data_size: usize,
}

#[repr(C)]
pub(crate) struct Endpoint {
    pub(crate) fid: Fid,
    pub(crate) _ops: *const c_void,
    pub(crate) cm: *const NameOps,
    pub(crate) msg: *const MessageOps,
    pub(crate) rma: *const RemoteOps,
    pub(crate) tagged: *const TaggedOps,
}

#[repr(C)]
pub(crate) struct NameOps {
    pub(crate) _size: usize,
    pub(crate) _setname: Unused,
    pub(crate) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(crate) struct MessageOps {
    pub(crate) _size: usize,
    /// Endpoint, memory, bytes, descriptor, from, context.
    pub(crate) recv:
        unsafe extern "C" fn(*mut Endpoint, *mut c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    pub(crate) _recvv: Unused,
    pub(crate) _recvmsg: Unused,
    pub(crate) send:
        unsafe extern "C" fn(*mut Endpoint, *const c_void, usize, *mut c_void, u64, *mut c_void) -> isize,
    pub(crate) _sendv: Unused,
    pub(crate) _sendmsg: Unused,
    pub(crate) inject: unsafe extern "C" fn(*mut Endpoint, *const c_void, usize, u64) -> isize,
}

#[repr(C)]
pub(crate) struct TaggedOps {
    pub(crate) _size: usize,
    /// As for messages; before the context: tag, and bits of it that may differ.
    pub(crate) recv: unsafe extern "C" fn(
        *mut Endpoint,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) _recvv: Unused,
    pub(crate) _recvmsg: Unused,
    pub(crate) send: unsafe extern "C" fn(
        *mut Endpoint,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) _sendv: Unused,
    pub(crate) _sendmsg: Unused,
    pub(crate) inject: unsafe extern "C" fn(*mut Endpoint, *const c_void, usize, u64, u64) -> isize,
}

#[repr(C)]
pub(crate) struct RemoteOps {
    pub(crate) _size: usize,
    pub(crate) _read: Unused,
    pub(crate) _readv: Unused,
    pub(crate) _readmsg: Unused,
    /// Endpoint, memory, bytes, descriptor, to, address there, key, context.
    pub(crate) write: unsafe extern "C" fn(
        *mut Endpoint,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
}

#[cfg(test)]
mod tests;
