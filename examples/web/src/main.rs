//! Makes the JavaScript module of the page's program: `svdvals-gpu-web PROGRAM.wasm FOLDER`.

#[cfg(not(target_arch = "wasm32"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(program), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("two arguments are needed: PROGRAM.wasm FOLDER".into());
    };
    let mut bindgen = wasm_bindgen_cli_support::Bindgen::new();
    bindgen.input_path(program).web(true)?.omit_default_module_path(false).typescript(false);
    Ok(bindgen.generate(folder)?)
}

#[cfg(target_arch = "wasm32")]
fn main() {}
