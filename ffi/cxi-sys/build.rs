//! Regenerates `src/bindings.rs` from `cxi.h` if the feature `bindgen` is enabled; else does nothing.
//!
//! ```sh
//! cargo check -p cxi-sys --features bindgen   # then review `git diff`
//! ```

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=cxi.h");
    #[cfg(feature = "bindgen")]
    bindings();
}

#[cfg(feature = "bindgen")]
fn bindings() {
    println!("cargo::rerun-if-changed=src/bindings.rs");
    bindgen::builder()
        .header("cxi.h")
        // x86_64 and aarch64 have the same layouts (abi.md), so one file serves both.
        .clang_args([
            "--target=x86_64-unknown-linux-gnu",
            "-std=gnu11",
            "-fsigned-char",
        ])
        .allowlist_file(".*cxi\\.h")
        // Libraries and devices may return unknown values.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        // The comments remain in cxi.h.
        .generate_comments(false)
        .use_core()
        .formatter(bindgen::Formatter::Prettyplease)
        .disable_header_comment()
        .raw_line("// Made by build.rs from cxi.h; not edited by hand.")
        .generate()
        .expect("cannot generate bindings from cxi.h")
        .write_to_file("src/bindings.rs")
        .expect("cannot write src/bindings.rs");
}
