//! Values as C.

use cupeer_spec::function::ArgSpec;
use cupeer_spec::value::Format;

/// Fingerprints stay unread: handles are variables.
const TEXT_FORMAT: Format = Format { json: false, fingerprint: |_| 0 };
/// Bytes of the unit in which sizes are written.
const MIB: u64 = 1 << 20;

/// Returns the value of an argument that is no object, no handle, and no structure: a number, or a name of cuda.h.
pub fn format_literal(bytes: &[u8], spec: &ArgSpec) -> Option<String> {
    let text = print_value(bytes, spec)?;
    match text.strip_prefix("0x") {
        Some(digits) if ["usize", "u64"].contains(&spec.type_word()) => {
            Some(format_number(u64::from_str_radix(digits, 16).ok()?))
        }
        Some(_) => None,
        None => Some(text),
    }
}

/// Returns the initializer of a structure; `None` for other arguments, and for the parameters of copies, which are recorded in another
/// form than cuda.h has them.
pub fn format_structure(bytes: &[u8], spec: &ArgSpec) -> Option<String> {
    let is_ours = !target_type(spec).starts_with("CUDA_");
    print_value(bytes, spec).filter(|text| is_ours && text.starts_with('{')).map(|text| format_initializer(&text))
}

/// Returns the initializer of an array with these elements.
pub fn format_array(bytes: &[u8], spec: &ArgSpec) -> Option<String> {
    let elements = bytes.chunks_exact(spec.stored_element_size().max(1)).map(|element| print_value(element, spec));
    let elements: Vec<String> = elements.map(|text| Some(format_initializer(&text?))).collect::<Option<_>>()?;
    (!elements.is_empty()).then(|| format!("{{{}}}", elements.join(", ")))
}

/// Returns the first part of the name of a structure: `allocation_prop` for `CUmemAllocationProp`.
pub fn variable_stem(c_type: &str) -> String {
    let name = c_type.trim_start_matches("CU").trim_start_matches("mem");
    let mut stem = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !stem.is_empty() {
            stem.push('_');
        }
        stem.push(c.to_ascii_lowercase());
    }
    stem
}

/// Returns a number of bytes, or another number of 64 bits.
pub fn format_number(number: u64) -> String {
    match number {
        0 => "0".to_owned(),
        MIB => "MiB".to_owned(),
        _ if number.is_multiple_of(MIB) && number >> 44 == 0 => format!("{} * MiB", number / MIB),
        _ if number >> 31 == 0 => number.to_string(),
        _ => format!("{number:#x}"),
    }
}

/// Returns the type in C that a pointer argument points to, or of a plain argument.
pub fn target_type(spec: &ArgSpec) -> String {
    spec.c_type().trim_start_matches("const ").trim_end_matches(" *").to_owned()
}

fn print_value(bytes: &[u8], spec: &ArgSpec) -> Option<String> {
    let mut text = String::new();
    (spec.arg_type().print_stored)(bytes, &mut text, TEXT_FORMAT).ok()?;
    Some(text)
}

/// Turns `{location={type=A, id=2}}` into `{.location = {.type = A, .id = 2}}`.
fn format_initializer(text: &str) -> String {
    let mut written = String::new();
    let mut rest = text;
    while let Some(end) = rest.find(['=', '{', ',', '}']) {
        let (word, sign) = (&rest[..end], &rest[end..=end]);
        let (space, word) = word.split_at(word.len() - word.trim_start().len());
        written += space;
        written += &if sign == "=" { format!(".{word} = ") } else { format!("{word}{sign}") };
        rest = &rest[end + 1..];
    }
    written + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::function::FnId;

    #[test]
    fn structures_are_initializers() {
        assert_eq!(
            format_initializer("{location={type=A, id=2}, flags=B}"),
            "{.location = {.type = A, .id = 2}, .flags = B}"
        );
        assert_eq!(format_initializer("7"), "7");
    }

    #[test]
    fn sizes_are_readable() {
        let sizes = [0, 4096, MIB, 4 * MIB, 0x7f00_0000_1234].map(format_number);
        assert_eq!(sizes, ["0", "4096", "MiB", "4 * MiB", "0x7f0000001234"]);
    }

    #[test]
    fn arguments_are_written_as_cuda_h_has_them() {
        let (_, flags) = FnId::cuIpcOpenMemHandle_v2.spec().find_argument("Flags").expect("an argument");
        assert_eq!(format_literal(&[1, 0, 0, 0], flags).as_deref(), Some("CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"));
        let (_, prop) = FnId::cuMemCreate.spec().find_argument("prop").expect("an argument");
        let bytes: Vec<u8> = [1, 1, 1, 0].into_iter().flat_map(i32::to_le_bytes).collect();
        let written = format_structure(&bytes, prop).expect("a structure");
        assert!(written.starts_with("{.type = CU_MEM_ALLOCATION_TYPE_PINNED, "), "{written}");
        assert_eq!(variable_stem(&target_type(prop)), "allocation_prop");
    }
}
