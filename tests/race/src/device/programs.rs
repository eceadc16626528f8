//! Shaders, parsed and compiled once for all devices that are given the same text.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, atomic::Ordering},
};

use wgpu::{
    Features,
    naga::{
        front::wgsl::{Frontend, Options},
        valid::{Capabilities, ValidationFlags, Validator},
    },
};

use super::{Module, lock};
use crate::{compile::compile, program::Program};

type Modules = HashMap<(String, Features), Arc<Module>>;
type Programs = HashMap<(String, Option<u64>), Arc<Program>>;

static MODULES: Mutex<Option<Modules>> = Mutex::new(None);
static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

/// The WGSL, parsed and validated for a device with these features.
pub(super) fn module(label: String, source: String, features: Features) -> Result<Arc<Module>, String> {
    let key = (source, features);
    if let Some(module) = lock(&MODULES).get_or_insert_default().get(&key) {
        return Ok(module.clone());
    }
    let mut capabilities = Capabilities::empty();
    for (feature, capability) in [
        (Features::IMMEDIATES, Capabilities::IMMEDIATES),
        (Features::SHADER_F64, Capabilities::FLOAT64),
        (Features::SHADER_F16, Capabilities::SHADER_FLOAT16),
        (Features::SUBGROUP, Capabilities::SUBGROUP),
        (Features::MEMORY_DECORATION_COHERENT, Capabilities::MEMORY_DECORATION_COHERENT),
    ] {
        capabilities.set(capability, features.contains(feature));
    }
    // The detector's own small shaders are wrong in ways that the validator sees too.
    let flags =
        if label == "small" { ValidationFlags::all() - ValidationFlags::CONTROL_FLOW_UNIFORMITY } else { ValidationFlags::all() };
    let source = &key.0;
    let mut options = Options::new();
    options.capabilities = capabilities;
    let module = Frontend::new_with_options(options).parse(source).map_err(|e| e.emit_to_string(source))?;
    let info = Validator::new(flags, capabilities).validate(&module).map_err(|e| e.emit_to_string(source))?;
    let module = Arc::new(Module { label, source: source.clone(), module, info });
    lock(&MODULES).get_or_insert_default().insert(key, module.clone());
    Ok(module)
}

/// The program of an entry point, its arithmetic rewritten from the seed `loose` if there is one.
pub(super) fn program(module: &Module, entry: Option<&str>, loose: Option<u64>) -> Result<Arc<Program>, String> {
    let key = (module.source.clone(), loose);
    if let Some(program) = lock(&PROGRAMS).get_or_insert_default().get(&key) {
        return Ok(program.clone());
    }
    let program = Arc::new(compile(&module.module, &module.info, &module.source, entry, &module.label, loose)?);
    // The WGSL that findings tell lines of.
    if let Ok(directory) = std::env::var("RACE_DUMP") {
        let _ = std::fs::create_dir_all(&directory);
        let _ = std::fs::write(format!("{directory}/{}-{}.wgsl", program.label, program.id), &module.source);
    }
    lock(&PROGRAMS).get_or_insert_default().insert(key, program.clone());
    Ok(program)
}

/// Accesses, barriers and subgroup operations of all programs: how many there are, and those that have never run.
pub fn coverage() -> (usize, Vec<String>) {
    let mut all = BTreeMap::new();
    for program in lock(&PROGRAMS).iter().flat_map(|programs| programs.values()) {
        for (site, hit) in program.sites.iter().zip(&program.hits) {
            // Generated, one for each of as many buffers as a matrix may have.
            let of_dense = ["read_entry", "write_entry"].iter().any(|name| site.function.ends_with(name));
            let of_registers = !matches!(site.what, "barrier" | "subgroup operation" | "atomic access")
                && !program
                    .workgroup
                    .iter()
                    .map(|w| &w.name)
                    .chain(program.binds.iter().filter(|b| !b.uniform).map(|b| &b.name))
                    .any(|n| *n == site.var);
            if of_dense || of_registers {
                continue;
            }
            let function = site.function.rsplit(" > ").next().unwrap_or_default();
            let key = (program.label.clone(), function.to_owned(), site.what, site.text.clone());
            *all.entry(key).or_insert(false) |= hit.load(Ordering::Relaxed) != 0;
        }
    }
    let never = all.iter().filter(|(_, hit)| !**hit).map(|((a, b, c, d), _)| format!("{a}, {b}: {c}: {d}"));
    (all.len(), never.collect())
}
