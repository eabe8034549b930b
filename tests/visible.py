"""visible.py ARCHIVE OUT [AR PREFIX...]: copies an archive of objects, with the symbols that are hidden in them made visible, without
the objects whose names begin so (AR is the program that takes them out).

The test programs share one library of weft in which they see every function. The library itself is compiled with hidden symbols; its
own machine code, not code compiled for tests, is what they run: the visibility is two bits of an entry in an object's symbol table
(ELF, st_other), and linking with -Bsymbolic keeps the library's calls within it direct.
"""
import struct
import subprocess
import sys

SHT_SYMTAB = 2
STV_MASK, STV_DEFAULT, STV_HIDDEN = 3, 0, 2
STB_GNU_UNIQUE = 10  # of C++ headers, CUDA's among them: code for a library refers to them otherwise if they are visible
MEMBER_HEADER = 60


def make_visible(data, start):
    """Of the object that begins at data[start]."""
    if data[start:start + 4] != b'\x7fELF':
        return
    wide = data[start + 4] == 2
    order = '<' if data[start + 5] == 1 else '>'
    sections, = struct.unpack_from(order + ('Q' if wide else 'I'), data, start + (0x28 if wide else 0x20))
    step, count = struct.unpack_from(order + 'HH', data, start + (0x3A if wide else 0x2E))
    if count == 0:  # more than fit: in the first section's size
        count, = struct.unpack_from(order + ('Q' if wide else 'I'), data, start + sections + (0x20 if wide else 0x14))
    other = 5 if wide else 13
    for i in range(count):
        at = start + sections + i * step
        kind, = struct.unpack_from(order + 'I', data, at + 4)
        if kind != SHT_SYMTAB:
            continue
        offset, size = struct.unpack_from(order + ('QQ' if wide else 'II'), data, at + (0x18 if wide else 0x10))
        entry, = struct.unpack_from(order + ('Q' if wide else 'I'), data, at + (0x38 if wide else 0x24))
        for symbol in range(start + offset + other, start + offset + size, entry):
            if data[symbol] & STV_MASK == STV_HIDDEN and data[symbol - 1] >> 4 != STB_GNU_UNIQUE:
                data[symbol] = data[symbol] & ~STV_MASK | STV_DEFAULT


def main():
    source, target, *without = sys.argv[1:]
    with open(source, 'rb') as file:
        data = bytearray(file.read())
    if data[:8] != b'!<arch>\n':
        sys.exit(f'{source}: not an archive that has its objects within it')
    at = 8
    while at + MEMBER_HEADER <= len(data):
        size = int(data[at + 48:at + 58])
        make_visible(data, at + MEMBER_HEADER)
        at += MEMBER_HEADER + size + size % 2
    with open(target, 'wb') as file:
        file.write(data)
    if without:
        members = subprocess.run([without[0], 't', target], check=True, capture_output=True, text=True).stdout.split()
        taken = [member for member in members if member.startswith(tuple(without[1:]))]
        if taken:
            subprocess.run([without[0], 'd', target, *taken], check=True)


main()
