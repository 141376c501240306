//! With the feature `bindgen`: makes `src/bindings.rs` anew from `cxi.h`. Without it: nothing.
//!
//! ```sh
//! cargo check -p cxi-sys --features bindgen   # then look at `git diff`
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
        // Both architectures of interest share these layouts (abi.md); one file serves both.
        .clang_args([
            "--target=x86_64-unknown-linux-gnu",
            "-std=gnu11",
            "-fsigned-char",
        ])
        .allowlist_file(".*cxi\\.h")
        // Values that come from a library or a device may be any number.
        .default_enum_style(bindgen::EnumVariation::Consts)
        .prepend_enum_name(false)
        // Prose belongs to cxi.h.
        .generate_comments(false)
        .use_core()
        .formatter(bindgen::Formatter::Prettyplease)
        .disable_header_comment()
        .raw_line("// Made by build.rs from cxi.h; not edited by hand.")
        .generate()
        .expect("cxi.h parses")
        .write_to_file("src/bindings.rs")
        .expect("src/bindings.rs can be written");
}
