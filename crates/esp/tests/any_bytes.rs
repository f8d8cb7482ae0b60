//! Any bytes may come as frames; the fuzz target `esp` tries many more.

#[path = "../../base/tests/bytes/mod.rs"]
mod bytes;
#[path = "../../../fuzz/src/esp.rs"]
mod esp;

#[test]
fn any_bytes_may_come() {
    bytes::try_many(esp::any_bytes);
}
