//! Any bytes may come over a connection; the fuzz target `tcp` tries many more.

#[path = "../../base/tests/bytes/mod.rs"]
mod bytes;
#[path = "../../../fuzz/src/tcp.rs"]
mod tcp;

#[test]
fn any_bytes_may_come() {
    bytes::try_many(tcp::any_bytes);
}
