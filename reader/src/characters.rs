//! Characters that no plain text has.

/// Say whether a text has control characters, or others that some reader takes for a line's end or for a space.
pub fn are_odd(bytes: &[u8]) -> bool {
    // Without a branch, so that the compiler looks at many bytes at once.
    let mut control = false;
    let mut foreign = false;
    for &byte in bytes {
        control |= (byte < b' ') & (byte != b'\n') & (byte != b'\t') | (byte == 0x7f);
        foreign |= byte >= 0x80;
    }
    control || (foreign && has_odd_foreign(bytes))
}

/// Say whether one of the characters beyond ASCII is odd, by their bytes in UTF-8.
fn has_odd_foreign(bytes: &[u8]) -> bool {
    bytes.windows(3).any(|each| match each[0] {
        // Controls, the line end U+0085, and the space that does not break.
        0xc2 => each[1] <= 0xa0,
        // The space of Ogham.
        0xe1 => each[1] == 0x9a && each[2] == 0x80,
        // Spaces of all widths, U+2028 and U+2029, U+202F and U+205F.
        0xe2 => match each[1] {
            0x80 => each[2] <= 0x8a || matches!(each[2], 0xa8 | 0xa9 | 0xaf),
            0x81 => each[2] == 0x9f,
            _ => false,
        },
        // The wide space.
        0xe3 => each[1] == 0x80 && each[2] == 0x80,
        // The byte order mark, and what is no character.
        0xef => (each[1] == 0xbb && each[2] == 0xbf) || (each[1] == 0xbf && each[2] >= 0xbe),
        _ => false,
    })
}
