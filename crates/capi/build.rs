//! Gives the shared library its name for the dynamic linker: `libcastell.so.MAJOR`, before 1.0 `libcastell.so.0.MINOR`.

fn main() {
    let part = |name: &str| std::env::var(name).expect("cargo sets the version");
    let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
    let version = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libcastell.so.{version}");
    println!("cargo:rerun-if-changed=build.rs");
}
