//! Store instructions of x86-64: their length, width, and where the stored value is.
//!
//! Only the forms that compilers and libraries use for stores of up to 64 bytes. Where an
//! instruction stores more than 8 bytes, only the value of the first 8 matters to doorbells.

/// Where the first 8 bytes of a stored value are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredValue {
    /// A general register, by its number in instructions.
    Register(u8),
    /// A general register, which gets the previous value of the memory.
    Exchange(u8),
    Immediate(u64),
    /// The low half of a vector register, XMM0 to XMM15.
    Vector(u8),
    /// In a register that signal handlers do not find easily, or in memory.
    Elsewhere,
}

/// A store to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Bytes of the instruction.
    pub length: u8,
    /// Bytes that it stores.
    pub width: u8,
    pub value: StoredValue,
}

/// Prefixes of an instruction, in whichever form it has them.
#[derive(Clone, Copy, Default)]
struct Prefixes {
    /// The mandatory prefix as VEX encodes it: none, 66, F3, F2.
    kind: u8,
    wide: bool,
    /// Bits 3 and 4 of the number of the register operand.
    high: u8,
    rex: bool,
}

/// Reads the bytes of one instruction.
struct InstructionReader<F> {
    next: F,
    length: u8,
}

impl<F: FnMut() -> u8> InstructionReader<F> {
    fn byte(&mut self) -> u8 {
        self.length += 1;
        (self.next)()
    }

    /// Reads a little-endian number of `bytes` bytes and extends its sign.
    fn signed(&mut self, bytes: u8) -> u64 {
        let mut value = 0;
        for index in 0..bytes {
            value |= u64::from(self.byte()) << (8 * index);
        }
        let unused = 64 - 8 * u32::from(bytes);
        ((value << unused) as i64 >> unused) as u64
    }

    /// Skips an operand in memory. Returns bits 3 to 5 of its first byte: a register, or an
    /// extension of the opcode. `None` if the operand is a register.
    fn memory(&mut self) -> Option<u8> {
        let modrm = self.byte();
        let (mode, operand) = (modrm >> 6, modrm & 7);
        let base = match (mode, operand) {
            (3, _) => return None,
            (_, 4) => self.byte() & 7,
            _ => operand,
        };
        match (mode, base) {
            (1, _) => _ = self.signed(1),
            (2, _) | (0, 5) => _ = self.signed(4),
            _ => {}
        }
        Some(modrm >> 3 & 7)
    }
}

/// Decodes the instruction whose bytes `next` returns; `None` if it is not one of the known stores.
/// Reads no bytes behind the instruction.
pub fn decode(next: impl FnMut() -> u8) -> Option<Store> {
    let mut code = InstructionReader { next, length: 0 };
    let mut prefixes = Prefixes::default();
    let opcode = loop {
        match code.byte() {
            0x66 if prefixes.kind == 0 => prefixes.kind = 1,
            0x66 => {}
            0xf3 => prefixes.kind = 2,
            0xf2 => prefixes.kind = 3,
            // Segments and the size of addresses, which the address of the fault includes.
            0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x67 => {}
            byte => break byte,
        }
        // No instruction is longer than 15 bytes.
        if code.length > 8 {
            return None;
        }
    };
    let opcode = match opcode {
        0x40..=0x4f => {
            prefixes.rex = true;
            prefixes.wide = opcode & 8 != 0;
            prefixes.high = opcode << 1 & 8;
            code.byte()
        }
        0x62 | 0xc4 | 0xc5 => return extended(&mut code, opcode),
        _ => opcode,
    };
    let (width, value) = if opcode == 0x0f {
        match code.byte() {
            0x38 => direct(&mut code, prefixes)?,
            0xc3 => register(&mut code, prefixes)?,
            opcode => vector(&mut code, prefixes, opcode, 16)?,
        }
    } else {
        general(&mut code, prefixes, opcode)?
    };
    let length = code.length;
    Some(Store { length, width, value })
}

/// MOV and XCHG.
fn general<F: FnMut() -> u8>(
    code: &mut InstructionReader<F>,
    prefixes: Prefixes,
    opcode: u8,
) -> Option<(u8, StoredValue)> {
    if !matches!(opcode, 0x86..=0x89 | 0xc6 | 0xc7) {
        return None;
    }
    let width = match (opcode & 1, prefixes.wide, prefixes.kind) {
        (0, _, _) => 1,
        (_, true, _) => 8,
        (_, _, 1) => 2,
        _ => 4,
    };
    let field = code.memory()?;
    // Without REX these are the second bytes of registers.
    let is_second_byte = width == 1 && !prefixes.rex && field >= 4;
    let value = match opcode {
        0x88 | 0x89 if !is_second_byte => StoredValue::Register(field | prefixes.high),
        0x86 | 0x87 if !is_second_byte => StoredValue::Exchange(field | prefixes.high),
        0xc6 | 0xc7 if field == 0 => StoredValue::Immediate(code.signed(width.min(4))),
        _ => return None,
    };
    Some((width, value))
}

/// MOVNTI and MOVDIRI.
fn register<F: FnMut() -> u8>(
    code: &mut InstructionReader<F>,
    prefixes: Prefixes,
) -> Option<(u8, StoredValue)> {
    let field = code.memory()?;
    let width = if prefixes.wide { 8 } else { 4 };
    Some((width, StoredValue::Register(field | prefixes.high)))
}

/// MOVDIRI and MOVDIR64B, whose operand in memory is the source.
fn direct<F: FnMut() -> u8>(
    code: &mut InstructionReader<F>,
    prefixes: Prefixes,
) -> Option<(u8, StoredValue)> {
    match (code.byte(), prefixes.kind) {
        (0xf9, 0) => register(code, prefixes),
        (0xf8, 1) => code.memory().map(|_| (64, StoredValue::Elsewhere)),
        _ => None,
    }
}

/// Instructions with a VEX or EVEX prefix, which begins with `first`.
fn extended<F: FnMut() -> u8>(code: &mut InstructionReader<F>, first: u8) -> Option<Store> {
    let mut prefixes = Prefixes::default();
    let mut byte = code.byte();
    let high = if byte & 0x80 == 0 { 8 } else { 0 };
    let width = match first {
        0xc5 => 16 << (byte >> 2 & 1),
        0xc4 => {
            if byte & 0x1f != 1 {
                return None;
            }
            byte = code.byte();
            16 << (byte >> 2 & 1)
        }
        _ => {
            if byte & 7 != 1 {
                return None;
            }
            prefixes.high = if byte & 0x10 == 0 { 16 } else { 0 };
            byte = code.byte();
            let last = code.byte();
            // Masked stores write only some of the bytes.
            if last & 7 != 0 || last >> 5 & 3 == 3 {
                return None;
            }
            16 << (last >> 5 & 3)
        }
    };
    prefixes.kind = byte & 3;
    prefixes.high |= high;
    prefixes.wide = first != 0xc5 && byte & 0x80 != 0;
    let opcode = code.byte();
    let (width, value) = vector(code, prefixes, opcode, width)?;
    let length = code.length;
    Some(Store { length, width, value })
}

/// Stores of vector registers, of which `full` bytes are stored unless the opcode says less.
fn vector<F: FnMut() -> u8>(
    code: &mut InstructionReader<F>,
    prefixes: Prefixes,
    opcode: u8,
    full: u8,
) -> Option<(u8, StoredValue)> {
    let width = match (opcode, prefixes.kind) {
        (0x11, 2) => 4,
        (0x11, 3) | (0x13 | 0x17, 0 | 1) | (0xd6, 1) => 8,
        (0x11 | 0x29 | 0x2b, 0 | 1) | (0x7f, 1..=3) | (0xe7, 1) => full,
        (0x7e, 1) if prefixes.wide => 8,
        (0x7e, 1) => 4,
        _ => return None,
    };
    let number = code.memory()? | prefixes.high;
    let value = match number {
        // The high half of the register.
        _ if opcode == 0x17 => StoredValue::Elsewhere,
        0..16 => StoredValue::Vector(number),
        _ => StoredValue::Elsewhere,
    };
    Some((width, value))
}

#[cfg(test)]
mod tests {
    use super::StoredValue::*;
    use super::*;

    /// Instructions as the assembler writes them. `None`: not a known store.
    #[test]
    fn decodes_stores() {
        for (text, expected) in [
            ("48 89 07", Some((8, Register(0)))),       // movq %rax, (%rdi)
            ("4c 89 4c 24 40", Some((8, Register(9)))), // movq %r9, 0x40(%rsp)
            ("4d 89 bc cd 00 10 00 00", Some((8, Register(15)))), // movq %r15, 0x1000(%r13,%rcx,8)
            ("48 89 1d 45 23 01 00", Some((8, Register(3)))), // movq %rbx, 0x12345(%rip)
            ("49 89 14 24", Some((8, Register(2)))),    // movq %rdx, (%r12)
            ("48 89 14 ad 10 00 00 00", Some((8, Register(2)))), // movq %rdx, 0x10(,%rbp,4)
            ("64 49 89 30", Some((8, Register(6)))),    // movq %rsi, %fs:(%r8)
            ("89 0f", Some((4, Register(1)))),          // movl %ecx, (%rdi)
            ("44 89 5f 08", Some((4, Register(11)))),   // movl %r11d, 8(%rdi)
            ("66 89 07", Some((2, Register(0)))),       // movw %ax, (%rdi)
            ("40 88 37", Some((1, Register(6)))),       // movb %sil, (%rdi)
            ("88 27", None),                            // movb %ah, (%rdi)
            ("c6 07 07", Some((1, Immediate(7)))),      // movb $7, (%rdi)
            ("66 c7 07 fe ff", Some((2, Immediate(u64::MAX - 1)))), // movw $-2, (%rdi)
            ("c7 87 80 00 00 00 0a 00 00 00", Some((4, Immediate(10)))), // movl $10, 0x80(%rdi)
            // movq $-1, 0x80(%rdi)
            ("48 c7 87 80 00 00 00 ff ff ff ff", Some((8, Immediate(u64::MAX)))),
            // movq $10, 0x12345(%rip)
            ("48 c7 05 45 23 01 00 0a 00 00 00", Some((8, Immediate(10)))),
            ("4c 87 17", Some((8, Exchange(10)))), // xchgq %r10, (%rdi)
            ("49 0f c3 00", Some((8, Register(0)))), // movnti %rax, (%r8)
            ("44 0f c3 07", Some((4, Register(8)))), // movnti %r8d, (%rdi)
            ("48 0f 38 f9 0f", Some((8, Register(1)))), // movdiri %rcx, (%rdi)
            ("66 0f 38 f8 3e", Some((64, Elsewhere))), // movdir64b (%rsi), %rdi
            ("0f 11 0f", Some((16, Vector(1)))),   // movups %xmm1, (%rdi)
            ("44 0f 29 a7 00 04 00 00", Some((16, Vector(12)))), // movaps %xmm12, 0x400(%rdi)
            ("66 41 0f 11 09", Some((16, Vector(1)))), // movupd %xmm1, (%r9)
            ("66 0f 7f 1f", Some((16, Vector(3)))), // movdqa %xmm3, (%rdi)
            ("f3 44 0f 7f 3f", Some((16, Vector(15)))), // movdqu %xmm15, (%rdi)
            ("66 0f e7 07", Some((16, Vector(0)))), // movntdq %xmm0, (%rdi)
            ("0f 2b 07", Some((16, Vector(0)))),   // movntps %xmm0, (%rdi)
            ("66 0f d6 17", Some((8, Vector(2)))), // movq %xmm2, (%rdi)
            ("66 48 0f 7e 17", Some((8, Vector(2)))), // movq %xmm2,(%rdi)
            ("66 0f 7e 17", Some((4, Vector(2)))), // movd %xmm2, (%rdi)
            ("0f 13 17", Some((8, Vector(2)))),    // movlps %xmm2, (%rdi)
            ("0f 17 17", Some((8, Elsewhere))),    // movhps %xmm2, (%rdi)
            ("f2 0f 11 17", Some((8, Vector(2)))), // movsd %xmm2, (%rdi)
            ("f3 0f 11 17", Some((4, Vector(2)))), // movss %xmm2, (%rdi)
            ("c5 7a 7f 0f", Some((16, Vector(9)))), // vmovdqu %xmm9, (%rdi)
            ("c4 c1 7e 7f 4e 20", Some((32, Vector(1)))), // vmovdqu %ymm1, 0x20(%r14)
            // vmovups %ymm13, 0x1000(%rdi,%r9)
            ("c4 21 7c 11 ac 0f 00 10 00 00", Some((32, Vector(13)))),
            ("c5 fd e7 0f", Some((32, Vector(1)))), // vmovntdq %ymm1, (%rdi)
            ("c4 c1 79 d6 19", Some((8, Vector(3)))), // vmovq %xmm3, (%r9)
            ("62 f1 fe 48 7f 2f", Some((64, Vector(5)))), // vmovdqu64 %zmm5, (%rdi)
            ("62 51 fe 48 7f 67 01", Some((64, Vector(12)))), // vmovdqu64 %zmm12, 0x40(%r15)
            ("62 e1 7c 48 11 0f", Some((64, Elsewhere))), // vmovups %zmm17, (%rdi)
            ("62 61 7d 48 e7 37", Some((64, Elsewhere))), // vmovntdq %zmm30, (%rdi)
            // vmovdqu32 %ymm24, 0x1234(%rdi)
            ("62 61 7e 28 7f 87 34 12 00 00", Some((32, Elsewhere))),
            ("62 f1 fe 49 7f 2f", None), // vmovdqu64 %zmm5, (%rdi){%k1}
            ("f0 48 01 07", None),       // lock addq %rax, (%rdi)
            ("48 83 07 01", None),       // addq $1, (%rdi)
            ("48 ab", None),             // stosq
            ("f3 a4", None),             // rep movsb
            ("48 8b 07", None),          // movq (%rdi), %rax
            ("48 89 c7", None),          // movq %rax, %rdi
            ("f7 17", None),             // notl (%rdi)
        ] {
            let parse = |byte| u8::from_str_radix(byte, 16).unwrap();
            let bytes: Vec<u8> = text.split(' ').map(parse).collect();
            let mut rest = bytes.iter();
            let found = decode(|| *rest.next().unwrap_or_else(|| panic!("{text}: read beyond")));
            let expected =
                expected.map(|(width, value)| Store { length: bytes.len() as u8, width, value });
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn gives_up_on_endless_prefixes() {
        assert_eq!(decode(|| 0x66), None);
    }
}
