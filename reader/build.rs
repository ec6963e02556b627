//! Link the unwinder in: to load `libgcc_s.so` takes longer than to read a small document.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("gnu") {
        return;
    }
    let linker = env::var("RUSTC_LINKER").unwrap_or_else(|_| "cc".to_owned());
    let Ok(said) = Command::new(linker).arg("-print-file-name=libgcc_eh.a").output() else { return };
    let archive = String::from_utf8_lossy(&said.stdout).trim().to_owned();
    // A compiler that has none repeats the name.
    if !Path::new(&archive).is_absolute() {
        return;
    }
    let folder = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    // The standard library asks for libgcc_s.so, and the linker takes this text in its place.
    fs::write(Path::new(&folder).join("libgcc_s.so"), format!("INPUT(\"{archive}\")\n"))
        .expect("OUT_DIR can be written");
    println!("cargo::rustc-link-search=native={folder}");
}
